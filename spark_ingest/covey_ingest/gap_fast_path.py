"""Authors whose numbers go on: what a micro-batch brings of them is taken in by columns, not judged.

Most of a fleet sends the next numbers, or what has come before; where a network fails, many leave out some, and may
bring them later. The fast path takes an author if all of this holds for each incarnation that the micro-batch names,
and no loss record is its own:

1. An incarnation that is known: no gap that stands lies above its highest number. Its new numbers lie above that, or
   fill whole gaps; all of them above the lowest number of any incarnation of the author (rule 1 of `gaps`). With the
   holes between them it has no more gaps than are remembered.
2. An author that is not known: it has one incarnation, whose numbers run from 1 without a hole.

All others are for `gaps` to judge. `tests/unit/covey_ingest/test_gap_fast_path.py` compares the two ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey_ingest.decode import Integers
from covey_ingest.gap_columns import RANGES_REMEMBERED, GapColumns
from covey_ingest.links import Ranges, links_of, rows_of
from covey_ingest.schema import TIMESTAMP

Mask = npt.NDArray[np.bool_]

_LINK = ["author", "incarnation"]


@dataclass(frozen=True, slots=True)
class Spans:
    """The state's ranges, as flat arrays: those of row r are `ends[r]` to `ends[r + 1]`."""

    ends: Integers
    firsts: Integers
    lasts: Integers

    @classmethod
    def of(cls, numbers: pa.Table) -> Spans:
        """Read the lists of the state's rows."""
        firsts, lasts = (numbers[name].combine_chunks() for name in ("firsts", "lasts"))
        ends = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(pc.list_value_length(firsts).to_numpy(zero_copy_only=False), out=ends[1:])
        flat = [pc.list_flatten(each).to_numpy(zero_copy_only=False) for each in (firsts, lasts)]
        return cls(ends, *flat)

    @property
    def lowest(self) -> Integers:
        """The lowest number of each row; 1 where it has none."""
        return self._at(self.firsts, self.ends[:-1], 1)

    @property
    def highest(self) -> Integers:
        """The highest number of each row; 0 where it has none."""
        return self._at(self.lasts, self.ends[1:] - 1, 0)

    def _at(self, values: Integers, places: Integers, empty: int) -> Integers:
        found = np.full(len(self.ends) - 1, empty, np.int64)
        there = np.diff(self.ends) > 0
        found[there] = values[places[there]]
        return found

    def ranges(self) -> Ranges:
        """Return them by row."""
        owners = np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))
        return Ranges(owners, self.firsts, self.lasts)


@dataclass(frozen=True, slots=True)
class ArrivedNumbers:
    """A micro-batch by incarnation: who named it last, and its numbers, each once and ascending."""

    links: pa.Table
    collectors: pa.Array
    received_us: Integers
    owners: Integers
    numbers: Integers

    @classmethod
    def of(cls, messages: pa.Table) -> ArrivedNumbers:
        """Take a row for each message; of those that came at the same time the last one's collector counts."""
        links, owners = links_of(messages)
        received_us = messages["received_at"].cast(pa.int64()).to_numpy()
        order = np.lexsort((np.arange(len(owners)), received_us, owners))
        last = order[np.flatnonzero(np.append(owners[order][1:] != owners[order][:-1], True))] if len(order) else order
        numbers = messages["batch_number"].to_numpy()
        order = np.lexsort((numbers, owners))
        owners, numbers = owners[order], numbers[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])
        collectors = messages["collector"].cast(pa.string()).combine_chunks().take(pa.array(last))
        return cls(links, collectors, received_us[last], owners[first], numbers[first])

    def runs(self, wanted: Mask) -> tuple[Integers, Integers, Integers]:
        """Return of each incarnation how many of the wanted numbers it has, the lowest and the highest."""
        owners, numbers = self.owners[wanted], self.numbers[wanted]
        lowest = np.full(len(self.links), np.iinfo(np.int64).max)
        highest = np.zeros(len(self.links), np.int64)
        np.minimum.at(lowest, owners, numbers)
        np.maximum.at(highest, owners, numbers)
        return np.bincount(owners, minlength=len(self.links)), lowest, highest

    def holes(self, wanted: Mask, top: Integers) -> Ranges:
        """Return what lies between the wanted numbers of each incarnation, and between `top` and the first of them."""
        owners, numbers = self.owners[wanted], self.numbers[wanted]
        before = top[owners]
        follows = np.flatnonzero(owners[1:] == owners[:-1]) + 1
        before[follows] = numbers[follows - 1]
        apart = numbers > before + 1
        return Ranges(owners[apart], before[apart] + 1, numbers[apart] - 1)

    def where(self, wanted: Mask) -> ArrivedNumbers:
        """Return it with some incarnations alone."""
        mask, links = pa.array(wanted), np.cumsum(wanted) - 1
        kept = wanted[self.owners]
        owners = links[self.owners[kept]]
        return ArrivedNumbers(
            self.links.filter(mask), self.collectors.filter(mask), self.received_us[wanted], owners, self.numbers[kept]
        )


