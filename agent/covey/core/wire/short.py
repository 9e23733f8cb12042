"""Short messages: a signed message under a link key without the fields that the key implies (docs/protocol/core.md).

A short message is `[signature64, type, seq, link_seq, sent_at_us, body]`. Author and recipient are those of the link
key; its LINK names the group and the incarnation. The recipient restores the exact bytes that were signed and verifies
them, so what is stored, forwarded or landed is always the whole message. It saves about 115 bytes of each.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.core import crypto
from covey.core.ids import GROUP_ID_BYTES, INCARNATION_BYTES, KEY_BYTES, DeviceKey, GroupId, Incarnation
from covey.core.wire import cbor
from covey.core.wire.message import read_message
from covey.errors import RemoteError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES, MAXIMUM_SEQUENCE

_VERSION = 1
_SHORT = b"\x86"
"""The first byte, an array of six."""

_SHORTENED_BYTES = 8_192
"""Longer messages go as they are: 115 bytes are nothing to them."""


@dataclass(frozen=True, slots=True)
class Implied:
    """The fields that a link key implies."""

    author: DeviceKey
    recipient: DeviceKey
    group_id: GroupId
    incarnation: Incarnation

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
    """Return a message's short form; None for one that has none under this key."""
    if len(raw) > _SHORTENED_BYTES:
        return None
    try:
        message = read_message(raw, verify=False)
    except RemoteError:
        return None
    if message.newer or Implied(message.author, message.recipient, message.group_id, message.incarnation) != implied:
        return None
    signature = raw[3 : 3 + crypto.SIGNATURE_BYTES]
    fields = int(message.type), message.seq, message.link_seq, message.sent_at_us, message.body
    # A message with an extension map has more than these fields.
    return cbor.encode([signature, *fields]) if _whole(signature, fields, implied) == raw else None


def restore(short: bytes, implied: Implied) -> bytes:
    """Return the message of a short form; its signature is still to be verified.

    Raises:
        LimitError: longer than a message may be; nothing was parsed.
        MalformedError: no short message.
    """
    signature, *fields = cbor.record(cbor.decode(short, MAXIMUM_MESSAGE_BYTES), "short message", *_READERS)
    return _whole(signature, tuple(fields), implied)


def _whole(signature: bytes, fields: tuple[object, ...], implied: Implied) -> bytes:
    kind, *rest = fields
    names = implied.author, implied.recipient, implied.group_id, implied.incarnation
    return cbor.encode([signature, cbor.encode([_VERSION, kind, *names, *rest])])


_READERS = (
    cbor.octets(crypto.SIGNATURE_BYTES),
    cbor.uint(255),
    cbor.uint(MAXIMUM_SEQUENCE),
    cbor.uint(MAXIMUM_SEQUENCE),
    cbor.uint(),
    cbor.octets_to(MAXIMUM_MESSAGE_BYTES),
)
