"""Telemetry batches as a board writes them: docs/protocol/core.md, section 11, not compressed.

A value is an integer with a scale (its decimal places, 0 to 9), or a float if `scale` is None: most ports have floats
of 32 bits, which cannot hold 21.5 degrees exactly, and most sensors give integers anyway. Memory: some 16 bytes for
each waiting reading, in arrays.
"""

import struct
from array import array

try:
    from .cbor import encode
except ImportError:
    from cbor import encode
try:
    from micropython import const
except ImportError:
    const = int

SYNCHRONISED, UNSYNCHRONISED = 0, 1
_DECIMAL = const(0)
_FLOAT = const(2)
_BODY_BYTES_MAX = const(2_560)  # leaves a message below 4 KiB after signing, padding and sealing
_NAME_BYTES_MAX = const(128)
_UNIT_BYTES_MAX = const(32)
_HEAD_BYTES = const(90)
_SERIES_BYTES = const(8)
_NUMBER_MAX = const(1 << 53)  # with decimal places, as they become doubles
_WHOLE_MAX = const(1 << 61)


def _varint(out, number):
    """Append an integer: seven bits a byte, the lowest first; odd numbers are the negative ones."""
    number = number << 1 if number >= 0 else ~number << 1 | 1
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _size_of(number):
    """Return how many bytes an integer takes."""
    number = number << 1 if number >= 0 else ~number << 1 | 1
    size = 1
    while number > 127:
        number >>= 7
        size += 1
    return size


class Batch:
    """Collects readings until the owner closes the batch; `size_max` bounds the bytes of its body."""

    def __init__(self, size_max=_BODY_BYTES_MAX):
        self._size_max = min(size_max, _BODY_BYTES_MAX)
        self._series = []  # [name, unit, kind, scale, count, times, values]; a board's dictionaries have no order
        self._places = {}  # of series by (kind, name, unit, scale)
        self._size = _HEAD_BYTES  # without times
        self._earliest = self._latest = None  # of the times
        self.count = 0
        self.opened_us = None

    def add(self, name, unit, scale, value, now_us):
        """Take a reading; return whether there was room for it.

        Raises:
            TypeError, ValueError: a name, unit or value that no batch can hold; the batch is as it was.
        """
        kind = _FLOAT if scale is None else _DECIMAL
        if not isinstance(name, str) or not isinstance(unit, str) or kind == _DECIMAL and not isinstance(value, int):
            raise TypeError("name, unit, or a value with a scale that is not whole")
        value = float(value) if kind == _FLOAT else int(value)
        key = (kind, name, unit, scale or 0)
        place = self._places.get(key)
        size = self._size
        if place is None:
            name_bytes, unit_bytes = len(name.encode()), len(unit.encode())
            if not 0 < name_bytes <= _NAME_BYTES_MAX or unit_bytes > _UNIT_BYTES_MAX or not 0 <= key[3] <= 9:
                raise ValueError("name, unit or scale")
            size += _SERIES_BYTES + name_bytes + unit_bytes
        most = _NUMBER_MAX if scale else _WHOLE_MAX
        if value - value != 0 or kind == _DECIMAL and not -most < value < most:
            raise ValueError("not finite, or too large")
        if kind == _DECIMAL:
            kept = None if place is None else self._series[place]
            size += _size_of(value - (kept[6][kept[4] - 1] if kept and kept[4] else 0))
        else:
            size += 8
        earliest = now_us if self._earliest is None else min(self._earliest, now_us)
        latest = now_us if self._latest is None else max(self._latest, now_us)
        if size + (self.count + 1) * _size_of(2 * (latest - earliest)) > self._size_max:  # a difference of differences
            return False
        self._take(key, place, value, now_us)
        self._size, self._earliest, self._latest = size, earliest, latest
        return True

    def _take(self, key, place, value, now_us):
        """Take a reading whole or not at all, also where the heap ends in between."""
        kind = key[0]
        is_new = place is None
        if is_new:
            place = len(self._places)
            del self._series[place:]  # left by a reading that the heap had no room for
            self._series.append([key[1], key[2], kind, key[3], 0, array("q"), array("d" if kind == _FLOAT else "q")])
        kept = self._series[place]
        count = kept[4]
        for column, number in ((kept[5], now_us), (kept[6], value)):
            if len(column) > count:  # left by such a one, too
                column[count] = number
            else:
                column.append(number)
        if is_new:
            self._places[key] = place
        kept[4] = count + 1
        if self.opened_us is None:
            self.opened_us = now_us
        self.count += 1

    def body(self, number, boot_id, clock, now_us, wall_us):
        """Return the message body; the batch is closed at `now_us` of the board's clock, `wall_us` by the wall.

        `number` counts the batches of this board's incarnation, from 1.
        """
        names, shape, times, numbers, floats = [], bytearray(), bytearray(), bytearray(), array("d")
        before, time, step = None, now_us, 0
        for kind in (_DECIMAL, _FLOAT):
            for kept in self._series:
                count = kept[4]
                if kept[2] != kind or not count:
                    continue
                names += kept[:2]
                head = 20 * kind + 2 * kept[3]
                if before is not None and before[4] == count and _same(before[5], kept[5], count):
                    shape.append(head + 1)
                else:
                    shape.append(head)
                    _varint(shape, count)
                    for place in range(count):
                        at = kept[5][place]
                        _varint(times, at - time - step)
                        time, step = at, at - time
                before = kept
                if kind == _FLOAT:
                    floats.extend(_first(kept[6], count))
                    continue
                last = 0
                for place in range(count):  # no list of differences: a number beyond 2^30 is 32 bytes of a board's heap
                    _varint(numbers, kept[6][place] - last)
                    last = kept[6][place]
        parts = [bytes(shape), bytes(times), bytes(numbers)]
        if floats:
            parts.append(_planes_of_floats(floats))
        head = [1, boot_id, clock, now_us, wall_us, encode(names), 0, encode(parts)]
        return encode([number, head])


def _same(one, other, count):
    for place in range(count):
        if one[place] != other[place]:
            return False
    return True


def _first(column, count):
    return column if len(column) == count else column[:count]


def _planes_of_floats(values):
    planes = bytearray(8 * len(values))
    for place in range(len(values)):
        packed = struct.pack("<d", values[place])
        for plane in range(8):
            planes[plane * len(values) + place] = packed[plane]
    return bytes(planes)
