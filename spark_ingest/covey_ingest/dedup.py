"""Messages that a vault holds more than once: landed by two collectors, or imported again.

A message is known by its author, incarnation and `seq`; where these are in the table, also by its boot and number.
Those that are there stand in one small file beside the tables,
replaced whole after each micro-batch: for each author and incarnation the ranges of `seq` whose readings are in the
table. Its size depends on the number of devices and on the holes in their sequences, of which it keeps 16 for each;
`bench/ingest.py` measures it, and what comparing costs, for 100,000 devices. A micro-batch is compared with it by one
row for each message, in numpy; no reading is shuffled (but those of messages that it holds twice).

1. Beyond `unsure_upto` the ranges are exact: what is not in them is new. What is in them is a repeat if the table has
   it with the same boot and batch number. Else it is another message: of a device whose state was written back bit for
   bit, which gave a number to one collector before, and to another one after.
2. More than `EXACT_RANGES` ranges are not kept: the oldest are forgotten, and `unsure_upto` is their end. What lies up
   to there may be a repeat or late; the table itself is asked. So the file is bounded, and still nothing is lost.
3. A batch that is committed and not in the file yet is taken in from the table before the next one is compared. So
   tables of an earlier version, or a file that was deleted, need no step of their own.
4. A file whose last batch is not in the table is ahead of it (somebody took a batch away): it is made anew, since
   what it calls a repeat would be lost. So is a file of another form. What a Delta table has merged
   is then found in the merged files, which lie beside the folders.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey_ingest.decode import Integers
from covey_ingest.state_file import read_state, replace_state

EXACT_RANGES = 16
"""Holes that a device's other messages and its losses leave in one incarnation, before the oldest are forgotten."""

SCHEMA = pa.schema(
    [
        ("author", pa.string()),
        ("incarnation", pa.string()),
        ("unsure_upto", pa.int64()),
        ("firsts", pa.list_(pa.int64())),
        ("lasts", pa.list_(pa.int64())),
    ]
)

_LINK = ["author", "incarnation"]
MESSAGE = [*_LINK, "seq", "boot", "batch_number"]
"""What no two messages have in common, even of two lives of a device."""

