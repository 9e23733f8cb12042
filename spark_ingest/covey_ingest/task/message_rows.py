"""Rows of messages on their way into an Arrow batch, column by column: no row costs more than what it says.

What all rows of an origin say is made once. Batches are decoded together (`decode`): a list column is made of their
arrays, and of what their layouts say of every batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from covey.core.ids import printable
from covey.core.telemetry.batch import Batch
from covey.core.vault.entries import SegmentRecord
from covey.core.wire.message import NO_GROUP, Message
from covey.errors import MalformedError, RemoteError
from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.decode import BatchesTogether, Integers, Values
from covey_ingest.task.schema import RowKind
from covey_ingest.task.time_quality import TimeQuality, offset, wall_times_together
from covey_ingest.vault.pruning import Selection

CALENDAR_ENDS_US = 253_402_300_800_000_000
"""The year 10000: no date in Python or in a table lies beyond it."""

READINGS_PER_BATCH = 100_000
"""An Arrow batch closes at this many readings: about 3 MB of numbers."""

BYTES_PER_BATCH = 8_000_000
"""...at this many bytes of texts, data and names, which a small envelope may inflate to..."""

ROWS_PER_BATCH = 10_000
"""...and at this many rows: a loss record of half a kilobyte has 128."""

DECODED_TOGETHER = 32_768
"""Readings whose columns are decoded at once: so many, with all that is made of them, lie in a core's cache."""

_TELEMETRY = RowKind.TELEMETRY.value
_OF_SHAPES = ("names", "units", "series")

Scalars = dict[str, object]
"""The columns of a row that are no lists, by name."""


def failure(error: RemoteError) -> Scalars:
    """Return what a row of quarantine says of an error."""
    return {"reason": error.code, "detail": printable(str(error))}


def origin_of(record: SegmentRecord, message: Message | None) -> Scalars:
    """Return what each row of a record says: where it was landed and, as far as that is known, by whom it is."""
    said: Scalars = {"segment": record.number, "record": record.index}
    if record.received_at_us < CALENDAR_ENDS_US:
        said["received_at"] = record.received_at_us
    if message is not None:
        said["author"] = message.author.hex()
        said["incarnation"] = message.incarnation.hex()
        said["seq"] = message.seq
        said["link_seq"] = message.link_seq
    return said


def group_of(message: Message) -> str | None:
    """Return the group of a message, in hex."""
    return None if message.group_id == NO_GROUP else message.group_id.hex()


