"""Reading telemetry batches: every length against every other, whoever wrote them (docs/protocol.md, section 11)."""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import Any

from agent.core import wire
from agent.core.limits import (
    MAXIMUM_BATCH_BYTES,
    MAXIMUM_BATCH_READINGS,
    MAXIMUM_BATCH_SERIES,
    MAXIMUM_MESSAGE_BYTES,
    MAXIMUM_NAME_BYTES,
    MAXIMUM_TEXT_VALUE_BYTES,
    MAXIMUM_UNIT_BYTES,
)
from agent.core.telemetry import (
    BOOT_ID_BYTES,
    DEFLATE,
    FORMAT,
    MAXIMUM_SCALE,
    WIDTHS,
    Batch,
    ClockKind,
    ClockReading,
    Column,
    Kind,
    Layout,
    Series,
)
from agent.errors import LimitError, MalformedError

_KNOWN_LAYOUTS = 64
_FOUR, _FIVE = b"\x84", b"\x85"


class KnownLayouts:
    """The layouts of the batches read last, by their exact bytes.

    A device's batches mostly name the same series with the same counts, in the same bytes. What was once read and
    found deterministic and sound need not be read again; a device that changes its layout each time gains nothing.
    """

    def __init__(self) -> None:
        self._known: list[tuple[bytes, Layout]] = []

    def find(self, columns: bytes) -> tuple[bytes, Layout] | None:
        """Return the bytes and the layout that these columns begin with, after their head; the last found is first."""
        for place, found in enumerate(self._known):
            if columns.startswith(found[0], 1):
                if place:
                    self._known.insert(0, self._known.pop(place))
                return found
        return None

    def add(self, raw: bytes, layout: Layout) -> None:
        """Remember a layout by the bytes of its array."""
        self._known.insert(0, (raw, layout))
        del self._known[_KNOWN_LAYOUTS:]


def read_batch(body: bytes, known: KnownLayouts | None = None) -> Batch:
    """Parse a batch and check every length against every other.

    `known`, kept over many batches, makes reading them about twice as fast and changes nothing else.

    Raises:
        LimitError: beyond a bound, inflated size included; nothing was inflated beyond it.
        MalformedError: not a batch, or its parts disagree.
    """
    version, boot_id, clock_kind, monotonic_us, wall_us, count, codec, inflated, packed = wire.record(
        wire.decode(body, MAXIMUM_MESSAGE_BYTES),
        "telemetry",
        *_BATCH_READERS,
    )
    if version != FORMAT:
        raise MalformedError(f"telemetry format {version}: a newer Covey?")
    columns = _inflate(packed, inflated) if codec == DEFLATE else packed
    if len(columns) != inflated:
        raise MalformedError("telemetry: a lying length")
    layout, (times, numbers, floats, texts) = _read_columns(columns, known or KnownLayouts())
    clock = ClockReading(boot_id, monotonic_us, wall_us, ClockKind(clock_kind))
    batch = Batch(clock, count, layout, times, numbers, floats, texts)
    _check_counts(batch)
    return batch


def _read_columns(columns: bytes, known: KnownLayouts) -> tuple[Layout, list[Any]]:
    """Parse the columns. Known bytes of a layout are cut out: with the head of an array of four, the rest is CBOR."""
    found = known.find(columns) if columns[:1] == _FIVE else None
    if found is not None:
        raw, layout = found
        rest = wire.decode(_FOUR + columns[1 + len(raw) :], MAXIMUM_BATCH_BYTES)
        return layout, wire.record(rest, "telemetry columns", *_COLUMN_READERS)
    value = wire.decode(columns, MAXIMUM_BATCH_BYTES)
    series, *rest = wire.record(value, "telemetry columns", _SERIES, *_COLUMN_READERS)
    layout = _layout(series)
    known.add(wire.encode(value[0]), layout)
    return layout, rest


def _layout(series: tuple[Series, ...]) -> Layout:
    counts = dict.fromkeys(Kind, 0)
    for each in series:
        counts[each.kind] += each.count
    if any(before.kind > after.kind for before, after in pairwise(series)):
        raise MalformedError("telemetry: series out of order")
    return Layout(series, counts)


def _inflate(packed: bytes, size: int) -> bytes:
    """Inflate to exactly `size` bytes; never more, whatever the stream would give."""
    inflater = zlib.decompressobj(-15)
    try:
        content = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise MalformedError("telemetry: not a deflate stream") from error
    if len(content) > size:
        raise LimitError("telemetry: inflates to more than it says")
    if not inflater.eof or inflater.unused_data:
        raise MalformedError("telemetry: the deflate stream does not end where it should")
    return content


def _read_series(value: object) -> Series:
    name, unit, kind, scale, count = wire.record(value, "series", *_SERIES_READERS)
    if not name or not count:
        raise MalformedError("a series has a name and at least one reading")
    if scale and kind != Kind.DECIMAL:
        raise MalformedError("only decimals have a scale")
    return Series(name, unit, Kind(kind), scale, count)


def _read_column(value: object) -> Column:
    first, width, planes = wire.record(value, "column", wire.integer, wire.uint(8), _PLANES)
    if width not in WIDTHS or len(planes) % width:
        raise MalformedError("column: not whole integers")
    return Column(first, width, planes)


def _read_text(value: object) -> str | bytes:
    if isinstance(value, bytes):
        return wire.octets_to(MAXIMUM_TEXT_VALUE_BYTES)(value)
    return wire.text(MAXIMUM_TEXT_VALUE_BYTES)(value)


_PLANES = wire.octets_to(8 * MAXIMUM_BATCH_READINGS)
_SERIES_READERS = (
    wire.text(MAXIMUM_NAME_BYTES),
    wire.text(MAXIMUM_UNIT_BYTES),
    wire.uint(max(Kind)),
    wire.uint(MAXIMUM_SCALE),
    wire.uint(MAXIMUM_BATCH_READINGS),
)
_SERIES = wire.many(_read_series, MAXIMUM_BATCH_SERIES)
_COLUMN_READERS = (
    _read_column,
    _read_column,
    _PLANES,
    wire.many(_read_text, MAXIMUM_BATCH_READINGS),
)
_BATCH_READERS = (
    wire.uint(255),
    wire.octets(BOOT_ID_BYTES),
    wire.uint(max(ClockKind)),
    wire.uint(),
    wire.uint(),
    wire.uint(MAXIMUM_BATCH_READINGS),
    wire.uint(DEFLATE),
    wire.uint(MAXIMUM_BATCH_BYTES),
    wire.octets_to(MAXIMUM_BATCH_BYTES),
)


def _check_counts(batch: Batch) -> None:
    counts = batch.layout.counts
    numbers = counts[Kind.DECIMAL] + counts[Kind.BOOLEAN]
    if not batch.count == sum(counts.values()) == len(batch.times) or numbers != len(batch.numbers):
        raise MalformedError("telemetry: columns of the wrong length")
    if counts[Kind.FLOAT] * 8 != len(batch.floats):
        raise MalformedError("telemetry: floats of the wrong length")
    texts = counts[Kind.TEXT]
    if len(batch.texts) != texts + counts[Kind.DATA]:
        raise MalformedError("telemetry: texts of the wrong length")
    if any(type(value) is not str for value in batch.texts[:texts]) or any(
        type(value) is not bytes for value in batch.texts[texts:]
    ):
        raise MalformedError("telemetry: texts of the wrong type")
