"""Telemetry batches as a board writes them: docs/protocol/core.md, section 11, codec 0 (not compressed).

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
_SERIES_BYTES = const(12)
_NUMBER_MAX = const(1 << 53)  # with decimal places, as they become doubles
_WHOLE_MAX = const(1 << 61)


class _Range:
    """The lowest and the highest of some numbers: no difference between two of them is greater than theirs."""

    def __init__(self):
        self.low = self.high = None

    def width_with(self, value):
        """Return how many bytes a difference takes, one more number counted."""
        if self.low is None:
            return 1
        return _width(max(self.high, value) - min(self.low, value))

    def take(self, value):
        """Count one more number."""
        if self.low is None:
            self.low = self.high = value
        self.low, self.high = min(self.low, value), max(self.high, value)


def _width(value):
    width = 1
    while value >= 1 << 8 * width - 1:
        width *= 2
    return width


class Batch:
    """Collects readings until the owner closes the batch; `size_max` bounds the bytes of its body."""

    def __init__(self, size_max=_BODY_BYTES_MAX):
        self._size_max = min(size_max, _BODY_BYTES_MAX)
        self._series = []  # [name, unit, kind, scale, count, times, values]; a board's dictionaries have no order
        self._places = {}  # of series by (kind, name, unit, scale)
        self._size = _HEAD_BYTES  # without times and numbers
        self._times, self._numbers = _Range(), _Range()
        self.count = self._decimals = 0
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
        decimals = self._decimals + (kind == _DECIMAL)
        width = self._numbers.width_with(value) if kind == _DECIMAL else 8
        size += 8 * (kind == _FLOAT)
        columns = (self.count + 1) * self._times.width_with(now_us) + decimals * width
        if size + columns > self._size_max:
            return False
        self._take(key, place, value, now_us)
        self._size, self._decimals = size, decimals
        return True

    def _take(self, key, place, value, now_us):
        """Take a reading whole or not at all, also where the heap ends in between."""
        kind = key[0]
        self._times.take(now_us)
        if kind == _DECIMAL:
            self._numbers.take(value)
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
        series, times, numbers, floats = [], array("q"), array("q"), array("d")
        for kind, column in ((_DECIMAL, numbers), (_FLOAT, floats)):
            for kept in self._series:
                if kept[2] == kind and kept[4]:
                    series.append(kept[:5])
                    times.extend(_first(kept[5], kept[4]))
                    column.extend(_first(kept[6], kept[4]))
        columns = encode([series, _column(times), _column(numbers), _planes_of_floats(floats), []])
        head = [1, boot_id, clock, now_us, wall_us, self.count, 0, len(columns), columns]
        return encode([number, head])


def _first(column, count):
    return column if len(column) == count else column[:count]


def _column(values):
    """Return [first, width, planes]: differences, little-endian, all lowest bytes first."""
    if not values:
        return [0, 1, b""]
    low = high = 0
    for place in range(1, len(values)):  # no list of them: a number beyond 2^30 is 32 bytes of a board's heap
        difference = values[place] - values[place - 1]
        low, high = min(low, difference), max(high, difference)
    width = _width(max(high, -1 - low))
    planes = bytearray(width * len(values))
    for place in range(1, len(values)):
        number = values[place] - values[place - 1] & (1 << 8 * width) - 1
        for plane in range(width):
            planes[plane * len(values) + place] = number & 255
            number >>= 8
    return [values[0], width, bytes(planes)]


def _planes_of_floats(values):
    planes = bytearray(8 * len(values))
    for place in range(len(values)):
        packed = struct.pack("<d", values[place])
        for plane in range(8):
            planes[plane * len(values) + place] = packed[plane]
    return bytes(planes)
