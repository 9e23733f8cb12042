"""Strict deterministic CBOR (RFC 8949 section 4.2): the one module that reads or writes it.

Rules:
    1. Decoding refuses trailing bytes, duplicate keys, non-minimal lengths, indefinite lengths and unsorted maps. It
       re-encodes and compares, which catches all of them at once.
    2. Only unsigned and negative integers below 2**63, byte strings, text, arrays, maps, booleans and null exist on
       the wire. No floats (boards cannot read half floats), no tags. The keys of one map are all of one type, a kind
       of integer or string: so its order is the same by RFC 8949 (bytewise) and by RFC 7049 (shortest first).
    3. Nesting and the number of items are bounded before the parser sees the bytes.
    4. An array that is a whole structure (`decode_growing`) may end with an extension map of numbered fields that later
       builds add. A reader ignores odd keys that it does not know, and refuses unknown even ones as `unsupported`. Key
       2 is the suite of what is sealed; without it, it is suite 1.

Shapes are checked by small readers that a message type composes: `wire.record(value, "ack", wire.octets(8), ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import cbor2

from covey.errors import LimitError, MalformedError, UnsupportedError
from covey.limits.message import (
    MAXIMUM_CBOR_DEPTH,
    MAXIMUM_CBOR_ITEMS,
    MAXIMUM_COUNTER,
    MAXIMUM_EXTENSION_BYTES,
    MAXIMUM_EXTENSION_KEY,
)

T = TypeVar("T")
Read = Callable[[object], T]
Extensions = Mapping[int, Any]
"""The extension map of a structure, empty where it has none."""

SUITE = 2
"""The key of an extension map that names the suite by which something is sealed."""

_ARRAY, _MAP, _TAG, _SIMPLE = 4, 5, 6, 7
_ANY_KEY, _NO_KEYS = -1, -2
_NONE: tuple[int, ...] = ()


def encode(value: object) -> bytes:
    """Return the one deterministic encoding of `value`."""
    return cbor2.dumps(value, canonical=True)


def head_bytes(argument: int) -> int:
    """Return how many bytes the head of an item takes: a number, or the length of a string or array."""
    return (
        1 if argument < 24 else 2 if argument < 1 << 8 else 3 if argument < 1 << 16 else 5 if argument < 1 << 32 else 9
    )


def decode(raw: bytes, maximum: int, maximum_items: int = MAXIMUM_CBOR_ITEMS) -> Any:
    """Parse one deterministic CBOR item that fills `raw`.

    Raises:
        LimitError: longer than `maximum` bytes, of more items than `maximum_items`, or nested too deeply.
        MalformedError: anything that rule 1 or 2 refuses.
    """
    if len(raw) > maximum:
        raise LimitError(f"{len(raw)} bytes where at most {maximum} are allowed")
    _check_structure(raw, maximum_items)
    try:
        value = cbor2.loads(raw)
        canonical = encode(value)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise MalformedError("not CBOR") from error
    if canonical != raw:
        raise MalformedError("not deterministic CBOR")
    return value


def encode_growing(fields: list[Any], extensions: Extensions | None = None) -> bytes:
    """Return the encoding of a structure that may end with an extension map."""
    return encode([*fields, dict(extensions)] if extensions else fields)


def decode_growing(
    raw: bytes, maximum: int, maximum_items: int = MAXIMUM_CBOR_ITEMS, *, understood: Collection[int] = _NONE
) -> Any:
    """Parse a structure of at most `maximum` bytes without the extension map that may end it (rule 4).

    Raises:
        LimitError: as `decode`, or an extension map beyond its bound.
        MalformedError: as `decode`, or no extension map.
        UnsupportedError: an even key that is not `understood`.
    """
    return read_growing(raw, maximum, maximum_items, understood=understood)[0]


def read_growing(
    raw: bytes, maximum: int, maximum_items: int = MAXIMUM_CBOR_ITEMS, *, understood: Collection[int] = _NONE
) -> tuple[Any, Extensions]:
    """Return what `decode_growing` does, and the extension map.

    Raises:
        RemoteError: as `decode_growing`.
    """
    try:
        value, extensions = split_extensions(decode(raw, maximum + MAXIMUM_EXTENSION_BYTES, maximum_items), understood)
    except MalformedError:
        if len(raw) > maximum:
            raise LimitError(f"{len(raw)} bytes where at most {maximum} are allowed") from None
        raise
    if len(raw) - (len(encode(extensions)) if extensions else 0) > maximum:
        raise LimitError(f"{len(raw)} bytes where at most {maximum} are allowed")
    return value, extensions


def split_extensions(value: Any, understood: Collection[int] = _NONE) -> tuple[Any, Extensions]:
    """Return a parsed structure without its extension map, and that map.

    Raises:
        LimitError: the map is longer than `MAXIMUM_EXTENSION_BYTES`.
        MalformedError: it is empty, or its keys are not numbers.
        UnsupportedError: an even key that is not `understood`.
    """
    if type(value) is not list or not value or type(value[-1]) is not dict:
        return value, {}
    extensions = value[-1]
    if not extensions or any(type(key) is not int or not 0 < key <= MAXIMUM_EXTENSION_KEY for key in extensions):
        raise MalformedError(f"an extension map has one key at least, each from 1 to {MAXIMUM_EXTENSION_KEY}")
    if len(encode(extensions)) > MAXIMUM_EXTENSION_BYTES:
        raise LimitError(f"an extension map longer than {MAXIMUM_EXTENSION_BYTES} bytes")
    for key in extensions:
        if key % 2 == 0 and key not in understood:
            suite = f"suite {str(extensions[key])[:8]}" if key == SUITE else f"field {key}"
            raise UnsupportedError(f"{suite} must be understood, and this Covey does not know it: a newer one does")
    return value[:-1], extensions


def _check_structure(raw: bytes, maximum_items: int) -> None:
    """Walk the item heads once: depth, number, no tags, no floats, no indefinite lengths, nothing after the end."""
    position, size, items = 0, len(raw), 1
    left, keys = 1, _NO_KEYS  # items to come of the innermost open array or map, and the type of its keys
    outer: list[tuple[int, int]] = []
    while True:
        while left == 0:
            if not outer:
                if position != size:
                    raise MalformedError("bytes after the CBOR item")
                return
            left, keys = outer.pop()
        if position >= size:
            raise MalformedError("truncated CBOR")
        head = raw[position]
        major, argument = head >> 5, head & 31
        position += 1
        if argument >= 24:
            argument, position = _long_argument(raw, position, major, argument)
        if keys != _NO_KEYS and left % 2 == 0:
            keys = _check_key(major, keys)
        left -= 1
        if major < 2:
            continue
        if major < _ARRAY:
            position += argument
        elif major <= _MAP:
            outer.append((left, keys))
            left, keys = (2 * argument, _ANY_KEY) if major == _MAP else (argument, _NO_KEYS)
            items += left
            _check_room(left, size - position, items, maximum_items, len(outer))
        elif major == _TAG or (major == _SIMPLE and argument not in {20, 21, 22}):
            raise MalformedError("a CBOR type that Covey does not use")


def _check_room(children: int, room: int, items: int, maximum_items: int, depth: int) -> None:
    """Check an array or map before creating anything for its items."""
    if children > room:
        raise MalformedError("truncated CBOR")
    if items > maximum_items:
        raise LimitError(f"more than {maximum_items} CBOR items")
    if depth > MAXIMUM_CBOR_DEPTH:
        raise LimitError(f"CBOR nested deeper than {MAXIMUM_CBOR_DEPTH}")


def _check_key(major: int, known: int) -> int:
    """Return the type of a map's keys, the same for all of them."""
    if major >= _ARRAY or known not in {_ANY_KEY, major}:
        raise MalformedError("map keys must be integers or strings, all of one type")
    return major


