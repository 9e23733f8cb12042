"""Notes: short messages about a link, in link envelopes (docs/protocol/core.md, "Notes").

A note is `[type, heads, body]`. The link key authenticates it: only its author and this device hold the key. So a note
needs no signature, author, recipient or number, and an acknowledgement fits into the smallest envelope. Nobody else can
verify a note: types whose messages are forwarded, stored or shown to others have none. Nor have HEADS, which repair
what a device has lost with its state, for it may have lost the link key as well.
"""

from __future__ import annotations

from covey.core.ids import GROUP_ID_BYTES, INCARNATION_BYTES, DeviceKey, GroupId, Incarnation, LinkSeq
from covey.core.wire import cbor
from covey.core.wire.message import Message, MessageType
from covey.errors import UnsupportedError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES

NOTES = frozenset({MessageType.ACK, MessageType.PRESENCE})
"""Types that have notes: their recipient acts on them at once, and keeps none of them."""

_SIGNED = b"\x82"
"""The first byte of a signed message, an array of two."""


def is_note(plaintext: bytes) -> bool:
    """Say whether the plaintext of a link envelope is a note, if anything: it is no signed message."""
    return not plaintext.startswith(_SIGNED)


def write_note(kind: MessageType, heads: GroupId, body: bytes) -> bytes:
    """Return a note's bytes; `heads` is what it says of the shared groups (`heads.py`)."""
    assert kind in NOTES, f"a {kind.name} is signed"
    return cbor.encode_growing([int(kind), heads, body])


def read_note(raw: bytes, author: DeviceKey, recipient: DeviceKey) -> Message:
    """Parse a note under the author's link key, as the unsequenced message that it stands for; it names no incarnation.

    Raises:
        LimitError: longer than a message may be; nothing was parsed.
        MalformedError: no note.
        UnsupportedError: of a type that has no notes, or with an unknown field that must be understood.
    """
    kind, heads, body = cbor.record(
        cbor.decode_growing(raw, MAXIMUM_MESSAGE_BYTES),
        "note",
        cbor.uint(255),
        cbor.octets(GROUP_ID_BYTES),
        cbor.octets_to(MAXIMUM_MESSAGE_BYTES),
    )
    if kind not in NOTES:
        raise UnsupportedError(f"a note of type {kind:#04x}, which this Covey does not know")
    incarnation = Incarnation(bytes(INCARNATION_BYTES))
    return Message(MessageType(kind), author, recipient, GroupId(heads), incarnation, 0, LinkSeq(0), 0, body, raw)
