"""Columns of integers: differences in transposed bytes (docs/protocol/core.md, section 11).

A column is `[first, width, planes]`: little-endian two's complement of 1, 2, 4 or 8 bytes, all lowest bytes first, then
all second ones. Differences run through the whole column, and `first` is added to the first of them. So values that
rise evenly, or hardly move, are nearly all zero bytes, which deflate compresses well.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from itertools import accumulate
from operator import sub

from covey.core.wire import cbor
from covey.core.wire.cbor import Read
from covey.errors import MalformedError

_TYPECODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_BEYOND = 2**62


@dataclass(frozen=True, slots=True)
class Column:
    """Integers as differences in transposed bytes."""

    first: int
    width: int
    planes: bytes

    def __len__(self) -> int:
        return len(self.planes) // self.width

    def values(self) -> list[int]:
        """Undo the differences (pure Python; `covey_ingest` does it with numpy).

        Raises:
            MalformedError: a sum of 62 bits or more, which an honest sender cannot have.
        """
        size = len(self)
        if not size:
            return []
        numbers = array(_TYPECODES[self.width], join_planes(self.planes, self.width))
        little_endian(numbers)
        numbers_list = numbers.tolist()
        numbers_list[0] += self.first
        values = list(accumulate(numbers_list))
        if max(values) >= _BEYOND or min(values) <= -_BEYOND:
            raise MalformedError("column: a sum exceeds 62 bits")
        return values


def written(values: list[int]) -> list[object]:
    """Return the array of a column, of the least width that holds all differences."""
    if not values:
        return [0, 1, b""]
    differences = [0]
    differences.extend(map(sub, values[1:], values))
    low, high = min(differences), max(differences)
    width = next(w for w in (1, 2, 4, 8) if -(1 << (8 * w - 1)) <= low and high < 1 << (8 * w - 1))
    numbers = array(_TYPECODES[width], differences)
    little_endian(numbers)
    return [values[0], width, split_planes(numbers.tobytes(), width)]


def column_reader(most: int) -> Read[Column]:
    """Return a reader of columns of at most `most` integers."""
    planes_reader = cbor.octets_to(8 * most)

    def read(value: object) -> Column:
        first, width, planes = cbor.record(value, "column", cbor.integer, cbor.uint(8), planes_reader)
        if width not in _TYPECODES or len(planes) % width:
            raise MalformedError("column: not whole integers")
        return Column(first, width, planes)

    return read


def split_planes(content: bytes, width: int) -> bytes:
    """Transpose: all first bytes of the items, then all second ones."""
    return b"".join([content[plane::width] for plane in range(width)])


def join_planes(planes: bytes, width: int) -> bytes:
    """Undo `split_planes`."""
    size = len(planes) // width
    content = bytearray(len(planes))
    for plane in range(width):
        content[plane::width] = planes[plane * size : (plane + 1) * size]
    return bytes(content)


def little_endian(numbers: array[int] | array[float]) -> None:
    """Turn numbers of this machine into little-endian ones, or back, in place."""
    if sys.byteorder == "big":
        numbers.byteswap()
