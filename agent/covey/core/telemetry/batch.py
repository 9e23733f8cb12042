"""Telemetry batches: many readings of one device, packed in columns (docs/protocol/core.md, "Telemetry").

The body of a TELEMETRY message is `[number, batch]`: the batch's place among all of its author's, given when it is
queued. A batch of alarms has the extension map `{1: alarm}` after it, one whose readings can be proven `{3: rows}`.
A batch is `[1, boot_id, clock, anchor_monotonic_us, anchor_wall_us, names, inflated, packed]`. `names` is the encoding
of `[name, unit, name, unit ...]`, apart from the columns: what a device names is the same each time, and under a link
key it stays at home (`wire/short.py`). `packed`, inflated, is the array `[shape, times, numbers, ? floats, ? texts]`:

* shape: a byte for each series, `20 * kind + 2 * scale`, and the number of its readings. Or that byte + 1 alone: as
  many readings as the series before, at the same times. Series are ordered by kind. Readings stand series after series
  in this one order everywhere, and a reading's index is its place in it.
* times (microseconds) of the series that have their own: differences of differences, which run through all of them
  from the anchor. numbers (of the readings of kinds DECIMAL and BOOLEAN): differences that begin at 0 in each series.
  A decimal's value is its number / 10**scale. Both are varints (`wire/varints.py`).
* floats: IEEE 754 binary64 of kind FLOAT, little-endian, transposed: all lowest bytes first. texts: the values of kinds
  TEXT and DATA.

Sensors are mostly read together, at even intervals, and hardly move: one byte remains of most readings, and deflate
takes some of that.
Most sensors give decimals: a decimal of up to 9 places that divides back to the same double travels as an integer,
exactly. So do whole numbers that no double holds, as counters of bytes come to be: below 2**61.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate, chain, pairwise
from math import isfinite

from covey.core.ids import BatchNumber
from covey.core.wire import cbor, columns
from covey.core.wire.deflate import deflate
from covey.core.wire.varints import read_varints, write_varints
from covey.errors import MalformedError, ReadingError, RemoteError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES
from covey.limits.telemetry import (
    MAXIMUM_BATCH_BYTES,
    MAXIMUM_BATCH_READINGS,
    MAXIMUM_BATCH_SERIES,
    MAXIMUM_NAME_BYTES,
    MAXIMUM_TEXT_VALUE_BYTES,
    MAXIMUM_UNIT_BYTES,
)

Value = float | bool | str | bytes

FORMAT = 1
MAXIMUM_SCALE = 9
EXACT = 2**53
"""From here on a double does not hold every whole number."""
WHOLE = 2**61
"""Whole numbers below this come out as they went in."""
_HIGHEST = sys.float_info.max
_LOWEST = -_HIGHEST
_LATEST_US = 2**59
BOOT_ID_BYTES = 8
_BEYOND = 2**62
"""No sum of an honest sender's reaches this."""
KIND_STEP, SCALE_STEP = 20, 2
"""What the kind and the scale of a series add to its byte in the shape; 1 more says that its times are its
neighbour's."""


class ClockKind(IntEnum):
    """Whose clock a batch's times are of."""

    SYNCHRONISED = 0
    """Monotonic since boot; the anchor's wall clock was disciplined by a time source."""
    UNSYNCHRONISED = 1
    """Monotonic since boot; the anchor's wall clock is whatever the device believed."""
    ASSERTED = 2
    """Wall times that the application gave with its readings."""


class Alarm(IntEnum):
    """What all readings of a batch of alarms say, and its name in the column `alarm` of tables."""

    RAISED = 1
    ENDED = 2
    CHANGED = 3
    """An alarm that has no end: a value has changed by more than it may."""


class Kind(IntEnum):
    """How a series' values are stored; also the order of the series in a batch."""

    DECIMAL = 0
    BOOLEAN = 1
    FLOAT = 2
    TEXT = 3
    DATA = 4


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One honest look at the clocks: the anchor between monotonic and wall time."""

    boot_id: bytes
    monotonic_us: int
    wall_us: int
    kind: ClockKind


@dataclass(frozen=True, slots=True)
class Series:
    """One name in a batch and how many readings it has."""

    name: str
    unit: str
    kind: Kind
    scale: int
    count: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The series of a batch, ordered by kind, and how many readings there are of each kind.

    `times_from` says where the times of each series begin among those that are written, `times` how many these are.
    """

    series: tuple[Series, ...]
    counts: Mapping[Kind, int]
    times_from: tuple[int, ...]
    times: int
    readings: int = field(init=False)
    """How many readings there are."""
    numbers: int = field(init=False)
    """How many of them are integers."""
    name_characters: int = field(init=False)
    """How long names and units are together."""

    def __post_init__(self) -> None:
        """Count what each batch of this layout is asked for."""
        named = sum(len(series.name) + len(series.unit) for series in self.series)
        for name, number in (
            ("readings", sum(self.counts.values())),
            ("numbers", self.counts[Kind.DECIMAL] + self.counts[Kind.BOOLEAN]),
            ("name_characters", named),
        ):
            object.__setattr__(self, name, number)


@dataclass(frozen=True, slots=True)
class Batch:
    """A parsed batch: columns still packed, every length checked."""

    clock: ClockReading
    layout: Layout
    times: bytes
    numbers: bytes
    floats: bytes
    texts: tuple[str | bytes, ...]
    alarm: Alarm | None = None

    @property
    def series(self) -> tuple[Series, ...]:
        """The series, in the order of the readings."""
        return self.layout.series

    @property
    def count(self) -> int:
        """How many readings there are."""
        return self.layout.readings

    @property
    def text_bytes(self) -> int:
        """How many bytes of names, units, texts and data this batch spells out."""
        return self.layout.name_characters + sum(map(len, self.texts))

    @property
    def anchor_us(self) -> int:
        """The anchor by the clock that the times are of: the first time is a difference from it."""
        return self.clock.wall_us if self.clock.kind is ClockKind.ASSERTED else self.clock.monotonic_us

    def taken_us(self) -> list[int]:
        """Return each reading's time in microseconds, by the clock that its batch names.

        Raises:
            MalformedError: a time of 62 bits or more, which an honest sender cannot have.
        """
        written = _sums(_sums(read_varints(self.times), 0), self.anchor_us)
        times: list[int] = []
        for series, begin in zip(self.series, self.layout.times_from, strict=True):
            times += written[begin : begin + series.count]
        return times

    def times_us(self) -> list[int]:
        """Return each reading's wall time in microseconds, as the device's clock gives it."""
        times = self.taken_us()
        if self.clock.kind is ClockKind.ASSERTED:
            return times
        offset = self.clock.wall_us - self.clock.monotonic_us
        return [time + offset for time in times]

    def integers(self) -> list[int]:
        """Return the numbers of kinds DECIMAL and BOOLEAN (pure Python; `covey_ingest` reads them with numpy).

        Raises:
            MalformedError: a number of 62 bits or more.
        """
        differences, numbers, begin = read_varints(self.numbers), list[int](), 0
        for series in self.series:
            if series.kind > Kind.BOOLEAN:
                break
            end = begin + series.count
            numbers += _sums(differences[begin:end], 0)
            begin = end
        return numbers

    def readings(self) -> Iterator[tuple[str, str, int, Value]]:
        """Yield (name, unit, wall time in microseconds, value) in index order.

        Raises:
            MalformedError: see `taken_us` and `integers`; or a float is not finite.
        """
        numbers = iter(self.integers())
        doubles = array("d", columns.join_planes(self.floats, 8))
        columns.little_endian(doubles)
        if not all(map(isfinite, doubles)):
            raise MalformedError("a float is not finite")
        floats = iter(doubles)
        texts = iter(self.texts)
        times = iter(self.times_us())
        for series in self.series:
            power = 10**series.scale
            for _ in range(series.count):
                value: Value
                if series.kind is Kind.DECIMAL:
                    number = next(numbers)
                    value = number if power == 1 and abs(number) >= EXACT else number / power
                elif series.kind is Kind.BOOLEAN:
                    value = bool(next(numbers))
                elif series.kind is Kind.FLOAT:
                    value = next(floats)
                else:
                    value = next(texts)
                yield series.name, series.unit, next(times), value


def _sums(differences: list[int], first: int) -> list[int]:
    sums = list(accumulate(differences, initial=first))[1:]
    if sums and not -_BEYOND < min(sums) <= max(sums) < _BEYOND:
        raise MalformedError("column: a sum exceeds 62 bits")
    return sums


class _Collected:
    """The open readings of one series."""

    __slots__ = ("name", "times", "unit", "values")

    def __init__(self, name: str, unit: str) -> None:
        self.name = name
        self.unit = unit
        self.times: list[int] = []
        self.values: list[Value] = []


_VALUE_KINDS: dict[type, Kind] = {
    float: Kind.FLOAT,
    int: Kind.FLOAT,
    bool: Kind.BOOLEAN,
    str: Kind.TEXT,
    bytes: Kind.DATA,
}


_READING_BYTES_MAX = 18
"""Of its time and its number."""
_FLOAT, _BOOLEAN = Kind.FLOAT, Kind.BOOLEAN  # looked up for each reading


