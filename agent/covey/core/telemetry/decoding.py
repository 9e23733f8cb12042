"""Parse telemetry batches of untrusted authors; check every length against the others
(docs/protocol/core.md, section 11)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from covey.core.telemetry.batch import (
    ALARM_KEY,
    BOOT_ID_BYTES,
    DEFLATE,
    FORMAT,
    MAXIMUM_SCALE,
    Alarm,
    Batch,
    ClockKind,
    ClockReading,
    Kind,
    Layout,
    Series,
)
from covey.core.wire import cbor, shapes
from covey.core.wire.columns import Column, column_reader
from covey.core.wire.deflate import inflate
from covey.core.wire.shapes import integer, length, uint
from covey.errors import MalformedError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES
from covey.limits.telemetry import (
    MAXIMUM_BATCH_BYTES,
    MAXIMUM_BATCH_READINGS,
    MAXIMUM_BATCH_SERIES,
    MAXIMUM_NAME_BYTES,
    MAXIMUM_TEXT_VALUE_BYTES,
    MAXIMUM_UNIT_BYTES,
)

_KNOWN_LAYOUTS = 64
_FOUR, _FIVE = b"\x84", b"\x85"
_NO_TEXTS = b"\x80"


class Known(NamedTuple):
    """A layout, its exact bytes, and what it says of the columns' lengths."""

    raw: bytes
    layout: Layout
    readings: int
    numbers: int
    float_bytes: int


class KnownLayouts:
    """The layouts of the batches read last, by their exact bytes.

    A device's batches mostly name the same series with the same counts, in the same bytes. What was once read and
    found deterministic and sound need not be read again; a device that changes its layout each time gains nothing.
    """

    def __init__(self) -> None:
        self._known: list[Known] = []

    def find(self, columns: bytes) -> Known | None:
        """Return the layout that these columns begin with, after their head; the last found is first."""
        for place, found in enumerate(self._known):
            if columns.startswith(found.raw, 1):
                if place:
                    self._known.insert(0, self._known.pop(place))
                return found
        return None

    def add(self, raw: bytes, layout: Layout) -> None:
        """Remember a layout by the bytes of its array."""
        counts = layout.counts
        numbers = counts[Kind.DECIMAL] + counts[Kind.BOOLEAN]
        self._known.insert(0, Known(raw, layout, sum(counts.values()), numbers, 8 * counts[Kind.FLOAT]))
        del self._known[_KNOWN_LAYOUTS:]


def read_telemetry(body: bytes, known: KnownLayouts | None = None) -> tuple[int, Batch]:
    """Parse the body of a TELEMETRY message: its number and its batch, as `read_batch` does."""
    known = known or KnownLayouts()
    found = _HEAD.match(body) if len(body) <= MAXIMUM_MESSAGE_BYTES else None
    if found is not None:
        number, boot_id, clock, *rest, size = found.groups()
        monotonic_us, wall_us, count, codec, inflated = map(uint, rest)
        packed = body[found.end() :]
        bounded = count <= MAXIMUM_BATCH_READINGS and inflated <= MAXIMUM_BATCH_BYTES >= len(packed)
        if length(size) == len(packed) and bounded and number != b"\0":
            reading = ClockReading(boot_id, monotonic_us, wall_us, ClockKind(clock[0]))
            return uint(number), _unpack(reading, count, codec, inflated, packed, known)
    fields, extensions = cbor.read_growing(body, MAXIMUM_MESSAGE_BYTES)
    number, value = cbor.record(fields, "telemetry", cbor.uint(), _as_it_is)
    if not number:
        raise MalformedError("telemetry: numbers must begin at 1")
    batch = _checked_batch(value, known)
    alarm = extensions.get(ALARM_KEY)
    return number, batch if alarm is None else replace(batch, alarm=_read_alarm(alarm))


def _read_alarm(value: object) -> Alarm:
    """Read what a batch of alarms says; what only a newer device knows is one that begins."""
    number = cbor.uint(255)(value)
    if not number:
        raise MalformedError("telemetry: an alarm must not be 0")
    return Alarm(number) if number <= max(Alarm) else Alarm.RAISED


def read_batch(raw: bytes, known: KnownLayouts | None = None) -> Batch:
    """Parse a batch and check every length against every other.

    `known`, kept over many batches, makes reading them several times as fast and changes nothing else.

    Raises:
        LimitError: beyond a bound, inflated size included; nothing was inflated beyond it.
        MalformedError: not a batch, or its parts disagree.
    """
    return _checked_batch(cbor.decode(raw, MAXIMUM_MESSAGE_BYTES), known or KnownLayouts())


def _as_it_is(value: object) -> object:
    return value


def _checked_batch(value: object, known: KnownLayouts) -> Batch:
    version, boot_id, clock_kind, monotonic_us, wall_us, count, codec, inflated, packed = cbor.record(
        value,
        "batch",
        *_BATCH_READERS,
    )
    if version != FORMAT:
        raise MalformedError(f"telemetry format {version}: a newer Covey?")
    clock = ClockReading(boot_id, monotonic_us, wall_us, ClockKind(clock_kind))
    return _unpack(clock, count, codec, inflated, packed, known)