def take_fast_path(
    numbers: pa.Table, rows: pa.Table, messages: pa.Table, losing: pa.Array
) -> tuple[pa.Table, pa.Table, pa.Array]:
    """Return the state and the gaps after the fast path's authors, and the authors that are to be judged.

    `messages` has a row for each message, `losing` the authors of loss records.
    """
    spans, batch, gaps = Spans.of(numbers), ArrivedNumbers.of(messages), GapColumns.of(rows, numbers)
    row = rows_of(numbers.select(_LINK), batch.links)
    fresh = ~spans.ranges().hold(row[batch.owners], batch.numbers)
    top = np.append(spans.highest, 0)[row]
    late = fresh & (batch.numbers <= top[batch.owners])
    came = gaps.came(row[batch.owners[late]], batch.numbers[late])
    filled = came == gaps.spans.lasts - gaps.spans.firsts + 1
    holes = batch.holes(fresh & ~late, top)
    count, lowest, highest = batch.runs(fresh)
    # rule 1
    known = (row >= 0) & (top > 0) & (gaps.highest(len(numbers))[row] <= top)
    known &= (count == 0) | (lowest > np.append(_of_author(numbers, spans.lowest - 1), 0)[row])
    known &= gaps.sums(came, len(numbers))[row] == np.bincount(batch.owners[late], minlength=len(row))
    known &= gaps.sums((came > 0) & ~filled, len(numbers))[row] == 0
    standing = gaps.sums(np.ones(len(came)), len(numbers))[row]
    known &= standing + np.bincount(holes.owners, minlength=len(row)) <= RANGES_REMEMBERED
    # rule 2
    goes_on = known | ((row < 0) & (highest == count) & _alone(numbers, batch))
    slow = [batch.links["author"].filter(pa.array(~goes_on)), losing]
    judged = pc.unique(pa.chunked_array([part for each in slow for part in _chunks(each)], pa.string()))
    fast = ~_is_in(batch.links["author"], judged)
    after = _counted(numbers, batch.where(fast))
    now_us = _of_author(after, after["heard_at"].cast(pa.int64()).to_numpy())
    closed = gaps.closed(filled & np.isin(gaps.spans.owners, row[fast]), now_us)
    mine = holes.where(fast[holes.owners])
    return after, closed.opened(after, Ranges(row[mine.owners], mine.firsts, mine.lasts), now_us), judged


def _chunks(texts: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return list(texts.chunks) if isinstance(texts, pa.ChunkedArray) else [texts]


def _of_author(numbers: pa.Table, values: Integers) -> Integers:
    """Return of each row of the state the highest value that its author has in any."""
    authors = numbers["author"].combine_chunks().dictionary_encode().indices.to_numpy()
    highest = np.zeros(authors.max() + 1 if len(authors) else 0, np.int64)
    np.maximum.at(highest, authors, values)
    found: Integers = highest[authors]
    return found


def _alone(numbers: pa.Table, batch: ArrivedNumbers) -> Mask:
    """Say of each incarnation whether its author is not known, and has no other one in the micro-batch."""
    authors = batch.links["author"].combine_chunks().dictionary_encode().indices.to_numpy()
    once: Mask = np.bincount(authors)[authors] == 1 if len(authors) else np.ones(0, np.bool_)
    return once & ~_is_in(batch.links["author"], numbers["author"])


def _is_in(texts: pa.ChunkedArray, known: pa.Array | pa.ChunkedArray) -> Mask:
    values = known.combine_chunks() if isinstance(known, pa.ChunkedArray) else known
    found: Mask = pc.is_in(texts, value_set=values).to_numpy().astype(np.bool_)
    return found


_ROWS_TOGETHER = 1_000_000


def recount(messages: ds.Scanner, schema: pa.Schema) -> pa.Table:
    """Return the state of all numbers that came, by files in any order; with no more of them in memory than need be."""
    numbers, waiting = schema.empty_table(), list[pa.RecordBatch]()
    for part in messages.to_batches():
        waiting.append(part)
        if sum(map(len, waiting)) >= _ROWS_TOGETHER:
            numbers, waiting = _counted(numbers, ArrivedNumbers.of(pa.Table.from_batches(waiting))), []
    return _counted(numbers, ArrivedNumbers.of(pa.Table.from_batches(waiting))) if waiting else numbers


def _counted(numbers: pa.Table, batch: ArrivedNumbers) -> pa.Table:
    """Return the state with a batch's numbers, wherever they lie."""
    row = rows_of(numbers.select(_LINK), batch.links)
    new = np.flatnonzero(row < 0)
    row[new] = len(numbers) + np.arange(len(new))
    ranges, owners = Spans.of(numbers).ranges(), row[batch.owners]
    fresh = ~ranges.hold(owners, batch.numbers)
    ranges = ranges.joined(owners[fresh], batch.numbers[fresh])
    count = len(numbers) + len(new)
    received_us = np.concatenate([numbers["heard_at"].cast(pa.int64()).to_numpy(), np.zeros(len(new), np.int64)])
    newer = np.flatnonzero(batch.received_us >= received_us[row])
    source = np.arange(count)
    source[row[newer]] = len(numbers) + newer
    received_us[row[newer]] = batch.received_us[newer]
    collectors = pa.concat_arrays([*_chunks(numbers["collector"]), batch.collectors]).take(pa.array(source))
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(ranges.owners, minlength=count), out=ends[1:])
    lists = [pa.ListArray.from_arrays(pa.array(ends), pa.array(each)) for each in (ranges.firsts, ranges.lasts)]
    links = pa.concat_tables([numbers.select(_LINK), batch.links.take(pa.array(new))]).columns
    zeros = np.zeros(len(new), np.int64)
    kept = [np.concatenate([numbers[name].to_numpy(), zeros]) for name in ("floor", "forgotten")]
    columns = [*links, collectors, pa.array(received_us).cast(TIMESTAMP), *map(pa.array, kept), *lists]
    return pa.table(columns, schema=numbers.schema.remove_metadata()).combine_chunks()