class BatchBuilder:
    """Collects readings until the caller closes the batch."""

    def __init__(self) -> None:
        self.clear()

    def add(self, name: str, unit: str, time_us: int, value: Value) -> None:
        """Take one reading. `time_us` is monotonic or wall, as the batch's clock will say.

        Raises:
            ReadingError: a name, unit, time or value that no table could hold; nothing was added.
        """
        kind = _VALUE_KINDS.get(value.__class__)
        if kind is None:
            raise ReadingError(f"{name}: a value must be a number, a boolean, text or bytes")
        key = (name, unit, kind)
        series = self._series.get(key)
        if series is None:
            series = self._open_series(key)
        if kind is _FLOAT:
            if not _LOWEST <= value <= _HIGHEST:  # type: ignore[operator] # the kind says that it is a number
                raise ReadingError(f"{name}: a value must be finite")
        elif kind is not _BOOLEAN:
            self._count_bytes(name, value)
        if not 0 <= time_us < _LATEST_US:
            raise ReadingError(f"{name}: the time must be between the years 1970 and 20000")
        series.times.append(time_us)
        series.values.append(value)
        self.count += 1

    @property
    def full(self) -> bool:
        """Say whether another reading could exceed a bound."""
        return self.count >= self._full_at

    def body(self, clock: ClockReading) -> bytes:
        """Return the message body of what was added. Call `clear` once it is durable."""
        return _write_batch(clock, list(self._series.items()))

    def clear(self) -> None:
        """Start again."""
        self._series: dict[tuple[str, str, Kind], _Collected] = {}
        self.count = 0
        self._variable_bytes = 0
        self._set_full_at()

    def _set_full_at(self) -> None:
        """Note how many readings fill the batch: what is asked for each reading is then one comparison."""
        left = MAXIMUM_BATCH_BYTES - 2 * MAXIMUM_TEXT_VALUE_BYTES - self._variable_bytes - 200 * len(self._series)
        most = 0 if len(self._series) >= MAXIMUM_BATCH_SERIES else MAXIMUM_BATCH_READINGS
        self._full_at = min(most, -(-left // _READING_BYTES_MAX))

    def _open_series(self, key: tuple[str, str, Kind]) -> _Collected:
        name, unit, _ = key
        if not name or _utf8_bytes(name) > MAXIMUM_NAME_BYTES:
            raise ReadingError(f"a name must have 1 to {MAXIMUM_NAME_BYTES} bytes")
        if _utf8_bytes(unit) > MAXIMUM_UNIT_BYTES:
            raise ReadingError(f"{name}: a unit must have at most {MAXIMUM_UNIT_BYTES} bytes")
        series = self._series[key] = _Collected(name, unit)
        self._set_full_at()
        return series

    def _count_bytes(self, name: str, value: Value) -> None:
        assert isinstance(value, str | bytes)
        size = _utf8_bytes(value) if isinstance(value, str) else len(value)
        if size > MAXIMUM_TEXT_VALUE_BYTES:
            raise ReadingError(f"{name}: a text or data value must have at most {MAXIMUM_TEXT_VALUE_BYTES} bytes")
        self._variable_bytes += size + 8
        self._set_full_at()


def _utf8_bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:  # JSON can spell half a surrogate pair
        raise ReadingError("a name, unit or text must be Unicode") from error


ALARM_KEY = 1
"""The key of a body's extension map that says what its readings announce."""
ROWS_KEY = 3
"""The key of the salt and signature by which each reading can be proven alone (`receipts.py`)."""
_PAIR, _TRIPLE = b"\x82", b"\x83"
_LONG_NUMBERS = {0x18: 1, 0x19: 2, 0x1A: 4, 0x1B: 8}


def numbered(number: int, batch: bytes, alarm: Alarm | None = None, rows: bytes = b"") -> bytes:
    """Return the body of a TELEMETRY message. The batch is written before its number is known, and stays as it is.

    `rows` is the salt and signature of its readings, if they can be proven.
    """
    extensions: dict[int, int | bytes] = {} if alarm is None else {ALARM_KEY: int(alarm)}
    if rows:
        extensions[ROWS_KEY] = rows
    if not extensions:
        return _PAIR + cbor.encode(number) + batch
    return _TRIPLE + cbor.encode(number) + batch + cbor.encode(extensions)


def alarm_of(body: bytes) -> Alarm | None:
    """Return what the readings of a body say that this device has written; None where they are no alarms."""
    number = _extensions(body).get(ALARM_KEY)
    return Alarm(number) if number in set(Alarm) else None


def rows_of(body: bytes) -> bytes:
    """Return the salt and signature of the readings of any device's body; empty if it has none."""
    rows = _extensions(body).get(ROWS_KEY, b"")
    return rows if isinstance(rows, bytes) else b""


def split_number(body: bytes) -> tuple[BatchNumber, bytes]:
    """Return (number, batch) of a body that this device has written; the batch is not looked at.

    Raises:
        RemoteError: not such a body.
    """
    head = body[1] if len(body) > 1 and body[:1] in {_PAIR, _TRIPLE} else 0xFF
    end = 2 + _LONG_NUMBERS.get(head, 0)
    if head > max(_LONG_NUMBERS) or not end < len(body):
        raise MalformedError("the batch has no number")
    number = BatchNumber(int.from_bytes(body[2:end]) if end > 2 else head)
    if body[:1] == _PAIR:
        return number, body[end:]
    _, extensions = cbor.read_growing(body, MAXIMUM_MESSAGE_BYTES)
    if not extensions:
        raise MalformedError("the batch has no number")
    return number, body[end : len(body) - len(cbor.encode(extensions))]


def _extensions(body: bytes) -> cbor.Extensions:
    if body[:1] != _TRIPLE:
        return {}
    try:
        return cbor.read_growing(body, MAXIMUM_MESSAGE_BYTES)[1]
    except RemoteError:
        return {}


def _write_batch(clock: ClockReading, collected: Sequence[tuple[tuple[str, str, Kind], _Collected]]) -> bytes:
    packed_series: list[tuple[Kind, int, _Collected, list[int]]] = []
    for (_, _, value_kind), series in collected:
        if series.values:
            kind, scale, numbers = _as_numbers(value_kind, series.values)
            packed_series.append((kind, scale, series, numbers))
    packed_series.sort(key=lambda entry: entry[0])
    floats = array("d")
    texts: list[Value] = []
    for kind, _, source, _ in packed_series:
        if kind is Kind.FLOAT:
            floats.extend(source.values)  # type: ignore[arg-type] # the kind says that they are numbers
        elif kind > Kind.FLOAT:
            texts.extend(source.values)
    columns.little_endian(floats)
    anchor_us = clock.wall_us if clock.kind is ClockKind.ASSERTED else clock.monotonic_us
    shape, times = _shape_and_times(packed_series)
    parts: list[object] = [
        shape,
        write_varints(_differences(_differences(times, anchor_us), 0)),
        write_varints(chain.from_iterable(_differences(numbers, 0) for *_, numbers in packed_series)),
        columns.split_planes(floats.tobytes(), 8),
        texts,
    ]
    while not parts[-1] and len(parts) > _COLUMNS_MIN:
        parts.pop()
    packed = cbor.encode(parts)
    deflated = deflate(packed)
    inflated = 0
    if len(deflated) + 2 < len(packed):
        inflated, packed = len(packed), deflated
    names = cbor.encode([text for _, _, source, _ in packed_series for text in (source.name, source.unit)])
    anchors = clock.monotonic_us, clock.wall_us
    return cbor.encode([FORMAT, clock.boot_id, int(clock.kind), *anchors, names, inflated, packed])


_COLUMNS_MIN = 3
"""Shape, times and numbers; floats and texts are left out where nothing follows."""


def _shape_and_times(packed_series: Sequence[tuple[Kind, int, _Collected, list[int]]]) -> tuple[bytes, list[int]]:
    shape, written = bytearray(), list[int]()
    before: list[int] = []
    for kind, scale, series, _ in packed_series:
        head = KIND_STEP * kind + SCALE_STEP * scale
        if series.times == before:
            shape.append(head + 1)
            continue
        before = series.times
        shape.append(head)
        shape += write_varints([len(before)])
        written += before
    return bytes(shape), written


def _differences(values: Iterable[int], first: int) -> Iterator[int]:
    return (value - before for before, value in pairwise(chain((first,), values)))


def _as_numbers(kind: Kind, values: list[Value]) -> tuple[Kind, int, list[int]]:
    """Choose how a series is stored; return (kind, scale, integers)."""
    if kind is Kind.BOOLEAN:
        return kind, 0, [int(value) for value in values]
    if kind is not Kind.FLOAT:
        return kind, 0, []
    low, high = min(values), max(values)
    if not -EXACT < low <= high < EXACT:  # type: ignore[operator] # likewise
        if low > -WHOLE and high < WHOLE and all(value == int(value) for value in values):  # type: ignore[operator]
            return Kind.DECIMAL, 0, [int(value) for value in values]
    else:
        for scale in range(MAXIMUM_SCALE + 1):
            power = 10**scale
            numbers = []
            for value in values:
                number = round(value * power)
                if number / power != value or not -EXACT < number < EXACT:
                    break
                numbers.append(number)
            else:
                return Kind.DECIMAL, scale, numbers
    return kind, 0, []
