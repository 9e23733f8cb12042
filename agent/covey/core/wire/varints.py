"""Varints: integers in as few bytes as they need (docs/protocol/core.md, section 11).

An integer n >= 0 is the number 2 n, and n < 0 the number -2 n - 1 (zigzag). A number is its groups of seven bits, the
lowest first, a byte each; all bytes but the last have their highest bit set. There are at most nine, and the last of
several is not 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from covey.errors import MalformedError

_CONTINUES, _ZERO, _OTHER = b"\x01", b"\x00", b"\x02"
_KINDS = _ZERO + _OTHER * 127 + _CONTINUES * 128
"""Of each byte whether it continues, ends as 0 or ends: what is searched for is then found by bytes, not patterns."""
_TOO_LONG, _NOT_SHORTEST = _CONTINUES * 9, _CONTINUES + _ZERO


def write_varints(integers: Iterable[int]) -> bytes:
    """Return integers of at most 62 bits, one after the other."""
    out = bytearray()
    append = out.append
    for integer in integers:
        number = integer << 1 if integer >= 0 else ~integer << 1 | 1
        while number > 0x7F:
            append(number & 0x7F | 0x80)
            number >>= 7
        append(number)
    return bytes(out)


def check_varints(raw: bytes, count: int) -> None:
    """Check that bytes are so many varints, without reading them.

    Raises:
        MalformedError: they are not.
    """
    if raw.isascii() and len(raw) == count:
        return
    kinds = raw.translate(_KINDS)
    ends = len(kinds) - kinds.count(_CONTINUES)
    if ends != count or kinds.endswith(_CONTINUES) or _TOO_LONG in kinds or _NOT_SHORTEST in kinds:
        raise MalformedError("varints: not as many as there should be, or not in the shortest form")


def read_varints(raw: bytes) -> list[int]:
    """Return the integers of checked varints."""
    if raw.isascii():
        return [byte >> 1 ^ -(byte & 1) for byte in raw]
    integers: list[int] = []
    number = shift = 0
    for byte in raw:
        if byte > 0x7F:
            number |= (byte & 0x7F) << shift
            shift += 7
        else:
            number |= byte << shift
            integers.append(number >> 1 ^ -(number & 1))
            number = shift = 0
    return integers