class Telemetry(NamedTuple):
    """A message of telemetry whose batch is still packed, and the place of its row."""

    place: int
    record: SegmentRecord
    message: Message
    number: int
    batch: Batch

    @property
    def origin(self) -> Scalars:
        """Return what its row says, whether its columns can be decoded or not."""
        return origin_of(self.record, self.message) | {"group": group_of(self.message)}


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows whose batches were decoded together, and what came of it."""

    rows: Sequence[Telemetry]
    batches: BatchesTogether
    times: Integers
    qualities: list[TimeQuality]
    values: Values

    @property
    def places(self) -> list[int]:
        return [row.place for row in self.rows]


class Rows:
    """Rows on their way into an Arrow batch, in the order of their messages."""

    def __init__(self, wanted: Selection, common: Scalars) -> None:
        """Begin without rows; `common` is what a row says that says nothing else, no list."""
        self._schema, self._unpacks = wanted.schema, wanted.unpacks
        self._common = common
        self._begin()

    def _begin(self) -> None:
        self.count = self._readings = self._bytes = 0
        self._plain: list[Scalars] = []
        self._places: list[int] = []
        self._packed: list[Telemetry] = []

    @property
    def full(self) -> bool:
        """Say whether the rows should be closed before more are added."""
        within = self._readings < READINGS_PER_BATCH and self._bytes < BYTES_PER_BATCH
        return not within or self.count >= ROWS_PER_BATCH

    def add(self, scalars: Scalars, size: int = 0) -> None:
        """Add a row without readings, and with so many bytes of something else."""
        self._plain.append(scalars)
        self._places.append(self.count)
        self.count += 1
        self._bytes += size

    def add_telemetry(self, record: SegmentRecord, message: Message, number: int, batch: Batch) -> None:
        """Add the row of a batch. It is decoded with its neighbours; what fails then goes into quarantine."""
        self._packed.append(Telemetry(self.count, record, message, number, batch))
        self.count += 1
        if self._unpacks:
            self._readings += batch.count
            self._bytes += batch.text_bytes

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that stand open, if there are any."""
        if self.count:
            yield self.close()

    def close(self) -> pa.RecordBatch:
        """Return the rows as an Arrow batch of the wanted columns, and start again."""
        groups = _divided(self._packed) if self._unpacks else ()
        blocks = [block for group in groups for block in self._decoded(group)]
        rows = [*chain.from_iterable(block.rows for block in blocks)] if self._unpacks else self._packed
        scalars = (_said(rows) if rows else {}) | (_decoded_scalars(blocks) if blocks else {})
        named = {name for row in self._plain for name in row}
        places = [*(row.place for row in rows), *self._places]
        order = None if _ascends(places) else pa.array(np.argsort(places))
        lists = _Lists(self.count, blocks)
        columns = []
        for field in self._schema:
            if pa.types.is_list(field.type):
                columns.append(lists.column(field))
            elif field.name not in scalars and field.name not in named:
                columns.append(self._same(field, self.count))
            else:
                columns.append(self._column(field, scalars.get(field.name), order))
        self._begin()
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, field: pa.Field, of_telemetry: pa.Array | None, order: pa.Array | None) -> pa.Array:
        """Return what telemetry says, and then what other rows say, put in order."""
        if of_telemetry is None:
            of_telemetry = self._same(field, self.count - len(self._plain))
        if not self._plain:
            return of_telemetry.cast(field.type)
        given = [row.get(field.name, self._common[field.name]) for row in self._plain]
        is_time = field.type == TIMESTAMP
        others = pa.array(given, pa.int64()).view(TIMESTAMP) if is_time else pa.array(given, field.type)
        column = pa.concat_arrays([of_telemetry.cast(field.type), others])
        return column if order is None else column.take(order)

    def _same(self, field: pa.Field, count: int) -> pa.Array:
        return pa.repeat(pa.scalar(self._common[field.name], field.type), count)

    def _decoded(self, rows: Sequence[Telemetry]) -> Iterator[_Block]:
        """Decode batches. If one fails, halves are tried, until it is alone and its neighbours succeed."""
        batches = BatchesTogether([row.batch for row in rows])
        clocks, received = [row.batch.clock for row in rows], [row.record.received_at_us for row in rows]
        try:
            values = batches.values()
            times, qualities = wall_times_together(clocks, batches.times(), batches.counts, received)
        except MalformedError as error:
            if len(rows) > 1:
                for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                    yield from self._decoded(half)
                return
            self._plain.append(rows[0].origin | failure(error))
            self._places.append(rows[0].place)
            return
        yield _Block(rows, batches, times, qualities, values)


def _said(rows: Sequence[Telemetry]) -> dict[str, pa.Array]:
    """Return what rows of telemetry say that is in no packed column."""
    _, records, messages, numbers, batches = zip(*rows, strict=True)
    return {
        "kind": pa.repeat(_TELEMETRY, len(rows)),
        "segment": pa.array([record.number for record in records], pa.int64()),
        "record": pa.array([record.index for record in records], pa.int64()),
        "received_at": pa.array([record.received_at_us for record in records], pa.int64()),
        "author": _hex([message.author for message in messages]),
        "incarnation": _hex([message.incarnation for message in messages]),
        "seq": pa.array([message.seq for message in messages], pa.int64()),
        "link_seq": pa.array([message.link_seq for message in messages], pa.int64()),
        "group": _hex([message.group_id for message in messages], NO_GROUP),
        "batch_number": pa.array(numbers, pa.int64()),
        "boot": _hex([batch.clock.boot_id for batch in batches]),
        "alarm": pa.array([batch.alarm and batch.alarm.name.lower() for batch in batches], pa.string()),
    }


