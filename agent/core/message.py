"""Signed messages: what stands inside an envelope (docs/protocol.md, "Messages").

A message is `[signature64, signed]`. `signed` is the exact bytes of `[1, type, author, recipient, group_id,
incarnation, seq, link_seq, sent_at_us, body]`; the signature covers them with a domain tag, so that a relay, another
member or a stranger can neither relabel nor redirect a message.

* `author`, `recipient`: Ed25519 keys. `body`: shaped by the type: one deterministic CBOR item, or a blob as it is.
* `seq` counts the author's messages, `link_seq` those from this author to this recipient, both from 1 within an
  incarnation. Unsequenced messages (acknowledgements) carry 0 and 0; receiving one twice must be harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from agent.core import crypto, wire
from agent.core.crypto import Identity
from agent.core.ids import GROUP_ID_BYTES, INCARNATION_BYTES, KEY_BYTES
from agent.core.limits import MAXIMUM_ACKNOWLEDGED_RANGES, MAXIMUM_MESSAGE_BYTES
from agent.core.sequences import Range, SequenceSet
from agent.errors import MalformedError

_DOMAIN = b"covey/1 message"
_VERSION = 1
NO_GROUP = bytes(GROUP_ID_BYTES)
"""The group_id of messages that belong to a link, not to a group."""


class MessageType(IntEnum):
    """Numbers are the protocol's; those of the source documents are kept."""

    BLOB = 0x03
    GROUP_MANIFEST = 0x04
    REVOKE = 0x05
    JOIN = 0x06
    ACK = 0x08
    TELEMETRY = 0x09
    LOSS = 0x0A
    GROUP_PULL = 0x0B
    GROUP_VOTE = 0x0C
    GROUP_INVITE = 0x0D
    RESUME = 0x0E
    FORWARD = 0x0F
    COLLECTOR_KEY = 0x10


_UNSEQUENCED = frozenset({MessageType.ACK, MessageType.RESUME})
_EITHER = frozenset({MessageType.FORWARD})


@dataclass(frozen=True, slots=True)
class Message:
    """One signed message, parsed; `raw` is the exact bytes received."""

    type: MessageType
    author: bytes
    recipient: bytes
    group_id: bytes
    incarnation: bytes
    seq: int
    link_seq: int
    sent_at_us: int
    body: bytes
    raw: bytes


def write_message(
    identity: Identity,
    message_type: MessageType,
    recipient: bytes,
    group_id: bytes,
    incarnation: bytes,
    seq: int,
    link_seq: int,
    sent_at_us: int,
    body: bytes,
) -> bytes:
    """Sign and return a message's bytes."""
    signed = wire.encode(
        [
            _VERSION,
            int(message_type),
            identity.signing_public,
            recipient,
            group_id,
            incarnation,
            seq,
            link_seq,
            sent_at_us,
            body,
        ]
    )
    return wire.encode([crypto.sign(_DOMAIN, signed, identity), signed])


_READERS = (
    wire.uint(255),
    wire.uint(255),
    wire.octets(KEY_BYTES),
    wire.octets(KEY_BYTES),
    wire.octets(GROUP_ID_BYTES),
    wire.octets(INCARNATION_BYTES),
    wire.uint(),
    wire.uint(),
    wire.uint(),
    wire.octets_to(MAXIMUM_MESSAGE_BYTES),
)


