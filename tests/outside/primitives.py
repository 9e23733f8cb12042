"""Sections 1 and 2: deterministic CBOR of a known shape, personalised hashes, signatures under a domain.

A shape is CDDL as Python says it: a type; a range; `Size(n)` for n bytes; a tuple of fields; `[shape]` for an array of
any length; a map of fields; a frozenset of alternatives; else the value itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import cbor2
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

_DEPTH = 8
_ITEMS = 65_536
_PERSON_BYTES = 16
_EXTENSIONS = 1_024
_LAST_KEY = 65_535
_INT64 = range(-(2**63), 2**63)


class RefusedError(Exception):
    """Not what the document says; the first argument is the failure code of section 16."""


@dataclass(frozen=True, slots=True)
class Size:
    """So many bytes."""

    count: int


UINT63 = range(2**63)
SEQUENCE = range(2**40)
KEY = HASH = GROUP_ID = Size(32)
INCARNATION = BOOT_ID = Size(8)
NODE_ID = VAULT_ID = Size(16)
SIGNATURE = Size(64)
"""Of the CDDL at the document's beginning."""


def parsed(content: bytes, shape: object, *, items: int = _ITEMS) -> Any:
    """Return the one item that the bytes are, if it is deterministic, within the limits and of the shape."""
    try:
        value = cbor2.loads(content)
        reencoded = cbor2.dumps(value, canonical=True)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError) as error:
        raise RefusedError("limit" if "nesting depth" in str(error) else "malformed", str(error)) from error
    if reencoded != content:
        raise RefusedError("malformed", "not deterministic, or bytes follow")
    if _count(value, 0) > items:
        raise RefusedError("limit", "items")
    if not fits(value, shape):
        raise RefusedError("malformed", "shape")
    return value


def grown(content: bytes, shape: object, *, items: int = _ITEMS) -> Any:
    """Return a structure of a shape, without the extension map that may end it."""
    return grown_and_extensions(content, shape, items=items)[0]


def grown_and_extensions(content: bytes, shape: object, *, items: int = _ITEMS) -> tuple[Any, dict[int, Any]]:
    """Return a structure of a shape, and the extension map that ends it, or an empty one."""
    extensions: dict[int, Any] = {}
    value = parsed(content, list, items=items)
    if value and isinstance(value[-1], dict):
        extensions = value.pop()
        if not extensions or not all(type(key) is int and 0 < key <= _LAST_KEY for key in extensions):
            raise RefusedError("malformed", "an extension map")
        if len(cbor2.dumps(extensions, canonical=True)) > _EXTENSIONS:
            raise RefusedError("limit", "an extension map")
        if any(key % 2 == 0 for key in extensions):
            raise RefusedError("unsupported", "a field that must be understood")
    if not fits(value, shape):
        raise RefusedError("malformed", "shape")
    return value, extensions


def _count(value: object, depth: int) -> int:
    """Count the items of a value; refuse types that the protocol does not know, and what is nested too deep."""
    if isinstance(value, dict) and len({(type(key), isinstance(key, int) and key < 0) for key in value}) > 1:
        raise RefusedError("malformed", "keys of several types")
    if isinstance(value, dict) and not all(type(key) in {int, bytes, str} for key in value):
        raise RefusedError("malformed", "a key's type")
    if isinstance(value, list | dict):
        if depth == _DEPTH:
            raise RefusedError("limit", "depth")
        parts = value if isinstance(value, list) else [part for pair in value.items() for part in pair]
        return 1 + sum(_count(part, depth + 1) for part in parts)
    if not (value is None or type(value) in {bool, bytes, str} or (type(value) is int and value in _INT64)):
        raise RefusedError("malformed", f"a {type(value).__name__}")
    return 1


def fits(value: object, shape: object) -> bool:  # noqa: PLR0911 - one or two for each kind of shape
    """Say whether a value is of a shape."""
    match shape:
        case type():
            return shape is object or type(value) is shape
        case range():
            return type(value) is int and value in shape
        case Size():
            return isinstance(value, bytes) and len(value) == shape.count
        case frozenset():
            return any(fits(value, each) for each in shape)
        case tuple():
            return isinstance(value, list) and len(value) == len(shape) and all(map(fits, value, shape))
        case dict():
            if not isinstance(value, dict) or value.keys() != shape.keys():
                return False
            return all(fits(value[name], each) for name, each in shape.items())
        case [each]:
            return isinstance(value, list) and all(fits(part, each) for part in value)
        case _:
            return type(value) is type(shape) and value == shape


def either(*shapes: Hashable) -> frozenset[Hashable]:
    """Return the shape of any of these."""
    return frozenset(shapes)


def hashed(content: bytes, person: str, size: int = 32) -> bytes:
    """Return BLAKE2b with a personalisation."""
    return hashlib.blake2b(content, digest_size=size, person=person.encode().ljust(_PERSON_BYTES, b"\0")).digest()


def check_signature(domain: str, signer: bytes, signature: bytes, content: bytes) -> None:
    """Refuse a signature that is not the signer's over the exact bytes."""
    try:
        VerifyKey(signer).verify(domain.encode() + b"\0" + content, signature)
    except BadSignatureError:
        raise RefusedError("signature", domain) from None
