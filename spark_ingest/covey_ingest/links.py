"""The links of messages, by author and incarnation, as rows; and ranges of numbers by these rows. All in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.decode import Integers

LINK = ["author", "incarnation"]

MessageNumber: TypeAlias = tuple[str, str, int]
"""Author, incarnation and `seq`."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of numbers, by the row of the link that they belong to; ascending and apart within each."""

    owners: Integers
    firsts: Integers
    lasts: Integers

    def hold(self, owners: Integers, numbers: Integers) -> npt.NDArray[np.bool_]:
        """Say of each number whether a range of its owner holds it: the last that begins before it must reach it."""
        count = len(self.owners)
        after = np.concatenate([np.zeros(count, np.int8), np.ones(len(owners), np.int8)])
        every, begins = np.concatenate([self.owners, owners]), np.concatenate([self.firsts, numbers])
        order = np.lexsort((after, begins, every))
        rows = np.where(order < count, np.arange(len(order)), -1)
        before = np.maximum.accumulate(rows) if len(rows) else rows
        asked = order >= count
        nearest = order[before[asked]]
        number = order[asked] - count
        held = np.zeros(len(owners), np.bool_)
        there = before[asked] >= 0
        nearest, number = nearest[there], number[there]
        held[number] = (self.owners[nearest] == owners[number]) & (self.lasts[nearest] >= numbers[number])
        return held

    def joined(self, owners: Integers, numbers: Integers) -> Ranges:
        """Return them with numbers that they do not hold; what touches becomes one."""
        every, firsts = np.concatenate([self.owners, owners]), np.concatenate([self.firsts, numbers])
        order = np.lexsort((firsts, every))
        every, firsts, lasts = every[order], firsts[order], np.concatenate([self.lasts, numbers])[order]
        apart = np.ones(len(order) + 1, np.bool_)
        apart[1:-1] = (every[1:] != every[:-1]) | (firsts[1:] - 1 > lasts[:-1])
        return Ranges(every[apart[:-1]], firsts[apart[:-1]], lasts[apart[1:]])

    def where(self, mask: npt.NDArray[np.bool_]) -> Ranges:
        """Return some of them."""
        return Ranges(self.owners[mask], self.firsts[mask], self.lasts[mask])


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a micro-batch, each once: its link's row, its number, and how often it is there."""

    links: pa.Table
    owners: Integers
    numbers: Integers
    counts: Integers

    @classmethod
    def of(cls, table: pa.Table) -> Messages:
        """Take rows of author, incarnation and `seq`."""
        links, owners = links_of(table)
        numbers = table["seq"].to_numpy()
        order = np.lexsort((numbers, owners))
        owners, numbers = owners[order], numbers[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])
        counts = np.diff(np.append(np.flatnonzero(first), len(order)))
        return cls(links, owners[first], numbers[first], counts)

    def keys(self, mask: npt.NDArray[np.bool_]) -> list[MessageNumber]:
        """Return some of them by name, sorted."""
        links = self.links.take(pa.array(self.owners[mask]))
        return sorted(zip(*(links[name].to_pylist() for name in LINK), self.numbers[mask].tolist(), strict=True))


def links_of(table: pa.Table) -> tuple[pa.Table, Integers]:
    """Return the links that a table names, each once, and of each of its rows the link's row."""
    authors, incarnations = (table[name].cast(pa.string()).combine_chunks().dictionary_encode() for name in LINK)
    many = max(len(incarnations.dictionary), 1)
    pairs = authors.indices.to_numpy().astype(np.int64) * many + incarnations.indices.to_numpy()
    links, owners = np.unique(pairs, return_inverse=True)
    texts = [authors.dictionary.take(pa.array(links // many)), incarnations.dictionary.take(pa.array(links % many))]
    return pa.table(texts, LINK), owners


def rows_of(links: pa.Table, asked: pa.Table) -> Integers:
    """Return the row of each asked link, by author and incarnation, or -1."""
    known, wanted = (pc.binary_join_element_wise(*each.columns, " ").combine_chunks() for each in (links, asked))
    found = pc.fill_null(pc.index_in(wanted, value_set=known), -1)
    rows: Integers = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows
