"""Which messages are in `readings`, bounded for each device and exact: the state behind `dedup`.

Of each link (author and incarnation) ranges of `seq`; of each author as many links as are remembered.

1. Beyond a link's `unsure_upto` its ranges are exact: what is not in them is new. What lies up to there may be either:
   the table is asked.
2. More than `EXACT_RANGES` ranges of a link are not kept: the oldest are forgotten, and `unsure_upto` is their end.
3. Of an author those `LINKS_REMEMBERED` links are kept that messages came of last. Of the others a Bloom filter of
   `FILTER_BYTES` remembers that there were such: a link that is not kept and not in the filter is new for certain. Of
   one that is perhaps in the filter nothing is known (`UNKNOWN`) until it is made anew from the table: `recalled`.
   With 100 forgotten incarnations one new one in a thousand is asked about for nothing, with 1,000 every second one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.decode import Integers
from covey_ingest.links import LINK, Messages, Ranges, rows_of

EXACT_RANGES = 16
"""Holes that a device's other messages and its losses leave in one incarnation, before the oldest are forgotten."""

LINKS_REMEMBERED = 4
"""Incarnations of an author: a board begins one whenever it starts."""

FILTER_BYTES = 256

UNKNOWN = 2**63 - 1
"""The `unsure_upto` of a link of which the table may have any message."""

SCHEMA = pa.schema(
    [
        ("author", pa.string()),
        ("incarnation", pa.string()),  # empty in the row of an author's filter
        ("last_batch", pa.int64()),  # the last micro-batch that named it
        ("unsure_upto", pa.int64()),
        ("firsts", pa.list_(pa.int64())),
        ("lasts", pa.list_(pa.int64())),
        ("forgotten", pa.binary()),
    ]
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SeenMessages:
    """The messages that are in the table: of each link those in its ranges, and perhaps any up to `unsure_upto`."""

    links: pa.Table
    last_batch: Integers
    unsure_upto: Integers
    ranges: Ranges
    forgotten: dict[str, bytes]
    """The filters, by author."""

    @classmethod
    def of(cls, table: pa.Table) -> SeenMessages:
        """Read the file's rows."""
        is_filter = pc.equal(table["incarnation"], "")
        filters, kept = table.filter(is_filter), table.filter(pc.invert(is_filter))
        forgotten = dict(zip(filters["author"].to_pylist(), filters["forgotten"].to_pylist(), strict=True))
        lists = {name: kept[name].combine_chunks() for name in ("firsts", "lasts")}
        owners = pc.list_parent_indices(lists["firsts"]).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = [pc.list_flatten(each).to_numpy(zero_copy_only=False) for each in lists.values()]
        last_batch, unsure_upto = (kept[name].to_numpy() for name in ("last_batch", "unsure_upto"))
        return cls(kept.select(LINK), last_batch, unsure_upto, Ranges(owners, *flat), forgotten)

    def to_table(self) -> pa.Table:
        """Return the file's rows, sorted by author and incarnation; then the filters."""
        order = pc.sort_indices(self.links, [(name, "ascending") for name in LINK])
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
        numbers = [pa.array(each[order.to_numpy()]) for each in (self.last_batch, self.unsure_upto)]
        links = self.links.take(order)
        kept = pa.table([*links.columns, *numbers, *lists, pa.nulls(len(order), pa.binary())], schema=SCHEMA)
        count = len(self.forgotten)
        none = pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.int64()))
        zeros = pa.array(np.zeros(count, np.int64))
        bits = pa.array([*self.forgotten.values()], pa.binary())
        filters = [pa.array([*self.forgotten], pa.string()), pa.repeat("", count), zeros, zeros, none, none, bits]
        return pa.concat_tables([kept, pa.table(filters, schema=SCHEMA).sort_by("author")]).combine_chunks()

    def may_hold(self, messages: Messages) -> Mask:
        """Say of each message whether it may be in the table; once `unknown` links are recalled, rules 1 and 2 say."""
        owners = rows_of(self.links, messages.links)[messages.owners]
        unsure = (owners >= 0) & (messages.numbers <= np.append(self.unsure_upto, 0)[owners])
        held: Mask = self.ranges.hold(owners, messages.numbers) | unsure
        return held

    def unknown(self, links: pa.Table) -> pa.Table:
        """Return those of some links of which only the table knows what it has (rule 3)."""
        rows = rows_of(self.links, links)
        known = (rows >= 0) & (np.append(self.unsure_upto, 0)[rows] != UNKNOWN)
        return links.filter(pa.array(~known & ((rows >= 0) | self._perhaps(links))))

    def recalled(self, links: pa.Table, found: Messages, batch: int) -> SeenMessages:
        """Return it with unknown links made anew from all messages of theirs that the table has."""
        rows = rows_of(self.links, links)
        grown, rows = self._grown(links, batch)
        grown.unsure_upto[rows] = 0
        return grown.taking(found, batch)

    def with_messages(self, messages: Messages, batch: int) -> SeenMessages:
        """Return it after a micro-batch, within its bounds."""
        return self.taking(messages, batch).bounded()

    def taking(self, messages: Messages, batch: int) -> SeenMessages:
        """Return it with messages, within rule 2; links that these do not name stay as they are."""
        grown, rows = self._grown(messages.links, batch)
        unsure, count = grown.unsure_upto, len(grown.links)
        owners, numbers = rows[messages.owners], messages.numbers
        new = (numbers > unsure[owners]) & ~self.ranges.hold(owners, numbers)
        touched = np.zeros(count, np.bool_)
        touched[owners] = True
        named = touched[self.ranges.owners]
        after = self.ranges.where(named).joined(owners[new], numbers[new])
        ends = np.cumsum(np.bincount(after.owners, minlength=count))
        dropped = ends[after.owners] - np.arange(len(after.owners)) > EXACT_RANGES
        old = after.where(dropped)
        np.maximum.at(unsure, old.owners, old.lasts)
        return replace(grown, ranges=_both(self.ranges.where(~named), after.where(~dropped)))

    def bounded(self) -> SeenMessages:
        """Return it within rule 3."""
        authors = self.links["author"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        order = np.lexsort((self.last_batch, authors))
        ends = np.cumsum(np.bincount(authors))
        old = np.zeros(len(authors), np.bool_)
        old[order] = ends[authors[order]] - np.arange(len(order)) > LINKS_REMEMBERED
        if not old.any():
            return self
        forgotten, gone = dict(self.forgotten), self.links.filter(pa.array(old))
        for author, name in zip(*(gone[column].to_pylist() for column in LINK), strict=True):
            forgotten[author] = _with_name(forgotten.get(author, bytes(FILTER_BYTES)), name)
        kept, rows = ~old, np.cumsum(~old) - 1
        left = self.ranges.where(kept[self.ranges.owners])
        return SeenMessages(
            self.links.filter(pa.array(kept)),
            self.last_batch[kept],
            self.unsure_upto[kept],
            Ranges(rows[left.owners], left.firsts, left.lasts),
            forgotten,
        )

    def _perhaps(self, links: pa.Table) -> Mask:
        """Say of each link whether its author's filter has it."""
        names = zip(*(links[name].to_pylist() for name in LINK), strict=True)
        held = [author in self.forgotten and _in_filter(self.forgotten[author], name) for author, name in names]
        return np.array(held, np.bool_)

    def _grown(self, links: pa.Table, batch: int) -> tuple[SeenMessages, Integers]:
        """Return it with these links, and the row of each."""
        rows = rows_of(self.links, links)
        fresh = rows < 0
        new, count = links.filter(pa.array(fresh)), np.count_nonzero(fresh)
        rows[fresh] = len(self.links) + np.arange(count)
        unsure = np.concatenate([self.unsure_upto, np.where(self._perhaps(new), UNKNOWN, 0)])
        last = np.concatenate([self.last_batch, np.full(count, batch)])
        last[rows] = batch
        grown = pa.concat_tables([self.links, new.cast(self.links.schema)])
        return SeenMessages(grown, last, unsure, self.ranges, self.forgotten), rows


def _both(one: Ranges, other: Ranges) -> Ranges:
    return Ranges(
        np.concatenate([one.owners, other.owners]),
        np.concatenate([one.firsts, other.firsts]),
        np.concatenate([one.lasts, other.lasts]),
    )


def _places(name: str) -> list[int]:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return [int.from_bytes(digest[place : place + 2]) % (8 * FILTER_BYTES) for place in range(0, 8, 2)]


def _in_filter(bits: bytes, name: str) -> bool:
    return all(bits[place // 8] >> place % 8 & 1 for place in _places(name))


def _with_name(bits: bytes, name: str) -> bytes:
    changed = bytearray(bits)
    for place in _places(name):
        changed[place // 8] |= 1 << place % 8
    return bytes(changed)
