"""Short messages: a signed message under a link key without the fields that the key implies (docs/protocol/core.md).

A short message is `[signature64, type, seq, link_seq, sent_at_us, body]`. Author and recipient are those of the link
key; its LINK names the group and the incarnation. The recipient restores the exact bytes that were signed and verifies
them, so what is stored, forwarded or landed is always the whole message. It saves about 115 bytes of each.

Both directions only cut and join: the fields that stay are the same bytes in both forms, and the restored message goes
to the strict reader like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.core import crypto
from covey.core.ids import GROUP_ID_BYTES, INCARNATION_BYTES, KEY_BYTES, DeviceKey, GroupId, Incarnation
from covey.core.wire import cbor
from covey.errors import MalformedError

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


@dataclass(frozen=True, slots=True)
class Implied:
    """The fields that a link key implies."""

    author: DeviceKey
    recipient: DeviceKey
    group_id: GroupId
    incarnation: Incarnation
    encoded: bytes = field(init=False, repr=False, compare=False)
    """As they are in a message, after its type."""

    def __post_init__(self) -> None:
        """Encode them once."""
        names = self.author, self.recipient, self.group_id, self.incarnation
        object.__setattr__(self, "encoded", b"".join(map(cbor.encode, names)))

    def to_bytes(self) -> bytes:
        """Return all four, one after the other."""
        return self.author + self.recipient + self.group_id + self.incarnation

    @classmethod
    def from_bytes(cls, raw: bytes) -> Implied:
        """Undo `to_bytes`."""
        group_at, incarnation_at = 2 * KEY_BYTES, 2 * KEY_BYTES + GROUP_ID_BYTES
        assert len(raw) == incarnation_at + INCARNATION_BYTES
        return cls(
            DeviceKey(raw[:KEY_BYTES]),
            DeviceKey(raw[KEY_BYTES:group_at]),
            GroupId(raw[group_at:incarnation_at]),
            Incarnation(raw[incarnation_at:]),
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
    return short if restore(short, implied) == raw else None


def restore(short: bytes, implied: Implied) -> bytes:
    """Return the message of a short form, which is still to be read and verified.

    Raises:
        MalformedError: it does not begin like a short message.
    """
    if not is_short(short) or short[1:3] != _SIGNATURE_HEAD or len(short) <= _SIGNATURE_ENDS + 1:
        raise MalformedError("short message")
    names_at = _SIGNATURE_ENDS + _type_bytes(short, _SIGNATURE_ENDS)
    signed = _SIGNED + short[_SIGNATURE_ENDS:names_at] + implied.encoded + short[names_at:]
    return _MESSAGE + short[1:_SIGNATURE_ENDS] + cbor.encode(signed)


def _type_bytes(raw: bytes, at: int) -> int:
    return 2 if raw[at] == _LARGE_TYPE else 1
