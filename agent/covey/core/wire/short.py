"""Short messages: a signed message under a link key without the fields that the key implies (docs/protocol/core.md).

A short message is `[signature64, type, seq, link_seq, sent_at_us, body]`. Author and recipient are those of the link
key; its LINK names the group and the incarnation. The recipient restores the exact bytes that were signed and verifies
them, so what is stored, forwarded or landed is always the whole message. It saves about 115 bytes of each.

Where the LINK describes a batch, telemetry leaves more out: `[number, [clock, since, drift, named, inflated, packed]]`
is its body. Boot id and names are the LINK's, both anchors are differences from its own, and `named` is null where all
names are the same in the same order, else a list of their places among them; another name is spelled, with its unit.
It saves about 30 bytes, and all names.

Both directions only cut and join: the fields that stay are the same bytes in both forms, and the restored message goes
to the strict reader like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from covey.core import crypto
from covey.core.ids import GROUP_ID_BYTES, INCARNATION_BYTES, KEY_BYTES, DeviceKey, GroupId, Incarnation
from covey.core.wire import cbor
from covey.errors import MalformedError, RemoteError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES

_SHORT = b"\x86"
_MESSAGE = b"\x82"
_SIGNED = b"\x8a\x01"
"""The first bytes: arrays of six, of two, and of ten with the version."""

_SIGNATURE_ENDS = 3 + crypto.SIGNATURE_BYTES
_SIGNATURE_HEAD = b"\x58\x40"
_LARGE_TYPE = 0x18
"""A type from 24 on takes a byte more, after this one."""

_SHORTENED_BYTES = 8_192
"""Longer messages go as they are: 115 bytes are nothing to them."""

_TELEMETRY = 0x09
_BATCH_FORMAT = 1
_NUMBERED, _WHOLE_BATCH, _SHORT_BATCH = 2, 8, 6
_UINT63_MAX = 2**63 - 1
_READ_LATELY = 64
BOOT_ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class ImpliedBatch:
    """What a LINK says of its author's batches: its boot, a moment by both its clocks, and the names that it uses."""

    boot_id: bytes
    monotonic_us: int
    wall_us: int
    names: bytes = field(repr=False)

    @classmethod
    def of_message(cls, body: bytes) -> ImpliedBatch | None:
        """Return what a body of TELEMETRY says that this device has written."""
        batch = _whole_batch(body)
        return None if batch is None else cls(batch[1], batch[3], batch[4], batch[5])

    def fields(self) -> tuple[bytes, int, int, bytes]:
        """Return them in the order of a LINK."""
        return self.boot_id, self.monotonic_us, self.wall_us, self.names


@dataclass(frozen=True, slots=True)
class Implied:
    """The fields that a link key implies."""

    author: DeviceKey
    recipient: DeviceKey
    group_id: GroupId
    incarnation: Incarnation
    batch: ImpliedBatch | None = None
    encoded: bytes = field(init=False, repr=False, compare=False)
    """As they are in a message, after its type."""

    def __post_init__(self) -> None:
        """Encode them once."""
        names = self.author, self.recipient, self.group_id, self.incarnation
        object.__setattr__(self, "encoded", b"".join(map(cbor.encode, names)))

    def to_bytes(self) -> bytes:
        """Return all of them, one after the other."""
        names = self.author + self.recipient + self.group_id + self.incarnation
        return names if self.batch is None else names + cbor.encode(list(self.batch.fields()))

    @classmethod
    @lru_cache(maxsize=_READ_LATELY)
    def from_bytes(cls, raw: bytes) -> Implied:
        """Undo `to_bytes`, which each message under a key asks for again."""
        group_at, incarnation_at = 2 * KEY_BYTES, 2 * KEY_BYTES + GROUP_ID_BYTES
        ends = incarnation_at + INCARNATION_BYTES
        assert len(raw) >= ends
        batch: Any = cbor.decode(raw[ends:], len(raw)) if len(raw) > ends else None
        return cls(
            DeviceKey(raw[:KEY_BYTES]),
            DeviceKey(raw[KEY_BYTES:group_at]),
            GroupId(raw[group_at:incarnation_at]),
            Incarnation(raw[incarnation_at:ends]),
            None if batch is None else ImpliedBatch(*batch),
        )


def is_short(plaintext: bytes) -> bool:
    """Say whether the plaintext of a link envelope is a short message, if anything."""
    return plaintext.startswith(_SHORT)


def shorten(raw: bytes, implied: Implied) -> bytes | None:
    """Return the short form of a message that this device has written; None for one that has none under this key."""
    if len(raw) > _SHORTENED_BYTES or not raw.startswith(_MESSAGE):
        return None
    begin = raw.find(_SIGNED, _SIGNATURE_ENDS, _SIGNATURE_ENDS + 5)
    if begin < 0:  # it has an extension map
        return None
    kind_at = begin + len(_SIGNED)
    names_at = kind_at + _type_bytes(raw, kind_at)
    if not raw.startswith(implied.encoded, names_at):
        return None
    short = _SHORT + raw[1:_SIGNATURE_ENDS] + raw[kind_at:names_at] + raw[names_at + len(implied.encoded) :]
    if raw[kind_at] == _TELEMETRY and implied.batch is not None:
        *others, body = _fields(short)
        short = cbor.encode([*others, _shorten_body(body, implied.batch)])
    return short if restore(short, implied) == raw else None


