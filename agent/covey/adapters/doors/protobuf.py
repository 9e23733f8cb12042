"""The part of Protobuf's encoding that OTLP needs: encode fields, and read one field of an answer.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct

_VARINT, _FIXED_64, _OCTETS, _FIXED_32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


def octets(number: int, content: bytes) -> bytes:
    """Return a field that holds a message, or bytes."""
    return _varint(number << 3 | _OCTETS) + _varint(len(content)) + content


def text(number: int, content: str) -> bytes:
    """Return a field that holds a text."""
    return octets(number, content.encode())


def boolean(number: int, value: bool) -> bytes:
    """Return a field that holds a boolean, which says so of False as well."""
    return _varint(number << 3 | _VARINT) + bytes([value])


def double(number: int, value: float) -> bytes:
    """Return a field that holds a double."""
    return _varint(number << 3 | _FIXED_64) + struct.pack("<d", value)


def fixed(number: int, value: int) -> bytes:
    """Return a field that holds a fixed64, or a sfixed64: from -2^63 on, below 2^64."""
    return _varint(number << 3 | _FIXED_64) + struct.pack("<Q", value % 2**64)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def read(message: bytes, number: int) -> bytes | int | None:
    """Return a field's first value in a foreign message; None if it has none.

    Raises:
        ValueError: these bytes are no message.
    """
    offset = 0
    while offset < len(message):
        tag, offset = _read_varint(message, offset)
        value: bytes | int
        if tag & 7 == _VARINT:
            value, offset = _read_varint(message, offset)
        else:
            size, offset = _size(tag & 7, message, offset)
            value, offset = message[offset : offset + size], offset + size
            if offset > len(message):
                raise ValueError("a field extends past the end of its message")
        if tag >> 3 == number:
            return value
    return None


def _size(wire_type: int, message: bytes, offset: int) -> tuple[int, int]:
    if wire_type == _OCTETS:
        return _read_varint(message, offset)
    sizes = {_FIXED_64: 8, _FIXED_32: 4}
    if wire_type not in sizes:
        raise ValueError("a field has an unknown type")
    return sizes[wire_type], offset


def _read_varint(message: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for index, octet in enumerate(message[offset : offset + _LONGEST_VARINT]):
        value |= (octet & 0x7F) << 7 * index
        if octet < 0x80:
            return value, offset + index + 1
    raise ValueError("a number is cut off")
