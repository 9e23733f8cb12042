"""Parse telemetry batches of untrusted authors; check every length against the others
(docs/protocol/core.md, section 11)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from covey.core.telemetry.batch import (
    ALARM_KEY,
    BOOT_ID_BYTES,
    FORMAT,
    KIND_STEP,
    SCALE_STEP,
    Alarm,
    Batch,
    ClockKind,
    ClockReading,
    Kind,
    Layout,
    Series,
)
from covey.core.wire import cbor, shapes
from covey.core.wire.deflate import inflate
from covey.core.wire.shapes import length, octets_at, uint
from covey.core.wire.varints import check_varints, read_varints
from covey.errors import LimitError, MalformedError
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
_THREE = b"\x83"
_CLOCKS = tuple(ClockKind)


class KnownLayouts:
    """The layouts of the batches read last, by the exact bytes of names and shape.

    A device's batches mostly name the same series with the same counts, in the same bytes. What was once read and
    found deterministic and sound need not be read again; a device that changes its layout each time gains nothing.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Layout] = {}

    def of(self, names: bytes, shape: bytes) -> Layout:
        """Return the layout that names and shape make: the same object each time while it is known.

        Raises:
            MalformedError: they make none.
            LimitError: beyond a bound.
        """
        key = names, shape
        layout = self._known.get(key)
        if layout is None:
            if len(self._known) >= _KNOWN_LAYOUTS:
                del self._known[next(iter(self._known))]
            layout = self._known[key] = _read_layout(names, shape)
        return layout


def read_telemetry(body: bytes, known: KnownLayouts | None = None) -> tuple[int, Batch]:
    """Parse the body of a TELEMETRY message: its number and its batch, as `read_batch` does."""
    known = known or KnownLayouts()
    found = _HEAD.match(body) if len(body) <= MAXIMUM_MESSAGE_BYTES else None
    if found is not None:
        number, boot_id, clock, monotonic_us, wall_us, size = found.groups()
        ends = found.end() + length(size)
        follows = _PACKED.match(body, ends)
        if follows is not None and number != b"\0":
            inflated, packed = uint(follows[1]), body[follows.end() :]
            if length(follows[2]) == len(packed) <= MAXIMUM_BATCH_BYTES >= inflated:
                reading = ClockReading(boot_id, uint(monotonic_us), uint(wall_us), _CLOCKS[clock[0]])
                return uint(number), _unpack(reading, body[found.end() : ends], inflated, packed, known)
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
    version, boot_id, clock_kind, monotonic_us, wall_us, names, inflated, packed = cbor.record(
        value, "batch", *_BATCH_READERS
    )
    if version != FORMAT:
        raise MalformedError(f"telemetry format {version}: a newer Covey?")
    clock = ClockReading(boot_id, monotonic_us, wall_us, ClockKind(clock_kind))
    return _unpack(clock, names, inflated, packed, known)


def _unpack(clock: ClockReading, names: bytes, inflated: int, packed: bytes, known: KnownLayouts) -> Batch:
    columns = inflate(packed, inflated, "telemetry") if inflated else packed
    shape, times, numbers, floats, texts = _split(columns)
    layout = known.of(names, shape)
    check_varints(times, layout.times)
    check_varints(numbers, layout.numbers)
    _check_the_others(layout, floats, texts)
    return Batch(clock, layout, times, numbers, floats, texts)


def _split(columns: bytes) -> tuple[bytes, bytes, bytes, bytes, tuple[str | bytes, ...]]:
    """Return the five columns; those that are left out are empty."""
    if columns.startswith(_THREE):
        shape = octets_at(columns, 1)
        times = shape and octets_at(columns, shape[1])
        numbers = times and octets_at(columns, times[1])
        if shape and times and numbers and numbers[1] == len(columns):
            return columns[slice(*shape)], columns[slice(*times)], columns[slice(*numbers)], b"", ()
    fields: Any = cbor.decode(columns, MAXIMUM_BATCH_BYTES)
    if isinstance(fields, list) and len(fields) in {3, 4}:
        fields.extend([b"", []][len(fields) - 3 :])
    shape, times, numbers, floats, texts = cbor.record(fields, "telemetry columns", *_COLUMN_READERS)
    return shape, times, numbers, floats, texts


