"""Verify a receipt of Covey, from section 38 of docs/protocol/vault.md alone: `python receipt.py FILE KEY`.

It needs PyNaCl, and nothing of Covey. KEY is the device's signing key in hexadecimal.
"""

from __future__ import annotations

import hashlib
import math
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

_CLOCKS, _DECIMAL, _FLOAT = ("synchronised", "unsynchronised", "asserted"), 0, 2


class InvalidError(Exception):
    """It is no valid receipt of this device; the text says why."""


class Reading(NamedTuple):
    """What a receipt proves; `time` is in microseconds since 1970, by the device's clock."""

    name: str
    unit: str
    time: int
    value: float | bool | str | bytes
    clock: str
    place: int
    readings: int
    boot: bytes


def _item(raw: bytes, at: int, depth: int = 0) -> tuple[Any, int]:
    """Return the CBOR item that begins at a byte, and where it ends; only deterministic ones of section 1."""
    major, low = divmod(raw[at], 32)
    at += 1
    size = {24: 1, 25: 2, 26: 4, 27: 8}.get(low, 0)
    number = int.from_bytes(raw[at : at + size], "big") if size else low
    at += size
    if (
        low > 27
        or at > len(raw)
        or depth > 8
        or (size and number < (24, 1 << 8, 1 << 16, 1 << 32)[size.bit_length() - 1])
    ):
        raise InvalidError("CBOR is not deterministic")
    if major in {0, 1} and number < 1 << 63:
        return (number if major == 0 else -1 - number), at
    if major in {2, 3} and at + number <= len(raw):
        content = raw[at : at + number]
        return (content if major == 2 else content.decode()), at + number
    if major in {4, 5} and number <= len(raw):
        parts, heads = [], []
        for _ in range(number * (major - 3)):
            begin = at
            part, at = _item(raw, at, depth + 1)
            heads.append(raw[begin:at])
            parts.append(part)
        if major == 4:
            return parts, at
        if heads[::2] != sorted(set(heads[::2])) or not all(type(key) is int and key > 0 for key in parts[::2]):
            raise InvalidError("keys of a map")
        return dict(zip(parts[::2], parts[1::2], strict=True)), at
    if major == 7 and low in {20, 21, 22}:
        return {20: False, 21: True, 22: None}[low], at
    raise InvalidError("CBOR of another kind")


def _fields(raw: bytes, count: int) -> list[Any]:
    """Return the fields of a structure; the extension map that may end it has odd keys only (section 34)."""
    try:
        value, end = _item(raw, 0)
    except (IndexError, UnicodeDecodeError) as error:
        raise InvalidError("CBOR is cut off, or not UTF-8") from error
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        extensions = value.pop()
        if not extensions or any(key % 2 == 0 for key in extensions):
            raise InvalidError("a field that must be understood")
    if end != len(raw) or not isinstance(value, list) or len(value) != count:
        raise InvalidError("another number of fields")
    return value


def _octets(value: Any, size: int) -> bytes:
    if not isinstance(value, bytes) or len(value) != size:
        raise InvalidError(f"no {size} bytes")
    return value


def _whole(value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise InvalidError("a number out of its range")
    return value


def _value_of(kind: int, scale: int, content: Any) -> Any:
    if kind == _FLOAT:
        content = struct.unpack(">d", _octets(content, 8))[0]
        if not math.isfinite(content):
            raise InvalidError("no finite number")
    elif type(content) is not (int, bool, None, str, bytes)[kind] or (scale and kind != _DECIMAL):
        raise InvalidError("a value of another kind")
    if kind == _DECIMAL and (scale or abs(content) < 2**53):
        return content / 10**scale
    return content


def verify(raw: bytes, key: bytes) -> Reading:
    """Return what a receipt proves of the device with this signing key. Raises InvalidError."""
    if len(raw) > 2048:
        raise InvalidError("too long")
    head, signature, statement, index, salt, row, path, _ = _fields(raw, 8)
    if head != "covey/1 receipt" or [*map(type, (statement, row, path))] != [bytes, bytes, list]:
        raise InvalidError("not a receipt")
    try:
        VerifyKey(key).verify(b"covey/1 rows\0" + statement, _octets(signature, 64))
    except BadSignatureError:
        raise InvalidError("the signature does not verify") from None
    version, author, boot, clock, monotonic, wall, readings, root = _fields(statement, 8)
    if version != 1 or author != key:
        raise InvalidError("another version, or another device")
    size, place = _whole(readings, 1, 16_000), _whole(index, 0, readings - 1)
    node = hashlib.sha256(b"\0" + _octets(salt, 16) + row).digest()
    while size > 1:
        if place ^ 1 < size:
            other = _octets(path.pop(0) if path else None, 32)
            node = hashlib.sha256(b"\1" + (other + node if place & 1 else node + other)).digest()
        place, size = place >> 1, (size + 1) >> 1
    if path or node != root:
        raise InvalidError("the reading is not among those that were signed")
    name, unit, kind, scale, time, content = _fields(row, 6)
    if not isinstance(name, str) or not name or not isinstance(unit, str):
        raise InvalidError("no name, or no unit")
    value = _value_of(_whole(kind, 0, 4), _whole(scale, 0, 9), content)
    offset = 0 if _whole(clock, 0, 2) == 2 else _whole(wall, 0, 2**63 - 1) - _whole(monotonic, 0, 2**63 - 1)
    when = _whole(time, -(2**63), 2**63 - 1) + offset
    return Reading(name, unit, when, value, _CLOCKS[clock], index, readings, _octets(boot, 8))


if __name__ == "__main__":
    try:
        found = verify(Path(sys.argv[1]).read_bytes(), bytes.fromhex(sys.argv[2]))
    except InvalidError as error:
        sys.exit(f"error: {error}")
    print(found)
