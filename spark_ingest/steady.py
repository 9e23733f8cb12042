"""Authors whose numbers go on as they did: what a micro-batch brings of them is taken in by columns, not judged.

Most of a fleet sends the next numbers, or what has come before, and no gap of it opens, closes or gets a reason. An
author is steady if that holds for each incarnation that the micro-batch names, and no loss record is its own:

1. An incarnation that is known: its new numbers follow its highest one without a hole, no gap that is not closed lies
   above that, and the lowest numbers of the author's other incarnations do not either (rule 1 of `gaps`).
2. An author that is not known: it has one incarnation, whose numbers run from 1 without a hole.

All others are for `gaps` to judge. `tests/unit/spark_ingest/test_steady.py` compares the two ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_ingest.decode import Integers
from spark_ingest.repeats import Ranges, links_of, rows_of
from spark_ingest.schema import TIMESTAMP

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
        flat = [pc.list_flatten(each).to_numpy(zero_copy_only=False).copy() for each in (firsts, lasts)]
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

    def column(self, values: Integers) -> pa.ListArray:
        """Return flat values as lists again."""
        return pa.ListArray.from_arrays(pa.array(self.ends.astype(np.int32)), pa.array(values))


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch by incarnation: who named it last, and its numbers, each once and ascending."""

    links: pa.Table
    collectors: pa.Array
    heard_us: Integers
    owners: Integers
    numbers: Integers

    @classmethod
    def of(cls, messages: pa.Table) -> Batch:
        """Take a row for each message; of those that came at the same time the last one's collector counts."""
        links, owners = links_of(messages)
        heard = messages["received_at"].cast(pa.int64()).to_numpy()
        order = np.lexsort((np.arange(len(owners)), heard, owners))
        last = order[np.flatnonzero(np.append(owners[order][1:] != owners[order][:-1], True))] if len(order) else order
        numbers = messages["batch_number"].to_numpy()
        order = np.lexsort((numbers, owners))
        owners, numbers = owners[order], numbers[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])
        collectors = messages["collector"].cast(pa.string()).combine_chunks().take(pa.array(last))
        return cls(links, collectors, heard[last], owners[first], numbers[first])

    def runs(self, wanted: Mask) -> tuple[Integers, Integers, Integers]:
        """Return of each incarnation how many of the wanted numbers it has, the lowest and the highest."""
        owners, numbers = self.owners[wanted], self.numbers[wanted]
        lowest = np.full(len(self.links), np.iinfo(np.int64).max)
        highest = np.zeros(len(self.links), np.int64)
        np.minimum.at(lowest, owners, numbers)
        np.maximum.at(highest, owners, numbers)
        return np.bincount(owners, minlength=len(self.links)), lowest, highest


def take_in_steady(
    numbers: pa.Table, rows: pa.Table, messages: pa.Table, losing: pa.Array
) -> tuple[pa.Table, pa.Array]:
    """Return the state with the steady authors' news, and the authors that are to be judged.

    `messages` has a row for each message, `losing` the authors of loss records.
    """
    spans, batch = Spans.of(numbers), Batch.of(messages)
    row = rows_of(numbers.select(_LINK), batch.links)
    known = row >= 0
    owners = row[batch.owners]
    fresh = ~spans.ranges().hold(owners, batch.numbers)
    count, lowest, highest = batch.runs(fresh)
    top = np.append(spans.highest, 0)[row]
    goes_on = (count == 0) | ((lowest > top) & (highest == top + count))
    goes_on &= ~known | ((top > 0) & (np.append(_reach(numbers, rows, spans), 0)[row] <= top))
    goes_on &= known | _alone(numbers, batch)
    unsteady = [batch.links["author"].filter(pa.array(~goes_on)), losing]
    judged = pc.unique(pa.chunked_array([part for each in unsteady for part in _chunks(each)], pa.string()))
    steady = ~_is_in(batch.links["author"], judged)
    return _with_news(numbers, spans, batch, row, np.where(steady, np.maximum(highest, top), -1)), judged


