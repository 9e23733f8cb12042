"""Notes: short messages about a link, in link envelopes (docs/protocol/core.md, "Notes").

A note is `[type, heads, body]`. The link key authenticates it: only its author and this device hold the key. So a note
needs no signature, author, recipient or number. The usual acknowledgement (all up to a number has come, and the newest
are named) is shorter still: `[type, heads, incarnation, upto, imprints]`. Nobody else can verify a note: types whose
messages are forwarded, stored or shown to others have none. Nor have HEADS, which repair what a device has lost with
its state, for it may have lost the link key as well.
"""

from __future__ import annotations

from covey.core.ids import GROUP_ID_BYTES, INCARNATION_BYTES, DeviceKey, GroupId, Incarnation, LinkSeq
from covey.core.wire import cbor
from covey.core.wire.heads import SHARED_BYTES
from covey.core.wire.imprints import IMPRINT_BYTES
from covey.core.wire.message import Acknowledgement, Message, MessageType
from covey.core.wire.sequences import SequenceSet
from covey.errors import MalformedError, UnsupportedError
from covey.limits.link import MAXIMUM_IMPRINTS
from covey.limits.message import MAXIMUM_MESSAGE_BYTES, MAXIMUM_SEQUENCE

NOTES = frozenset({MessageType.ACK, MessageType.PRESENCE})
"""Types that have notes: their recipient acts on them at once, and keeps none of them."""

_SHORTENED_BYTES = 64
"""Longer acknowledgements stay as they are: they name many messages, of which few bytes more are nothing."""
_SHORT, _SHORT_FIELDS = b"\x85", 5
"""It has no extension map, with which it would begin as a short message does; what needs one takes the long form."""
_SIGNED = b"\x82"
"""The first byte of a signed message, an array of two."""


def is_note(plaintext: bytes) -> bool:
    """Say whether the plaintext of a link envelope is a note, if anything: it is no signed message."""
    return not plaintext.startswith(_SIGNED)


def write_note(kind: MessageType, heads: GroupId, body: bytes) -> bytes:
    """Return a note's bytes; `heads` is what it says of the shared groups (`heads.py`)."""
    assert kind in NOTES, f"a {kind.name} is signed"
    shortened = _shortened(body) if kind is MessageType.ACK and len(body) <= _SHORTENED_BYTES else None
    if shortened is not None:
        return cbor.encode([int(kind), heads[:SHARED_BYTES], *shortened])
    return cbor.encode_growing([int(kind), heads[:SHARED_BYTES], body])


def _shortened(body: bytes) -> list[object] | None:
    """Return the fields that stand for the usual acknowledgement; None of any other one."""
    said = Acknowledgement.from_wire(body)
    upto, named = said.received.upto, said.imprints or {}
    if not named or said.unsupported or said.received.ranges or list(named) != _newest(upto, len(named)):
        return None
    return [said.incarnation, upto, b"".join(named.values())]


def _newest(upto: int, count: int) -> list[int]:
    return list(range(upto - count + 1, upto + 1))


def _restored(fields: list[object]) -> bytes:
    """Return the body that `_shortened` has shortened.

    Raises:
        RemoteError: it is none.
    """
    _, _, incarnation, upto, joined = cbor.record(
        fields,
        "acknowledgement",
        cbor.uint(255),
        cbor.octets(SHARED_BYTES),
        cbor.octets(INCARNATION_BYTES),
        cbor.uint(MAXIMUM_SEQUENCE),
        cbor.octets_to(MAXIMUM_IMPRINTS * IMPRINT_BYTES),
    )
    count, rest = divmod(len(joined), IMPRINT_BYTES)
    if rest or not 0 < count <= upto:
        raise MalformedError("imprints must be complete, and of the newest numbers")
    each = (joined[at : at + IMPRINT_BYTES] for at in range(0, len(joined), IMPRINT_BYTES))
    named = dict(zip(_newest(upto, count), each, strict=True))
    return Acknowledgement(incarnation, SequenceSet(upto), named).to_wire()


def read_note(raw: bytes, author: DeviceKey, recipient: DeviceKey) -> Message:
    """Parse a note under the author's link key, as the unsequenced message that it stands for; it names no incarnation.

    Raises:
        LimitError: longer than a message may be; nothing was parsed.
        MalformedError: no note.
        UnsupportedError: of a type that has no notes, or with an unknown field that must be understood.
    """
    fields = cbor.decode_growing(raw, MAXIMUM_MESSAGE_BYTES)
    if raw.startswith(_SHORT) and len(fields) == _SHORT_FIELDS and fields[0] == MessageType.ACK:
        fields = [*fields[:2], _restored(fields)]
    kind, heads, body = cbor.record(
        fields, "note", cbor.uint(255), cbor.octets(SHARED_BYTES), cbor.octets_to(MAXIMUM_MESSAGE_BYTES)
    )
    if kind not in NOTES:
        raise UnsupportedError(f"a note of type {kind:#04x}, which this Covey does not know")
    incarnation, group_id = Incarnation(bytes(INCARNATION_BYTES)), GroupId(heads.ljust(GROUP_ID_BYTES, b"\0"))
    return Message(MessageType(kind), author, recipient, group_id, incarnation, 0, LinkSeq(0), 0, body, raw)