def _unpack(clock: ClockReading, count: int, codec: int, inflated: int, packed: bytes, known: KnownLayouts) -> Batch:
    columns = inflate(packed, inflated, "telemetry") if codec == DEFLATE else packed
    if len(columns) != inflated:
        raise MalformedError("telemetry: a length is wrong")
    found = known.find(columns) if columns[:1] == _FIVE else None
    if found is not None and count == found.readings == found.numbers + found.float_bytes // 8:
        numeric = _read_numeric(columns, found)
        if numeric is not None:
            return Batch(clock, count, found.layout, *numeric, ())
    layout, (times, numbers, floats, texts) = _read_columns(columns, found, known)
    batch = Batch(clock, count, layout, times, numbers, floats, texts)
    _check_counts(batch)
    return batch


def _read_numeric(columns: bytes, known: Known) -> tuple[Column, Column, bytes] | None:
    """Return the columns of a batch of numbers whose lengths agree, or None where the strict reader has to judge."""
    times = _COLUMN.match(columns, 1 + len(known.raw))
    if times is None:
        return None
    first, width, size = times.groups()
    end = times.end() + known.readings * width[0]
    timed = Column(integer(first), width[0], columns[times.end() : end])
    numbers = _COLUMN.match(columns, end)
    if numbers is None or length(size) != len(timed.planes):
        return None
    first, width, size = numbers.groups()
    end = numbers.end() + known.numbers * width[0]
    numbered = Column(integer(first), width[0], columns[numbers.end() : end])
    floats = _OCTETS.match(columns, end)
    if floats is None or length(size) != len(numbered.planes) or length(floats[0]) != known.float_bytes:
        return None
    end = floats.end() + known.float_bytes
    return (timed, numbered, columns[floats.end() : end]) if columns[end:] == _NO_TEXTS else None


def _read_columns(columns: bytes, found: Known | None, known: KnownLayouts) -> tuple[Layout, list[Any]]:
    """Parse the columns. Known bytes of a layout are cut out: with the head of an array of four, the rest is CBOR."""
    if found is not None:
        rest = cbor.decode(_FOUR + columns[1 + len(found.raw) :], MAXIMUM_BATCH_BYTES)
        return found.layout, cbor.record(rest, "telemetry columns", *_COLUMN_READERS)
    value = cbor.decode(columns, MAXIMUM_BATCH_BYTES)
    series, *rest = cbor.record(value, "telemetry columns", _SERIES, *_COLUMN_READERS)
    layout = _layout(series)
    known.add(cbor.encode(value[0]), layout)
    return layout, rest


def _layout(series: tuple[Series, ...]) -> Layout:
    counts = dict.fromkeys(Kind, 0)
    for each in series:
        counts[each.kind] += each.count
    if any(before.kind > after.kind for before, after in pairwise(series)):
        raise MalformedError("telemetry: series out of order")
    return Layout(series, counts)


def _read_series(value: object) -> Series:
    name, unit, kind, scale, count = cbor.record(value, "series", *_SERIES_READERS)
    if not name or not count:
        raise MalformedError("a series must have a name and at least one reading")
    if scale and kind != Kind.DECIMAL:
        raise MalformedError("only decimals may have a scale")
    return Series(name, unit, Kind(kind), scale, count)


def _read_text(value: object) -> str | bytes:
    if isinstance(value, bytes):
        return cbor.octets_to(MAXIMUM_TEXT_VALUE_BYTES)(value)
    return cbor.text(MAXIMUM_TEXT_VALUE_BYTES)(value)


_PLANES = cbor.octets_to(8 * MAXIMUM_BATCH_READINGS)
_read_column = column_reader(MAXIMUM_BATCH_READINGS)
_SERIES_READERS = (
    cbor.text(MAXIMUM_NAME_BYTES),
    cbor.text(MAXIMUM_UNIT_BYTES),
    cbor.uint(max(Kind)),
    cbor.uint(MAXIMUM_SCALE),
    cbor.uint(MAXIMUM_BATCH_READINGS),
)
_SERIES = cbor.many(_read_series, MAXIMUM_BATCH_SERIES)
_COLUMN_READERS = (
    _read_column,
    _read_column,
    _PLANES,
    cbor.many(_read_text, MAXIMUM_BATCH_READINGS),
)
_BATCH_READERS = (
    cbor.uint(255),
    cbor.octets(BOOT_ID_BYTES),
    cbor.uint(max(ClockKind)),
    cbor.uint(),
    cbor.uint(),
    cbor.uint(MAXIMUM_BATCH_READINGS),
    cbor.uint(DEFLATE),
    cbor.uint(MAXIMUM_BATCH_BYTES),
    cbor.octets_to(MAXIMUM_BATCH_BYTES),
)


_HEAD = shapes.shape(
    rb"\x82(%(uint)b)\x89\x01\x48(.{8})([\x00-\x02])(%(uint)b)(%(uint)b)(%(uint)b)([\x00\x01])(%(uint)b)(%(octets)b)"
    % {b"uint": shapes.UINT, b"octets": shapes.OCTETS}
)
_COLUMN = shapes.shape(
    rb"\x83(%b)([\x01\x02\x04\x08])(%b)" % (shapes.INTEGER, shapes.OCTETS),
)
_OCTETS = shapes.shape(shapes.OCTETS)


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