def _chunks(texts: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return list(texts.chunks) if isinstance(texts, pa.ChunkedArray) else [texts]


def _reach(numbers: pa.Table, rows: pa.Table, spans: Spans) -> Integers:
    """Return of each row the number that its highest must have reached, for nothing to be judged (rule 1 above)."""
    authors = numbers["author"].combine_chunks().dictionary_encode().indices.to_numpy()
    others = np.zeros(authors.max() + 1 if len(authors) else 0, np.int64)
    np.maximum.at(others, authors, spans.lowest - 1)
    reach: Integers = others[authors]
    unclosed = rows.filter(pc.and_(pc.is_null(rows["closed_at"]), pc.not_equal(rows["state"], "forgotten")))
    place = rows_of(numbers.select(_LINK), unclosed.select(_LINK))
    np.maximum.at(reach, place[place >= 0], unclosed["last"].to_numpy()[place >= 0])
    return reach


def _alone(numbers: pa.Table, batch: Batch) -> Mask:
    """Say of each incarnation whether its author is not known, and has no other one in the micro-batch."""
    authors = batch.links["author"].combine_chunks().dictionary_encode().indices.to_numpy()
    once: Mask = np.bincount(authors)[authors] == 1 if len(authors) else np.ones(0, np.bool_)
    return once & ~_is_in(batch.links["author"], numbers["author"])


def _is_in(texts: pa.ChunkedArray, known: pa.Array | pa.ChunkedArray) -> Mask:
    values = known.combine_chunks() if isinstance(known, pa.ChunkedArray) else known
    found: Mask = pc.is_in(texts, value_set=values).to_numpy().astype(np.bool_)
    return found


def _with_news(numbers: pa.Table, spans: Spans, batch: Batch, row: Integers, highest: Integers) -> pa.Table:
    """Return the state with the highest numbers of those incarnations where they are not -1."""
    grown = np.flatnonzero((row >= 0) & (highest >= 0))
    spans.lasts[spans.ends[row[grown] + 1] - 1] = highest[grown]
    heard = numbers["heard_at"].cast(pa.int64()).to_numpy().copy()
    newer = grown[batch.heard_us[grown] >= heard[row[grown]]]
    heard[row[newer]] = batch.heard_us[newer]
    source = np.arange(len(numbers))
    source[row[newer]] = len(numbers) + newer
    collectors = pa.concat_arrays([*_chunks(numbers["collector"]), batch.collectors]).take(pa.array(source))
    columns = {"collector": collectors, "heard_at": pa.array(heard).cast(TIMESTAMP)}
    columns |= {"lasts": spans.column(spans.lasts)}
    after = numbers
    for name, values in columns.items():
        after = after.set_column(after.schema.get_field_index(name), numbers.schema.field(name), values)
    new = np.flatnonzero((row < 0) & (highest >= 0))
    links, zeros = batch.links.take(pa.array(new)), pa.array(np.zeros(len(new), np.int64))
    ends = pa.array(np.arange(len(new) + 1, dtype=np.int32))
    lists = [pa.ListArray.from_arrays(ends, pa.array(each)) for each in (np.ones(len(new), np.int64), highest[new])]
    heard_new = pa.array(batch.heard_us[new]).cast(TIMESTAMP)
    told = [*links.columns, batch.collectors.take(pa.array(new)), heard_new, zeros, zeros, *lists]
    return pa.concat_tables([after, pa.table(told, schema=numbers.schema.remove_metadata())]).combine_chunks()


_ROWS_TOGETHER = 1_000_000


def recount(messages: ds.Scanner, schema: pa.Schema) -> pa.Table:
    """Return the state of all numbers that came, by files in any order; with no more of them in memory than need be."""
    numbers, waiting = schema.empty_table(), list[pa.RecordBatch]()
    for part in messages.to_batches():
        waiting.append(part)
        if sum(map(len, waiting)) >= _ROWS_TOGETHER:
            numbers, waiting = _counted(numbers, Batch.of(pa.Table.from_batches(waiting))), []
    return _counted(numbers, Batch.of(pa.Table.from_batches(waiting))) if waiting else numbers


def _counted(numbers: pa.Table, batch: Batch) -> pa.Table:
    """Return the state with a batch's numbers, wherever they lie."""
    row = rows_of(numbers.select(_LINK), batch.links)
    new = np.flatnonzero(row < 0)
    row[new] = len(numbers) + np.arange(len(new))
    ranges, owners = Spans.of(numbers).ranges(), row[batch.owners]
    fresh = ~ranges.hold(owners, batch.numbers)
    ranges = ranges.joined(owners[fresh], batch.numbers[fresh])
    count = len(numbers) + len(new)
    heard = np.concatenate([numbers["heard_at"].cast(pa.int64()).to_numpy(), np.zeros(len(new), np.int64)])
    newer = np.flatnonzero(batch.heard_us >= heard[row])
    source = np.arange(count)
    source[row[newer]] = len(numbers) + newer
    heard[row[newer]] = batch.heard_us[newer]
    collectors = pa.concat_arrays([*_chunks(numbers["collector"]), batch.collectors]).take(pa.array(source))
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(ranges.owners, minlength=count), out=ends[1:])
    lists = [pa.ListArray.from_arrays(pa.array(ends), pa.array(each)) for each in (ranges.firsts, ranges.lasts)]
    links = pa.concat_tables([numbers.select(_LINK), batch.links.take(pa.array(new))]).columns
    zeros = pa.array(np.zeros(count, np.int64))
    told = [*links, collectors, pa.array(heard).cast(TIMESTAMP), zeros, zeros, *lists]
    return pa.table(told, schema=numbers.schema).combine_chunks()
