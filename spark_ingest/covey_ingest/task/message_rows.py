"""Rows of messages on their way into an Arrow batch, column by column: no row costs more than what it says.

What all rows of an origin say is made once. Batches of one layout are decoded together (`decode`), and stay together:
a list column is made of their matrices, and of what their layouts say of every batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from covey.core.ids import printable
from covey.core.telemetry.batch import Batch
from covey.errors import MalformedError, RemoteError
from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.decode import Integers, Shape, Values, alike, batch_times, batch_values
from covey_ingest.task.schema import RowKind
from covey_ingest.task.time_quality import offset, wall_times_together
from covey_ingest.vault.pruning import Selection

READINGS_PER_BATCH = 100_000
"""An Arrow batch closes at this many readings: about 3 MB of numbers."""

BYTES_PER_BATCH = 8_000_000
"""...at this many bytes of texts, data and names, which a small envelope may inflate to..."""

ROWS_PER_BATCH = 10_000
"""...and at this many rows: a loss record of half a kilobyte has 128."""

DECODED_TOGETHER = 32_768
"""Readings whose columns are decoded at once: so many, with all that is made of them, lie in a core's cache."""

_TELEMETRY = RowKind.TELEMETRY.value
_TELEMETRY_COLUMNS = ("kind", "batch_number", "boot", "alarm")
_OF_SHAPES = ("names", "units", "series")
_DECODED_COLUMNS = ("time_quality", "clock_offset", "booleans_from", "booleans_until")

Scalars = dict[str, object]
"""The columns of a row that are no lists, by name."""


def failure(error: RemoteError) -> Scalars:
    """Return what a row of quarantine says of an error."""
    return {"reason": error.code, "detail": printable(str(error))}


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A batch whose columns are still packed, its number, and when the collector had it."""

    received_at_us: int
    number: int
    batch: Batch

    @property
    def scalars(self) -> Scalars:
        """Return what a row says of it that is in no packed column."""
        alarm = self.batch.alarm
        return {
            "kind": _TELEMETRY,
            "batch_number": self.number,
            "boot": self.batch.clock.boot_id.hex(),
            "alarm": None if alarm is None else alarm.name.lower(),
        }


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A row of telemetry that is to be decoded."""

    place: int
    row: Scalars
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class _Block:
    """Batches that were decoded together: the places of their rows, and a row of each matrix for each."""

    places: list[int]
    values: Values
    times: Integers

    @property
    def shape(self) -> Shape:
        return self.values.shape


class Rows:
    """Rows on their way into an Arrow batch, in the order of their messages."""

    def __init__(self, wanted: Selection, common: Scalars) -> None:
        """Begin without rows; `common` is what a row says that says nothing else, no list."""
        self._schema, self._unpacks = wanted.schema, wanted.unpacks
        self._common = common
        self._begin()

    def _begin(self) -> None:
        self._rows: list[Scalars] = []
        self._named: set[str] = set()
        self._packed: dict[int, list[_Waiting]] = {}
        self._readings = self._bytes = 0

    @property
    def full(self) -> bool:
        """Say whether the rows should be closed before more are added."""
        within = self._readings < READINGS_PER_BATCH and self._bytes < BYTES_PER_BATCH
        return not within or len(self._rows) >= ROWS_PER_BATCH

    @property
    def count(self) -> int:
        """How many rows stand open."""
        return len(self._rows)

    def add(self, scalars: Scalars, size: int = 0) -> None:
        """Add a row without readings, and with so many bytes of something else."""
        self._named.update(scalars)
        self._rows.append(scalars)
        self._bytes += size

    def add_telemetry(self, scalars: Scalars, telemetry: Telemetry) -> None:
        """Add the row of a batch. It is decoded with all that are alike; what fails then goes into quarantine."""
        batch = telemetry.batch
        if self._unpacks:
            group = self._packed.get(alike(batch))
            if group is None:
                group = self._packed[alike(batch)] = []
                self._named.update(scalars, _TELEMETRY_COLUMNS, _DECODED_COLUMNS)
            group.append(_Waiting(len(self._rows), scalars, telemetry))
            self._readings += batch.count
            self._bytes += batch.text_bytes
        else:
            scalars |= telemetry.scalars
            self._named.update(scalars)
        self._rows.append(scalars)

    def close(self) -> pa.RecordBatch:
        """Return the rows as an Arrow batch of the wanted columns, and start again."""
        blocks: list[_Block] = []
        for group in self._packed.values():
            together = max(1, DECODED_TOGETHER // max(1, group[0].telemetry.batch.count))
            for first in range(0, len(group), together):
                blocks += _decoded(group[first : first + together])
        if sum(len(block.places) for block in blocks) < sum(map(len, self._packed.values())):
            self._named.update(failure(MalformedError("")))
        lists = _Lists(len(self._rows), blocks)
        columns = [
            lists.column(field) if pa.types.is_list(field.type) else self._column(field) for field in self._schema
        ]
        self._begin()
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, field: pa.Field) -> pa.Array:
        name, otherwise = field.name, self._common[field.name]
        if name not in self._named:
            return pa.repeat(pa.scalar(otherwise, field.type), len(self._rows))
        given = [row.get(name, otherwise) for row in self._rows]
        if field.type == TIMESTAMP:
            return pa.array(given, pa.int64()).view(TIMESTAMP)
        return pa.array(given, field.type)