def _read_layout(names: bytes, shape: bytes) -> Layout:
    named = _NAMES(cbor.decode(names, MAXIMUM_BATCH_BYTES))
    if len(named) % 2:
        raise MalformedError("telemetry: a name without a unit")
    series: list[Series] = []
    times_from: list[int] = []
    counts = dict.fromkeys(Kind, 0)
    place = times = begin = 0
    for name, unit in zip(named[::2], named[1::2], strict=True):
        if place >= len(shape):
            raise MalformedError("telemetry: more names than series")
        kind, rest = divmod(shape[place], KIND_STEP)
        scale, as_before = divmod(rest, SCALE_STEP)
        place += 1
        if as_before:
            if not series:
                raise MalformedError("telemetry: nothing stands before the first series")
            count = series[-1].count
        else:
            count, place = _read_count(shape, place)
            begin, times = times, times + count
        series.append(_series(name, unit, kind, scale, count))
        times_from.append(begin)
        counts[series[-1].kind] += count
    if place != len(shape):
        raise MalformedError("telemetry: more series than names")
    if sum(counts.values()) > MAXIMUM_BATCH_READINGS:
        raise LimitError(f"telemetry: more than {MAXIMUM_BATCH_READINGS} readings")
    if any(before.kind > after.kind for before, after in pairwise(series)):
        raise MalformedError("telemetry: series out of order")
    return Layout(tuple(series), counts, tuple(times_from), times)


def _read_count(shape: bytes, begin: int) -> tuple[int, int]:
    """Return the varint that begins there, and where it ends."""
    end = begin
    while end < len(shape) and shape[end] > 0x7F:
        end += 1
    raw = shape[begin : end + 1]
    check_varints(raw, 1)
    return read_varints(raw)[0], end + 1


def _series(name: str, unit: str, kind: int, scale: int, count: int) -> Series:
    if len(unit.encode()) > MAXIMUM_UNIT_BYTES:
        raise LimitError(f"a unit longer than {MAXIMUM_UNIT_BYTES} bytes")
    if not name or count < 1:
        raise MalformedError("a series must have a name and at least one reading")
    if kind > max(Kind) or (scale and kind != Kind.DECIMAL):
        raise MalformedError("only decimals may have a scale, and there are five kinds")
    return Series(name, unit, Kind(kind), scale, count)


def _read_text(value: object) -> str | bytes:
    if isinstance(value, bytes):
        return cbor.octets_to(MAXIMUM_TEXT_VALUE_BYTES)(value)
    return cbor.text(MAXIMUM_TEXT_VALUE_BYTES)(value)


_TEXTS = cbor.many(_read_text, MAXIMUM_BATCH_READINGS)
_NAMES = cbor.many(cbor.text(MAXIMUM_NAME_BYTES), 2 * MAXIMUM_BATCH_SERIES)
_OCTETS_READER = cbor.octets_to(MAXIMUM_BATCH_BYTES)
_COLUMN_READERS = (*(_OCTETS_READER,) * 4, _TEXTS)
_BATCH_READERS = (
    cbor.uint(255),
    cbor.octets(BOOT_ID_BYTES),
    cbor.uint(max(ClockKind)),
    cbor.uint(),
    cbor.uint(),
    _OCTETS_READER,
    cbor.uint(MAXIMUM_BATCH_BYTES),
    _OCTETS_READER,
)


_HEAD = shapes.shape(
    rb"\x82(%(uint)b)\x88\x01\x48(.{8})([\x00-\x02])(%(uint)b)(%(uint)b)(%(octets)b)"
    % {b"uint": shapes.UINT, b"octets": shapes.OCTETS}
)
_PACKED = shapes.shape(rb"(%b)(%b)" % (shapes.UINT, shapes.OCTETS))


def _check_the_others(layout: Layout, floats: bytes, texts: tuple[str | bytes, ...]) -> None:
    if not floats and not texts and layout.readings == layout.numbers:
        return  # as most are
    counts = layout.counts
    if counts[Kind.FLOAT] * 8 != len(floats):
        raise MalformedError("telemetry: floats of the wrong length")
    spoken = counts[Kind.TEXT]
    if len(texts) != spoken + counts[Kind.DATA]:
        raise MalformedError("telemetry: texts of the wrong length")
    if any(type(value) is not str for value in texts[:spoken]) or any(
        type(value) is not bytes for value in texts[spoken:]
    ):
        raise MalformedError("telemetry: texts of the wrong type")