def _long_argument(raw: bytes, position: int, major: int, low: int) -> tuple[int, int]:
    """Read a head's argument that does not fit its first byte: (argument, position after it)."""
    if low == 24 and major != _SIMPLE and position < len(raw):  # most strings: a key, an id, a signature
        return raw[position], position + 1
    if low > 27 or major == _SIMPLE:
        raise MalformedError("indefinite length, float or reserved CBOR head")
    end = position + (1 << (low - 24))
    if end > len(raw):
        raise MalformedError("truncated CBOR")
    argument = int.from_bytes(raw[position:end], "big")
    if argument > MAXIMUM_COUNTER and major < 2:
        raise MalformedError("an integer exceeds 63 bits")
    return argument, end


# Readers: each takes a parsed value and returns it typed, or raises MalformedError or LimitError.


def uint(maximum: int = MAXIMUM_COUNTER) -> Read[int]:
    """Read an unsigned integer of at most `maximum`."""

    def read(value: object) -> int:
        if type(value) is not int or not 0 <= value <= maximum:
            raise MalformedError(f"not an unsigned integer up to {maximum}")
        return value

    return read


def integer(value: object) -> int:
    """Read a signed integer."""
    if type(value) is not int:
        raise MalformedError("not an integer")
    return value


def boolean(value: object) -> bool:
    """Read a boolean."""
    if type(value) is not bool:
        raise MalformedError("not a boolean")
    return value