def read_message(raw: bytes, *, verify: bool = True) -> Message:
    """Parse a message and verify the author's signature over the exact bytes.

    `verify=False` is for a reader that has verified the same bytes before.

    Raises:
        LimitError: longer than a message may be; nothing was parsed.
        MalformedError: not a message, or of an unknown version or type.
        SignatureError: not signed by the author it names.
    """
    outer = wire.record(
        wire.decode(raw, MAXIMUM_MESSAGE_BYTES),
        "message",
        wire.octets(crypto.SIGNATURE_BYTES),
        wire.octets_to(MAXIMUM_MESSAGE_BYTES),
    )
    signature, signed = outer
    version, kind, author, recipient, group_id, incarnation, seq, link_seq, sent_at_us, body = wire.record(
        wire.decode(signed, MAXIMUM_MESSAGE_BYTES), "signed message", *_READERS
    )
    if version != _VERSION:
        raise MalformedError(f"message version {version}: a newer Covey?")
    if verify:
        crypto.verify(_DOMAIN, signed, signature, author)
    try:
        message_type = MessageType(kind)
    except ValueError as error:
        raise MalformedError(f"message type {kind:#04x}: a newer Covey?") from error
    unsequenced = link_seq == 0 if message_type in _EITHER else message_type in _UNSEQUENCED
    if (seq == 0) != (link_seq == 0) or (link_seq == 0) != unsequenced:
        raise MalformedError("only acknowledgements and resumptions are unsequenced")
    return Message(message_type, author, recipient, group_id, incarnation, seq, link_seq, sent_at_us, body, raw)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What the recipient holds durably of one link: the sender may forget it."""

    incarnation: bytes
    received: SequenceSet

    def to_wire(self) -> bytes:
        """Return the body `[incarnation, upto, [[first, last], ...]]`."""
        return wire.encode([self.incarnation, self.received.to_wire(MAXIMUM_ACKNOWLEDGED_RANGES)])

    @classmethod
    def from_wire(cls, body: bytes) -> Acknowledgement:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        incarnation, received = wire.record(
            wire.decode(body, 2048),
            "acknowledgement",
            wire.octets(INCARNATION_BYTES),
            lambda value: SequenceSet.from_wire(value, MAXIMUM_ACKNOWLEDGED_RANGES),
        )
        return cls(incarnation, received)


@dataclass(frozen=True, slots=True)
class Resumption:
    """A sender's answer to an acknowledgement that misses what its outbox does not hold: go on without these.

    They were acknowledged before, by a state that the recipient has lost, or their loss has a record of its own.
    """

    ranges: tuple[Range, ...]

    def to_wire(self) -> bytes:
        """Return the body `[[first, last], ...]`."""
        return wire.encode([list(span) for span in self.ranges])

    @classmethod
    def from_wire(cls, body: bytes) -> Resumption:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        spans = wire.many(_span, MAXIMUM_ACKNOWLEDGED_RANGES + 1)(wire.decode(body, 2048))
        return cls(spans)


def _span(value: object) -> Range:
    first, last = wire.record(value, "range", wire.uint(), wire.uint())
    if not 1 <= first <= last:
        raise MalformedError("an empty range")
    return first, last


class LossReason(IntEnum):
    """Why a sender no longer has a message."""

    OUTBOX_FULL = 1
    EXPIRED = 2
    WITHDRAWN = 3
    DAMAGED = 4


@dataclass(frozen=True, slots=True)
class Loss:
    """A signed admission: these link sequences will never come (docs/protocol.md, "Loss records").

    `incarnation` names an earlier one of the author; None is the record's own.
    """

    first: int
    last: int
    reason: LossReason
    incarnation: bytes | None = None

    def to_wire(self) -> bytes:
        """Return the body `[first, last, reason]`, with an earlier incarnation after it."""
        earlier = [] if self.incarnation is None else [self.incarnation]
        return wire.encode([self.first, self.last, int(self.reason), *earlier])

    @classmethod
    def from_wire(cls, body: bytes) -> Loss:
        """Parse the body.

        Raises:
            RemoteError: malformed, or an empty range.
        """
        fields = wire.decode(body, 64)
        readers: list[Any] = [wire.uint(), wire.uint(), wire.uint(255)]
        if isinstance(fields, list) and len(fields) == len(readers) + 1:
            readers.append(wire.octets(INCARNATION_BYTES))
        first, last, reason, *earlier = wire.record(fields, "loss", *readers)
        if not 1 <= first <= last:
            raise MalformedError("an empty loss")
        try:
            return cls(first, last, LossReason(reason), *earlier)
        except ValueError as error:
            raise MalformedError(f"loss reason {reason}") from error
