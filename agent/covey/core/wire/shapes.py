"""Regular expressions over the bytes of deterministic CBOR: the few shapes that occur by the million.

A head that these expressions match is minimal and within the bounds of `wire`, so a match proves as much as
`wire.decode` does for the same bytes, in a tenth of the time. Bytes that do not match are not judged: `wire` reads them
and reports what is wrong. `tests/property/test_shapes.py` keeps the two consistent.
"""

from __future__ import annotations

import re


def _heads(major: int, longest: int) -> bytes:
    """Return the heads of a major type whose argument has at most `longest` bytes."""
    base = major << 5
    long = {
        1: rb"[\x18-\xff]",
        2: rb"(?!\x00)..",
        4: rb"(?!\x00\x00)....",
        8: rb"(?!\x00{4})[\x00-\x7f].{7}",
    }
    short = b"[%b-%b]" % (re.escape(bytes([base])), re.escape(bytes([base + 23])))
    forms = [
        re.escape(bytes([base + 23 + place])) + long[size] for place, size in enumerate(long, 1) if size <= longest
    ]
    return b"|".join([short, *forms])


UINT = _heads(0, 8)
INTEGER = UINT + b"|" + _heads(1, 8)
UINT_8 = _heads(0, 1)
OCTETS = _heads(2, 4)
"""The head of a byte string: its bytes follow, and its length is for the caller to compare."""
ARRAY = _heads(4, 4)
"""The head of an array: its items follow."""


def shape(pattern: bytes) -> re.Pattern[bytes]:
    """Compile an expression in which a dot is any byte."""
    return re.compile(pattern, re.DOTALL)


def uint(head: bytes) -> int:
    """Return the unsigned integer of a head."""
    return int.from_bytes(head[1:] or head)


def length(head: bytes) -> int:
    """Return the length of the byte string or array that a head begins."""
    return int.from_bytes(head[1:]) if len(head) > 1 else head[0] & 31


def integer(head: bytes) -> int:
    """Return the integer of a head of either sign."""
    return uint(head) if head[0] < 0x20 else -1 - length(head)


def octets_at(raw: bytes, begin: int) -> tuple[int, int] | None:
    """Return where the content of the byte string that begins there begins and ends.

    None where that is not within the bytes, or its head is not minimal: such bytes are not judged.
    """
    try:
        head = raw[begin]
        if 0x40 <= head < 0x58:
            first, length = begin + 1, head - 0x40
        elif head == 0x58:
            first, length = begin + 2, raw[begin + 1]
            if length < 24:
                return None
        elif head == 0x59:
            first, length = begin + 3, raw[begin + 1] << 8 | raw[begin + 2]
            if length < 256:
                return None
        elif head == 0x5A:
            first, length = begin + 5, int.from_bytes(raw[begin + 1 : begin + 5])
            if length < 65_536:
                return None
        else:
            return None
    except IndexError:
        return None
    end = first + length
    return (first, end) if end <= len(raw) else None