def _decoded(group: list[_Waiting]) -> Iterator[_Block]:
    """Complete the rows of similar batches. If one fails, each is tried alone, so that its neighbours succeed."""
    batches = [waiting.telemetry.batch for waiting in group]
    try:
        values = batch_values(batches)
        taken = batch_times(batches)
        received = [waiting.telemetry.received_at_us for waiting in group]
        times, qualities = wall_times_together([batch.clock for batch in batches], taken, received)
    except MalformedError as error:
        if len(group) == 1:
            group[0].row.update(failure(error))
            return
        for alone in group:
            yield from _decoded([alone])
        return
    booleans_from, booleans_until = values.shape.booleans
    for waiting, quality in zip(group, qualities, strict=True):
        row, telemetry = waiting.row, waiting.telemetry
        row.update(telemetry.scalars)
        row["time_quality"] = quality
        row["clock_offset"] = offset(telemetry.batch.clock, quality, telemetry.received_at_us)
        row["booleans_from"], row["booleans_until"] = booleans_from, booleans_until
    yield _Block([waiting.place for waiting in group], values, times)


class _Lists:
    """The list columns of so many rows, of which decoded ones have elements."""

    def __init__(self, count: int, blocks: list[_Block]) -> None:
        self._count = count
        self._blocks = blocks
        self._in_order = _ascends([place for block in blocks for place in block.places])
        self._shapes = {id(block.shape): block.shape for block in blocks}
        numbers = {one: number for number, one in enumerate(self._shapes, 1)}
        self._shape_of = np.zeros(count, np.int32)
        """Of each row which of the shapes it has, from 1 on; 0 for none."""
        for block in blocks:
            self._shape_of[block.places] = numbers[id(block.shape)]

    def column(self, field: pa.Field) -> pa.ListArray:
        """Return one of them."""
        if field.name in _OF_SHAPES:
            return self._of_shapes(field.type, [getattr(shape, field.name) for shape in self._shapes.values()])
        if field.name == "times":
            return self._of_matrices(field.type, [block.times for block in self._blocks])
        if field.name == "values":
            return self._of_matrices(field.type, [block.values.numbers for block in self._blocks])
        return self._of_rows(field.type, [getattr(block.values, field.name) for block in self._blocks])

    def _of_shapes(self, kind: pa.ListType, given: Sequence[Any]) -> pa.ListArray:
        """Return what the layout of each row says of all its batches."""
        lists = _joined(kind, [(), *given])
        if len(given) == 1 and self._shape_of.all():
            (length,) = map(len, given)
            elements = pa.concat_arrays([lists.values] * self._count)
            return pa.ListArray.from_arrays(_offsets(np.full(self._count, length)), elements, type=kind)
        return lists.take(pa.array(self._shape_of))

    def _of_matrices(self, kind: pa.ListType, matrices: Sequence[npt.NDArray[Any]]) -> pa.ListArray:
        """Return a row of a matrix for each row."""
        lengths = np.zeros(self._count, np.int64)
        for block, matrix in zip(self._blocks, matrices, strict=True):
            lengths[block.places] = matrix.shape[1]
        offsets = np.zeros(self._count + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        if not matrices:
            flat: npt.NDArray[Any] = np.empty(0, np.int64)
        elif self._in_order:
            flat = np.concatenate([matrix.ravel() for matrix in matrices])
        else:
            flat = np.empty(int(offsets[-1]), matrices[0].dtype)
            for block, matrix in zip(self._blocks, matrices, strict=True):
                flat[offsets[block.places][:, np.newaxis] + np.arange(matrix.shape[1])] = matrix
        return pa.ListArray.from_arrays(pa.array(offsets), _elements(kind, flat), type=kind)

    def _of_rows(self, kind: pa.ListType, given: Sequence[Sequence[Any]]) -> pa.ListArray:
        """Return a list for each row: few rows have any."""
        parts: list[Any] = [()] * self._count
        for block, lists in zip(self._blocks, given, strict=True):
            if any(map(len, lists)):
                for place, part in zip(block.places, lists, strict=True):
                    parts[place] = part
        return _joined(kind, parts)


def _ascends(places: list[int]) -> bool:
    return places == sorted(places)


def _joined(kind: pa.ListType, parts: list[Any]) -> pa.ListArray:
    """Join one list for each row: numpy arrays are copied once, whole."""
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    if pa.types.is_string(kind.value_type) or pa.types.is_binary(kind.value_type):
        elements = pa.array(list(chain.from_iterable(parts)), kind.value_type)
    else:
        arrays = [part for part in parts if len(part) > 0] or [np.empty(0, np.int64)]
        elements = _elements(kind, np.concatenate(arrays))
    return pa.ListArray.from_arrays(_offsets(lengths), elements, type=kind)


def _offsets(lengths: Integers) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


def _elements(kind: pa.ListType, flat: npt.NDArray[Any]) -> pa.Array:
    elements = pa.array(flat)
    return elements.view(TIMESTAMP) if kind.value_type == TIMESTAMP else elements.cast(kind.value_type)