MessageKey: TypeAlias = tuple[str, str, int, str, int]
_Number: TypeAlias = tuple[str, str, int]


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
class SeenMessages:
    """The messages that are in the table: of each link those in its ranges, and perhaps any up to `unsure_upto`."""

    links: pa.Table
    unsure_upto: Integers
    ranges: Ranges

    @classmethod
    def of(cls, table: pa.Table) -> SeenMessages:
        """Read the file's rows."""
        lists = {name: table[name].combine_chunks() for name in ("firsts", "lasts")}
        owners = pc.list_parent_indices(lists["firsts"]).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = [pc.list_flatten(each).to_numpy(zero_copy_only=False) for each in lists.values()]
        return cls(table.select(_LINK), table["unsure_upto"].to_numpy(), Ranges(owners, *flat))

    def to_table(self) -> pa.Table:
        """Return the file's rows, sorted by author and incarnation."""
        order = pc.sort_indices(self.links, [(name, "ascending") for name in _LINK])
        rows = np.empty(len(order), np.int64)
        rows[order.to_numpy()] = np.arange(len(order))
        owners = rows[self.ranges.owners]
        ascending = np.argsort(owners, kind="stable")
        ends = np.zeros(len(order) + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=len(order)), out=ends[1:])
        lists = [
            pa.ListArray.from_arrays(pa.array(ends), pa.array(each[ascending]))
            for each in (self.ranges.firsts, self.ranges.lasts)
        ]
        links = self.links.take(order)
        unsure = pa.array(self.unsure_upto[order.to_numpy()])
        return pa.table([*links.columns, unsure, *lists], schema=SCHEMA)

    def with_messages(self, messages: Messages) -> SeenMessages:
        """Return it after a micro-batch, bounded by rule 2; links that the batch does not name stay as they are."""
        rows = rows_of(self.links, messages.links)
        fresh = rows < 0
        rows[fresh] = len(self.links) + np.arange(np.count_nonzero(fresh))
        links = pa.concat_tables([self.links, messages.links.filter(pa.array(fresh))])
        unsure = np.concatenate([self.unsure_upto, np.zeros(np.count_nonzero(fresh), np.int64)])
        owners, numbers = rows[messages.owners], messages.numbers
        new = (numbers > unsure[owners]) & ~self.ranges.hold(owners, numbers)
        touched = np.zeros(len(links), np.bool_)
        touched[owners] = True
        named = touched[self.ranges.owners]
        after = self.ranges.where(named).joined(owners[new], numbers[new])
        ends = np.cumsum(np.bincount(after.owners, minlength=len(links)))
        forgotten = ends[after.owners] - np.arange(len(after.owners)) > EXACT_RANGES
        old = after.where(forgotten)
        np.maximum.at(unsure, old.owners, old.lasts)
        others, kept = self.ranges.where(~named), after.where(~forgotten)
        return SeenMessages(
            links,
            unsure,
            Ranges(
                np.concatenate([others.owners, kept.owners]),
                np.concatenate([others.firsts, kept.firsts]),
                np.concatenate([others.lasts, kept.lasts]),
            ),
        )


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

    def keys(self, mask: npt.NDArray[np.bool_]) -> list[_Number]:
        """Return some of them by name, sorted."""
        links = self.links.take(pa.array(self.owners[mask]))
        return sorted(zip(*(links[name].to_pylist() for name in _LINK), self.numbers[mask].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Repeats:
    """What of a micro-batch is there more often than once, as rows of `MESSAGE`."""

    known: list[MessageKey]
    """In the table already."""
    doubled: list[MessageKey]
    """Not in the table, but more than once in this micro-batch."""
    copies: int
    """Messages to leave out, in all."""


def path_in(tables: Path) -> Path:
    """Return where the file lies: out of sight of whoever reads the tables."""
    return tables / ".heard" / "heard.parquet"


def update(tables: Path) -> pa.Table:
    """Bring the file up to what is committed (rules 3 and 4), and return its rows."""
    seen, last = read_state(path_in(tables), SCHEMA)
    folders = {int(folder.name.removeprefix("batch=")): folder for folder in (tables / "readings").glob("batch=*")}
    if last not in folders or seen.schema.names != SCHEMA.names:
        seen, last = SCHEMA.empty_table(), -1
        for merged in sorted((tables / "readings").glob("*.parquet")):
            seen = SeenMessages.of(seen).with_messages(_messages(merged)).to_table()
    missing = sorted(number for number in folders if number > last)
    for number in missing:
        if any(folders[number].glob("*.parquet")):  # else merged and deleted
            seen = SeenMessages.of(seen).with_messages(_messages(folders[number])).to_table()
    if missing:
        replace_state(path_in(tables), seen, missing[-1])
    return seen


def find(tables: Path, staged: Path) -> Repeats:
    """Compare a staged micro-batch with what the committed ones brought."""
    messages = _messages(staged)
    seen = SeenMessages.of(update(tables))
    owners = rows_of(seen.links, messages.links)[messages.owners]
    unsure = (owners >= 0) & (messages.numbers <= np.append(seen.unsure_upto, 0)[owners])
    asked = seen.ranges.hold(owners, messages.numbers) | unsure
    suspects = asked | (messages.counts > 1)
    there = Counter(_whole(staged, messages.keys(suspects)))
    in_table = set(_whole(tables / "readings", messages.keys(asked)))
    known = sorted(there.keys() & in_table)
    doubled = sorted(key for key, count in there.items() if count > 1 and key not in in_table)
    copies = sum(there[key] for key in known) + sum(there[key] - 1 for key in doubled)
    return Repeats(known, doubled, copies)


def _messages(folder: Path) -> Messages:
    """Return the messages in a folder of readings, by the first reading of each."""
    parquet = ds.ParquetFileFormat(dictionary_columns=set(_LINK))
    columns = [*_LINK, "seq"]
    return Messages.of(ds.dataset(folder, format=parquet).to_table(columns, filter=ds.field("index") == 0))


def _whole(folder: Path, numbers: list[_Number]) -> list[MessageKey]:
    """Return the messages of a table that have these numbers: one scan of six columns, for what may be repeats."""
    if not numbers:
        return []
    asked = (
        (ds.field("index") == 0)
        & ds.field("author").isin(sorted({author for author, _, _ in numbers}))
        & ds.field("seq").isin(sorted({number for _, _, number in numbers}))
    )
    found = ds.dataset(folder, format="parquet").to_table(MESSAGE, filter=asked)
    wanted = set(numbers)
    return [key for key in zip(*(found[name].to_pylist() for name in MESSAGE), strict=True) if key[:3] in wanted]


def links_of(table: pa.Table) -> tuple[pa.Table, Integers]:
    """Return the links that a table names, each once, and of each of its rows the link's row."""
    authors, incarnations = (table[name].cast(pa.string()).combine_chunks().dictionary_encode() for name in _LINK)
    many = max(len(incarnations.dictionary), 1)
    pairs = authors.indices.to_numpy().astype(np.int64) * many + incarnations.indices.to_numpy()
    links, owners = np.unique(pairs, return_inverse=True)
    texts = [authors.dictionary.take(pa.array(links // many)), incarnations.dictionary.take(pa.array(links % many))]
    return pa.table(texts, _LINK), owners


def rows_of(links: pa.Table, asked: pa.Table) -> Integers:
    """Return the row of each asked link, by author and incarnation, or -1."""
    known, wanted = (pc.binary_join_element_wise(*each.columns, " ").combine_chunks() for each in (links, asked))
    found = pc.fill_null(pc.index_in(wanted, value_set=known), -1)
    rows: Integers = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows
