"""Sections 11 and 12: the readings of a batch, in the order that gives them their index."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from tests.outside.messages import Range, ranges_of
from tests.outside.primitives import BOOT_ID, UINT63, RefusedError, either, fits, grown, grown_and_extensions, parsed

SYNCHRONISED, UNSYNCHRONISED, ASSERTED = range(3)
_DECIMAL, _BOOLEAN, _FLOAT, _TEXT, _DATA = range(5)
_NAME_BYTES, _UNIT_BYTES, _TEXT_BYTES, _MOST_SERIES = 128, 32, 4_096, 1_024
_MOST_READINGS = 16_000
_MAGNITUDE = 2**62
_INT64 = range(-(2**63), 2**63)
_BATCH = (1, BOOT_ID, range(3), UINT63, UINT63, bytes, range(524_289), bytes)
_TELEMETRY = (range(1, 2**63), _BATCH)
_SUMMARISED = (
    list,
    (
        1,
        BOOT_ID,
        range(3),
        UINT63,
        UINT63,
        range(1, 2_678_400_000_001),
        range(1, 4_097),
        range(2),
        range(524_289),
        bytes,
    ),
)
_ALARM = 1
"""The key of an extension map."""
COLUMN = (_INT64, either(1, 2, 4, 8), bytes)
_SERIES = (str, str, range(5), range(10), range(1, 16_001))

Value = float | int | bool | str | bytes


class Reading(NamedTuple):
    """One reading; its time is as the device's clock counts it."""

    name: str
    unit: str
    time: int
    value: Value


class Batch(NamedTuple):
    """The readings of one message, and what their device knew of its clock, in microseconds."""

    number: int
    boot: bytes
    clock: int
    anchor_monotonic: int
    anchor_wall: int
    readings: list[Reading]
    alarm: int = 0
    """1: they begin an alarm, 2: they end one, 3: they have changed too much; 0: none of these."""

    @property
    def offset(self) -> int:
        """What makes wall times of its times, by its device."""
        return 0 if self.clock == ASSERTED else self.anchor_wall - self.anchor_monotonic


def read_telemetry(body: bytes) -> Batch:
    """Return what the body of a telemetry message says."""
    (number, batch), extensions = grown_and_extensions(body, _TELEMETRY)
    alarm = extensions.get(_ALARM, None)
    if alarm is not None and not fits(alarm, range(1, 256)):
        raise RefusedError("malformed", "alarm")
    _, boot, clock, monotonic, wall, names, inflated, packed = batch
    columns = parsed(inflate(packed, inflated) if inflated else packed, list)
    columns += [b"", []][len(columns) - 3 :] if 3 <= len(columns) < 5 else []
    if not fits(columns, (bytes, bytes, bytes, bytes, [either(str, bytes)])):
        raise RefusedError("malformed", "columns")
    shape, times, numbers, floats, texts = columns
    named = parsed(names, [str])
    series, own = _shaped(named, shape)
    kinds = _kinds(series, None)
    anchor = wall if clock == ASSERTED else monotonic
    steps = list(accumulate(_varints(times, sum(own))))
    written = list(accumulate(steps, initial=anchor))[1:]
    taken, begin = list[int](), 0
    for each, length in zip(series, own, strict=True):
        begin += length
        taken += written[begin - each[-1] : begin]
    whole, differences = list[int](), iter(_varints(numbers, sum(kind <= _BOOLEAN for kind in kinds)))
    for _, _, kind, _, length in series:
        if kind <= _BOOLEAN:
            whole += accumulate(next(differences) for _ in range(length))
    if any(abs(each) >= _MAGNITUDE for each in (*steps, *written, *whole)):
        raise RefusedError("malformed", "running sum")
    values = _values(kinds, series, whole, floats, texts)
    readings = [
        Reading(name, unit, at, value)
        for (name, unit), at, value in zip(
            [(name, unit) for name, unit, _, _, length in series for _ in range(length)], taken, values, strict=True
        )
    ]
    return Batch(number, boot, clock, monotonic, wall, readings, 0 if alarm is None else alarm if alarm <= 3 else 1)