def restore(short: bytes, implied: Implied) -> bytes:
    """Return the message of a short form, which is still to be read and verified.

    Raises:
        MalformedError: it is not like a short message.
    """
    if not is_short(short) or short[1:3] != _SIGNATURE_HEAD or len(short) <= _SIGNATURE_ENDS + 1:
        raise MalformedError("short message")
    if short[_SIGNATURE_ENDS] == _TELEMETRY and implied.batch is not None:
        *others, body = _fields(short)
        short = cbor.encode([*others, _restore_body(body, implied.batch)])
    names_at = _SIGNATURE_ENDS + _type_bytes(short, _SIGNATURE_ENDS)
    signed = _SIGNED + short[_SIGNATURE_ENDS:names_at] + implied.encoded + short[names_at:]
    return _MESSAGE + short[1:_SIGNATURE_ENDS] + cbor.encode(signed)


def _type_bytes(raw: bytes, at: int) -> int:
    return 2 if raw[at] == _LARGE_TYPE else 1


def _fields(short: bytes) -> list[Any]:
    fields = cbor.decode(short, MAXIMUM_MESSAGE_BYTES)
    if not isinstance(fields, list) or not isinstance(fields[-1], bytes):
        raise MalformedError("short message")
    return fields


def _numbered(body: bytes, batch_fields: int) -> tuple[int, list[Any], cbor.Extensions] | None:
    """Return number, batch and extension map of a body, if its batch has so many fields."""
    try:
        value, extensions = cbor.read_growing(body, MAXIMUM_MESSAGE_BYTES)
    except RemoteError:
        return None
    if not isinstance(value, list) or len(value) != _NUMBERED:
        return None
    number, batch = value
    return (number, batch, extensions) if isinstance(batch, list) and len(batch) == batch_fields else None


def _whole_batch(body: bytes) -> list[Any] | None:
    found = _numbered(body, _WHOLE_BATCH)
    return None if found is None else found[1]


def _shorten_body(body: bytes, implied: ImpliedBatch) -> bytes:
    """Return the short body of a batch of this device; the body itself where it has another boot's."""
    found = _numbered(body, _WHOLE_BATCH)
    if found is None or found[1][1] != implied.boot_id:
        return body
    number, (_, _, clock, monotonic_us, wall_us, names, inflated, packed), extensions = found
    since = monotonic_us - implied.monotonic_us
    drift = wall_us - implied.wall_us - since
    batch = [clock, since, drift, _places_of(names, implied.names), inflated, packed]
    return cbor.encode_growing([number, batch], extensions)


def _places_of(names: bytes, known: bytes) -> list[int | str] | None:
    if names == known:
        return None
    places = {pair: place for place, pair in enumerate(_pairs(known))}
    named = list[int | str]()
    for pair in _pairs(names):
        place = places.get(pair)
        named += pair if place is None else (place,)
    return named


def _pairs(names: bytes) -> list[tuple[str, str]]:
    texts: Any = cbor.decode(names, MAXIMUM_MESSAGE_BYTES)
    return list(zip(texts[::2], texts[1::2], strict=False))


def _restore_body(body: bytes, implied: ImpliedBatch) -> bytes:
    found = _numbered(body, _SHORT_BATCH)
    if found is None:  # a whole one, or what its reader refuses
        return body
    number, (clock, since, drift, named, inflated, packed), extensions = found
    if type(since) is not int or type(drift) is not int:
        raise MalformedError("short telemetry: an anchor that is no number")
    monotonic_us, wall_us = implied.monotonic_us + since, implied.wall_us + since + drift
    if not 0 <= monotonic_us <= _UINT63_MAX or not 0 <= wall_us <= _UINT63_MAX:
        raise MalformedError("short telemetry: an anchor that no batch can have")
    names = implied.names if named is None else _names_at(named, _pairs(implied.names))
    batch = [_BATCH_FORMAT, implied.boot_id, clock, monotonic_us, wall_us, names, inflated, packed]
    restored = cbor.encode_growing([number, batch], extensions)
    if len(restored) > _SHORTENED_BYTES:
        raise MalformedError(f"short telemetry of more than {_SHORTENED_BYTES} bytes")
    return restored


def _names_at(named: object, known: list[tuple[str, str]]) -> bytes:
    """Return the names that places and spelled names make; whether units follow names is for the batch's reader."""
    if not isinstance(named, list) or not all(isinstance(each, str) or _is_place(each, known) for each in named):
        raise MalformedError("short telemetry: a name that the link key does not imply")
    return cbor.encode([text for each in named for text in ((each,) if isinstance(each, str) else known[each])])


def _is_place(value: object, known: list[tuple[str, str]]) -> bool:
    return type(value) is int and 0 <= value < len(known)