def _decoded_scalars(blocks: Sequence[_Block]) -> dict[str, pa.Array]:
    """Return what is known of rows once their batches are decoded, and is in no list."""
    rows = [*chain.from_iterable(block.rows for block in blocks)]
    clocks, received = [row.batch.clock for row in rows], [row.record.received_at_us for row in rows]
    qualities = [*chain.from_iterable(block.qualities for block in blocks)]
    spans = [np.array([shape.booleans for shape in block.batches.shapes])[block.batches.shape_of] for block in blocks]
    booleans = np.concatenate(spans)
    return {
        "time_quality": pa.array(qualities, pa.string()),
        "clock_offset": pa.array(map(offset, clocks, qualities, received), pa.int64()),
        "booleans_from": pa.array(booleans[:, 0]),
        "booleans_until": pa.array(booleans[:, 1]),
    }


def _divided(rows: Sequence[Telemetry]) -> Iterator[list[Telemetry]]:
    """Divide rows into groups whose readings are decoded at once."""
    group: list[Telemetry] = []
    count = 0
    for row in rows:
        if group and count + row.batch.count > DECODED_TOGETHER:
            yield group
            group, count = [], 0
        group.append(row)
        count += row.batch.count
    if group:
        yield group


def _hex(keys: Sequence[bytes], none: bytes | None = None) -> pa.Array:
    """Return keys of one length in hex, and null for those that are `none`."""
    size = 2 * len(keys[0])
    places = np.arange(0, (len(keys) + 1) * size, size, dtype=np.int32)
    joined = b"".join(keys).hex().encode()
    texts = pa.StringArray.from_buffers(len(keys), pa.py_buffer(places), pa.py_buffer(joined))
    if none is None or none not in keys:
        return texts
    return pc.if_else(pa.array([key == none for key in keys]), pa.scalar(None, pa.string()), texts)


class _Lists:
    """The list columns of so many rows, of which decoded ones have elements."""

    def __init__(self, count: int, blocks: list[_Block]) -> None:
        self._count = count
        self._blocks = blocks
        self._shapes = {id(shape): shape for block in blocks for shape in block.batches.shapes}
        numbers = {one: number for number, one in enumerate(self._shapes, 1)}
        self._shape_of = np.zeros(count, np.int32)
        """Of each row which of the shapes it has, from 1 on; 0 for none."""
        for block in blocks:
            of_block = np.array([numbers[id(shape)] for shape in block.batches.shapes])
            self._shape_of[block.places] = of_block[block.batches.shape_of]

    def column(self, field: pa.Field) -> pa.ListArray:
        """Return one of them."""
        if field.name in _OF_SHAPES:
            return self._of_shapes(field.type, [getattr(shape, field.name) for shape in self._shapes.values()])
        if field.name == "times":
            return self._flat(field.type, [(block.batches.counts, block.times) for block in self._blocks])
        if field.name == "values":
            return self._flat(field.type, [(block.values.counts, block.values.numbers) for block in self._blocks])
        return self._of_rows(field.type, [getattr(block.values, field.name) for block in self._blocks])

    def _of_shapes(self, kind: pa.ListType, given: Sequence[Any]) -> pa.ListArray:
        """Return what the layout of each row says of all its batches."""
        lists = _joined(kind, [(), *given])
        if len(given) == 1 and self._shape_of.all():
            (length,) = map(len, given)
            elements = pa.concat_arrays([lists.values] * self._count)
            return pa.ListArray.from_arrays(_offsets(np.full(self._count, length)), elements, type=kind)
        return lists.take(pa.array(self._shape_of))

    def _flat(self, kind: pa.ListType, given: Sequence[tuple[Integers, npt.NDArray[Any]]]) -> pa.ListArray:
        """Return so many elements for each row that was decoded: blocks and rows are in one order."""
        lengths = np.zeros(self._count, np.int64)
        for block, (counts, _) in zip(self._blocks, given, strict=True):
            lengths[block.places] = counts
        flat = np.concatenate([elements for _, elements in given]) if given else np.empty(0, np.int64)
        return pa.ListArray.from_arrays(_offsets(lengths), _elements(kind, flat), type=kind)

    def _of_rows(self, kind: pa.ListType, given: Sequence[Sequence[Any]]) -> pa.ListArray:
        """Return a list for each row: few rows have any."""
        parts: list[Any] = [()] * self._count
        for block, lists in zip(self._blocks, given, strict=True):
            for place, part in zip(block.places, lists, strict=True) if lists else ():
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
