"""Telemetry batches as a board writes them: docs/protocol.md, section 11, codec 0 (not compressed).

A value is a whole number with a scale (its decimal places, 0 to 9), or a float where `scale` is None: most ports have
floats of 32 bits, which cannot hold 21.5 degrees exactly, and most sensors give whole numbers anyway. Memory: some
16 bytes for each reading that waits, in arrays.
"""

import struct
from array import array

try:
    from .cbor import encode
except ImportError:
    from cbor import encode

SYNCHRONISED, UNSYNCHRONISED = 0, 1
DECIMAL, FLOAT = 0, 2
BODY_BYTES_MAX = 2_560  # leaves a message below 4 KiB after signing, padding and sealing
NAME_BYTES_MAX = 128
UNIT_BYTES_MAX = 32
_HEAD_BYTES = 80
_SERIES_BYTES = 12
_READING_BYTES = 16  # at most: differences of 64 bits
_NUMBER_MAX = 1 << 53


class Batch:
    """Collects readings until the owner closes the batch."""

    def __init__(self):
        self._series = {}
        self._size = _HEAD_BYTES
        self.count = 0
        self.opened_us = None

    def add(self, name, unit, scale, value, time_us):
        """Take a reading; return whether there was room for it.

        Raises:
            ValueError: a name, unit or value that no batch can hold.
        """
        kind = FLOAT if scale is None else DECIMAL
        key = (kind, name, unit, scale or 0)
        size = _READING_BYTES
        series = self._series.get(key)
        if series is None:
            name_bytes, unit_bytes = len(name.encode()), len(unit.encode())
            if not 0 < name_bytes <= NAME_BYTES_MAX or unit_bytes > UNIT_BYTES_MAX or not 0 <= key[3] <= 9:
                raise ValueError("name, unit or scale")
            size += _SERIES_BYTES + name_bytes + unit_bytes
        if value - value != 0 or kind == DECIMAL and not -_NUMBER_MAX < value < _NUMBER_MAX:
            raise ValueError("not finite, or too large")
        if self._size + size > BODY_BYTES_MAX:
            return False
        if series is None:
            series = self._series[key] = (array("q"), array("d" if kind == FLOAT else "q"))
        if self.opened_us is None:
            self.opened_us = time_us
        series[0].append(time_us)
        series[1].append(value)
        self._size += size
        self.count += 1
        return True

    def body(self, boot_id, clock, now_us, wall_us):
        """Return the message body; the batch is closed at `now_us` of the board's clock, `wall_us` by the wall."""
        keys = sorted(self._series, key=lambda key: key[0])
        series, times, numbers, floats = [], [], [], []
        for key in keys:
            taken, values = self._series[key]
            series.append([key[1], key[2], key[0], key[3], len(taken)])
            times.extend(taken)
            (floats if key[0] == FLOAT else numbers).extend(values)
        columns = encode([series, _column(times), _column(numbers), _planes_of_floats(floats), []])
        head = [1, boot_id, clock, now_us, wall_us, self.count, 0, len(columns), columns]
        return encode(head)


def _column(values):
    """Return [first, width, planes]: differences, little-endian, all lowest bytes first."""
    if not values:
        return [0, 1, b""]
    differences = [0] + [values[i] - values[i - 1] for i in range(1, len(values))]
    low, high = min(differences), max(differences)
    width = 1
    while low < -(1 << 8 * width - 1) or high >= 1 << 8 * width - 1:
        width *= 2
    planes = bytearray(width * len(values))
    for place in range(len(values)):
        number = differences[place] & (1 << 8 * width) - 1
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
