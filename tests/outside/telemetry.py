"""Sections 11 and 12: the readings of a batch, in the order that gives them their index."""

from __future__ import annotations

import math
import struct
import zlib
from itertools import accumulate
from typing import Any, NamedTuple

from tests.outside.primitives import BOOT_ID, UINT63, RefusedError, either, fits, grown, parsed

SYNCHRONISED, UNSYNCHRONISED, ASSERTED = range(3)
_DECIMAL, _BOOLEAN, _FLOAT, _TEXT, _DATA = range(5)
_NAME_BYTES, _UNIT_BYTES, _TEXT_BYTES, _MOST_SERIES = 128, 32, 4_096, 1_024
_MAGNITUDE = 2**62
_INT64 = range(-(2**63), 2**63)
_BATCH = (1, BOOT_ID, range(3), UINT63, UINT63, range(16_001), range(2), range(524_289), bytes)
_TELEMETRY = (range(1, 2**63), _BATCH)
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

    @property
    def offset(self) -> int:
        """What makes wall times of its times, by its device."""
        return 0 if self.clock == ASSERTED else self.anchor_wall - self.anchor_monotonic


def read_telemetry(body: bytes) -> Batch:
    """Return what the body of a telemetry message says."""
    number, batch = grown(body, _TELEMETRY)
    _, boot, clock, monotonic, wall, count, codec, inflated, packed = batch
    columns = parsed(
        inflate(packed, inflated) if codec else packed, (list, COLUMN, COLUMN, bytes, [either(str, bytes)])
    )
    if not codec and len(packed) != inflated:
        raise RefusedError("malformed", "inflated")
    series, times, numbers, floats, texts = columns
    kinds = _kinds(series, count)
    values = _values(kinds, series, numbers, floats, texts)
    named = [(name, unit) for name, unit, _, _, length in series for _ in range(length)]
    taken = integers(times, count)
    readings = [Reading(*names, at, value) for names, at, value in zip(named, taken, values, strict=True)]
    return Batch(number, boot, clock, monotonic, wall, readings)


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


def _kinds(series: list[Any], count: int) -> list[int]:
    """Check the series, and return the kind of each reading."""
    if not all(fits(each, _SERIES) for each in series):
        raise RefusedError("malformed", "series")
    kinds = [kind for _, _, kind, _, _ in series]
    if kinds != sorted(kinds) or sum(each[-1] for each in series) != count:
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


def _values(kinds: list[int], series: list[Any], numbers: list[Any], floats: bytes, texts: list[Any]) -> list[Value]:
    scales = [scale for *_, scale, length in series for _ in range(length)]
    whole = integers(numbers, sum(kind in {_DECIMAL, _BOOLEAN} for kind in kinds))
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