def _shaped(named: list[str], shape: bytes) -> tuple[list[Any], list[int]]:
    """Return the series, and of each how many times of its own it has: none if they are its neighbour's."""
    series, own = list[Any](), list[int]()
    octets = iter(shape)
    pairs = list(zip(named[::2], named[1::2], strict=False))
    for head in octets:
        kind, scale, as_before = head // 20, head % 20 // 2, head % 2
        if as_before and not series:
            raise RefusedError("malformed", "nothing before the first series")
        count = series[-1][-1] if as_before else _varint(octets)
        if len(series) == len(pairs) or kind > _DATA or count < 1:
            raise RefusedError("malformed", "series")
        series.append([*pairs[len(series)], kind, scale, count])
        own.append(0 if as_before else count)
    if 2 * len(series) != len(named) and len(named) <= 2 * _MOST_SERIES:
        raise RefusedError("malformed", "names")
    return series, own


def _varint(octets: Iterator[int]) -> int:
    """Return the next integer: seven bits of each byte, the lowest first; odd numbers are the negative ones."""
    raw = bytearray()
    for octet in octets:
        raw.append(octet)
        if octet < 0x80:
            break
    if not raw or raw[-1] > 0x7F or len(raw) > 9 or (len(raw) > 1 and not raw[-1]):
        raise RefusedError("malformed", "varint")
    number = sum((octet & 0x7F) << 7 * place for place, octet in enumerate(raw))
    return -(number // 2) - 1 if number % 2 else number // 2


def _varints(raw: bytes, count: int) -> list[int]:
    octets = iter(raw)
    found = [_varint(octets) for _ in range(count)]
    if next(octets, None) is not None:
        raise RefusedError("malformed", "varints")
    return found


class Summary(NamedTuple):
    """What is left of some batches.

    A window is (first time, last time, readings, sum, minimum, maximum, first, last).
    """

    numbers: list[Range]
    window: int
    series: list[tuple[str, str, int, int, list[tuple[Any, ...]]]]

    @property
    def ratio(self) -> str:
        """How many readings there were for each window, as the tables have it (section 33)."""
        windows = [window for *_, windows in self.series for window in windows]
        return f"1:{float(f'{sum(window[2] for window in windows) / len(windows):.2g}'):.0f}"


def read_summary(body: bytes) -> Summary:
    """Return what the body of a summary says."""
    numbers, summary = grown(body, _SUMMARISED)
    if not numbers:
        raise RefusedError("malformed", "no numbers")
    numbers = ranges_of(numbers)
    _, _, _, _, _, width, windows, codec, inflated, packed = summary
    columns = parsed(inflate(packed, inflated) if codec else packed, (list, *[COLUMN] * 9, bytes))
    if not codec and len(packed) != inflated:
        raise RefusedError("malformed", "inflated")
    series, firsts, spans, counts, *values, floats = columns
    kinds = _kinds(series, windows)
    whole = sum(kind in {_DECIMAL, _BOOLEAN} for kind in kinds)
    times = list(zip(*(integers(each, windows) for each in (firsts, spans, counts)), strict=True))
    if any(span < 0 or not 0 < readings < 2**32 for _, span, readings in times):
        raise RefusedError("malformed", "window")
    rows = zip(*(integers(each, whole) for each in values), strict=True)
    said = [_integers(readings, *row) for (_, _, readings), row in zip(times, rows, strict=False)]
    said += _doubles(floats, kinds.count(_FLOAT))
    said += [(0,) * 5] * (windows - len(said))
    found = [(at, at + span, readings, *row) for (at, span, readings), row in zip(times, said, strict=True)]
    taken = iter(found)
    named = [
        (name, unit, kind, scale, [next(taken) for _ in range(count)]) for name, unit, kind, scale, count in series
    ]
    return Summary(numbers, width, named)


def _integers(readings: int, least: int, span: int, first: int, last: int, low: int, high: int) -> tuple[Any, ...]:
    above = (high << 60) + low
    if min(span, first, last, low, high) < 0 or max(first, last) > span or not span <= above <= (readings - 1) * span:
        raise RefusedError("malformed", "window")
    return readings * least + above, least, least + span, least + first, least + last


def _doubles(planes: bytes, count: int) -> list[tuple[Any, ...]]:
    if len(planes) != 40 * count:
        raise RefusedError("malformed", "floats")
    doubles = [struct.unpack("<d", planes[at :: 5 * count])[0] for at in range(5 * count)]
    rows = [tuple(doubles[at::count]) for at in range(count)]
    for _, least, most, *ends in rows:
        if not all(least <= each <= most for each in ends):
            raise RefusedError("malformed", "window")
    if not all(map(math.isfinite, doubles)):
        raise RefusedError("malformed", "float")
    return rows


def inflate(packed: bytes, size: int) -> bytes:
    """Return a raw deflate stream's content, which has so many bytes."""
    stream = zlib.decompressobj(wbits=-15)
    try:
        content = stream.decompress(packed, size + 1)
    except zlib.error as error:
        raise RefusedError("malformed", "deflate") from error
    if len(content) > size:
        raise RefusedError("limit", "inflated")
    if len(content) < size or not stream.eof or stream.unused_data or stream.unconsumed_tail:
        raise RefusedError("malformed", "deflate")
    return content


def _kinds(series: list[Any], count: int | None) -> list[int]:
    """Check the series, and return the kind of each reading."""
    if not all(fits(each, _SERIES) for each in series):
        raise RefusedError("malformed", "series")
    kinds = [kind for _, _, kind, _, _ in series]
    readings = sum(each[-1] for each in series)
    if readings > _MOST_READINGS:
        raise RefusedError("limit", "readings")
    if kinds != sorted(kinds) or count not in {None, readings}:
        raise RefusedError("malformed", "order or count of series")
    if any(not name or (scale and kind != _DECIMAL) for name, _, kind, scale, _ in series):
        raise RefusedError("malformed", "name or scale")
    sizes = ((len(name.encode()), len(unit.encode())) for name, unit, *_ in series)
    if len(series) > _MOST_SERIES or any(name > _NAME_BYTES or unit > _UNIT_BYTES for name, unit in sizes):
        raise RefusedError("limit", "series")
    return [kind for _, _, kind, _, length in series for _ in range(length)]


def integers(column: list[Any], count: int) -> list[int]:
    """Return a column's integers: running sums of its transposed differences."""
    first, width, planes = column
    if len(planes) != count * width or (not count and column != [0, 1, b""]):
        raise RefusedError("malformed", "column")
    differences = [int.from_bytes(planes[at::count], "little", signed=True) for at in range(count)]
    values = list(accumulate(differences, initial=first))
    if any(abs(value) >= _MAGNITUDE for value in values if count):
        raise RefusedError("malformed", "running sum")
    return values[1:]


def _values(kinds: list[int], series: list[Any], whole: list[int], floats: bytes, texts: list[Any]) -> list[Value]:
    scales = [scale for *_, scale, length in series for _ in range(length)]
    values: list[Value] = [
        bool(number) if kind == _BOOLEAN else number if not scale else float(number) / 10.0**scale
        for kind, scale, number in zip(kinds, scales, whole, strict=False)
    ]
    count = kinds.count(_FLOAT)
    if len(floats) != 8 * count:
        raise RefusedError("malformed", "floats")
    doubles = [struct.unpack("<d", floats[at::count])[0] for at in range(count)]
    if not all(map(math.isfinite, doubles)):
        raise RefusedError("malformed", "float")
    spoken = [kind for kind in kinds if kind in {_TEXT, _DATA}]
    if [str if kind == _TEXT else bytes for kind in spoken] != [type(text) for text in texts]:
        raise RefusedError("malformed", "texts")
    if any(len(text if isinstance(text, bytes) else text.encode()) > _TEXT_BYTES for text in texts):
        raise RefusedError("limit", "text")
    return [*values, *doubles, *texts]