def octets(length: int) -> Read[bytes]:
    """Read a byte string of exactly `length`."""

    def read(value: object) -> bytes:
        if type(value) is not bytes or len(value) != length:
            raise MalformedError(f"not a byte string of {length}")
        return value

    return read


def octets_to(maximum: int) -> Read[bytes]:
    """Read a byte string of at most `maximum`."""

    def read(value: object) -> bytes:
        if type(value) is not bytes:
            raise MalformedError("not a byte string")
        if len(value) > maximum:
            raise LimitError(f"a byte string longer than {maximum}")
        return value

    return read


def text(maximum: int) -> Read[str]:
    """Read text of at most `maximum` UTF-8 bytes."""

    def read(value: object) -> str:
        if type(value) is not str:
            raise MalformedError("not text")
        if len(value.encode()) > maximum:
            raise LimitError(f"text longer than {maximum} bytes")
        return value

    return read


def many(item: Read[T], maximum: int) -> Read[tuple[T, ...]]:
    """Read an array of at most `maximum` alike items."""

    def read(value: object) -> tuple[T, ...]:
        if type(value) is not list:
            raise MalformedError("not an array")
        if len(value) > maximum:
            raise LimitError(f"an array of more than {maximum}")
        return tuple([item(element) for element in value])

    return read


def many_octets(length: int, maximum: int) -> Read[tuple[bytes, ...]]:
    """Read an array of at most `maximum` byte strings of exactly `length`, in a tenth of the time of `many`."""
    each = many(octets(length), maximum)

    def read(value: object) -> tuple[bytes, ...]:
        if type(value) is list and len(value) <= maximum and {*map(type, value)} == {bytes}:
            found: tuple[bytes, ...] = tuple(value)
            if {*map(len, found)} == {length}:
                return found
        return each(value)  # which says what is wrong

    return read


def optional(item: Read[T]) -> Read[T | None]:
    """Read null or an item."""

    def read(value: object) -> T | None:
        return None if value is None else item(value)

    return read


def record(value: object, what: str, *fields: Read[Any]) -> list[Any]:
    """Read an array with exactly these fields, each typed by its reader.

    Raises:
        MalformedError: not an array of that many fields, or a field of the wrong type; says which.
        LimitError: a field beyond its bound.
    """
    if type(value) is not list or len(value) != len(fields):
        raise MalformedError(f"{what}: not an array of {len(fields)}")
    result: list[Any] = []
    try:
        for element, read in zip(value, fields):  # noqa: B905 - of one length
            result.append(read(element))
    except (MalformedError, LimitError) as error:
        raise type(error)(f"{what}: field {len(result)}: {error}") from error
    return result
