"""Signed messages, the content of envelopes (docs/protocol/core.md, "Messages").

A message is `[signature64, signed]`. `signed` is the exact bytes of `[1, type, author, recipient, group_id,
incarnation, seq, link_seq, sent_at_us, body]`; the signature covers them with a domain tag, so that a relay, another
member or a stranger can neither relabel nor redirect a message.

* `author`, `recipient`: Ed25519 keys. `body`: shaped by the type: one deterministic CBOR item, or a blob as it is.
* `seq` counts the author's messages, `link_seq` those from this author to this recipient, both from 1 within an
  incarnation. Unsequenced messages (acknowledgements) carry 0 and 0; receiving one twice must be harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import GROUP_ID_BYTES, INCARNATION_BYTES, KEY_BYTES, DeviceKey, GroupId, Incarnation, LinkSeq
from covey.core.wire import cbor, imprints, shapes
from covey.core.wire.sequences import Range, SequenceSet, are_apart, read_range
from covey.errors import MalformedError, UnsupportedError
from covey.limits.link import MAXIMUM_ACKNOWLEDGED_RANGES, MAXIMUM_LOSS_RANGES, MAXIMUM_UNSUPPORTED
from covey.limits.message import MAXIMUM_MESSAGE_BYTES, MAXIMUM_SEQUENCE

_DOMAIN = b"covey/1 message"
_VERSION = 1
NO_GROUP = GroupId(bytes(GROUP_ID_BYTES))
"""The group_id of messages that belong to a link, not to a group; some have `wire/heads.py` in its place."""


class MessageType(IntEnum):
    """Numbers are the protocol's; those of the source documents are kept."""

    BLOB = 0x03
    GROUP_MANIFEST = 0x04
    REVOKE = 0x05
    JOIN = 0x06
    LINK = 0x07
    ACK = 0x08
    TELEMETRY = 0x09
    LOSS = 0x0A
    GROUP_PULL = 0x0B
    GROUP_VOTE = 0x0C
    GROUP_INVITE = 0x0D
    RESUME = 0x0E
    FORWARD = 0x0F
    COLLECTOR_KEY = 0x10
    PRESENCE = 0x11
    REDIRECTED = 0x12
    OPERATIONS = 0x13
    HISTORY_PULL = 0x14
    HEADS = 0x15
    SETTING_REPORT = 0x16
    ORDER_RESULT = 0x17
    EPHEMERAL = 0x18
    HISTORY_GRAPH = 0x19
    INVITE_REQUEST = 0x1A
    SUMMARY = 0x1B
    CONTENT_ACK = 0x71
    CONTENT_PULL = 0x72
    CONTENT_PART = 0x73
    MAILBOX = 0x80

    @classmethod
    def _missing_(cls, value: object) -> MessageType | None:
        """Make `UNKNOWN_TYPE`, which has no number on the wire."""
        if value != _UNKNOWN:
            return None
        unknown = int.__new__(cls, _UNKNOWN)
        unknown._name_, unknown._value_ = "UNKNOWN", _UNKNOWN
        return unknown


_UNSEQUENCED = frozenset(
    {
        MessageType.ACK,
        MessageType.RESUME,
        MessageType.PRESENCE,
        MessageType.HEADS,
        MessageType.EPHEMERAL,
        MessageType.CONTENT_PULL,
        MessageType.CONTENT_PART,
        MessageType.MAILBOX,
    }
)
_UNKNOWN = 0x100
UNKNOWN_TYPE = MessageType(_UNKNOWN)
"""What a message is that this build cannot use: of a newer Covey's type, or with a field that must be understood."""

BATCHES = frozenset({MessageType.TELEMETRY, MessageType.SUMMARY})
"""Readings, or what takes their place: what collectors land under numbers of batches, and what may be redirected."""

_EITHER = frozenset({MessageType.FORWARD})
_KNOWN = {int(each): each for each in MessageType}


@dataclass(frozen=True, slots=True)
class Message:
    """One signed message, parsed; `raw` is the exact bytes received.

    `newer` says what this build does not know of a sequenced message, whose type is `UNKNOWN_TYPE` then.
    """

    type: MessageType
    author: DeviceKey
    recipient: DeviceKey
    group_id: GroupId
    incarnation: Incarnation
    seq: int
    link_seq: LinkSeq
    sent_at_us: int
    body: bytes
    raw: bytes
    newer: str = ""


def write_message(
    identity: Identity,
    message_type: MessageType,
    recipient: DeviceKey,
    group_id: GroupId,
    incarnation: Incarnation,
    seq: int,
    link_seq: LinkSeq,
    sent_at_us: int,
    body: bytes,
) -> bytes:
    """Sign and return a message's bytes."""
    signed = cbor.encode_growing(
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
    return cbor.encode([crypto.sign(_DOMAIN, signed, identity), signed])


_READERS = (
    cbor.uint(255),
    cbor.uint(255),
    cbor.octets(KEY_BYTES),
    cbor.octets(KEY_BYTES),
    cbor.octets(GROUP_ID_BYTES),
    cbor.octets(INCARNATION_BYTES),
    cbor.uint(MAXIMUM_SEQUENCE),
    cbor.uint(MAXIMUM_SEQUENCE),
    cbor.uint(),
    cbor.octets_to(MAXIMUM_MESSAGE_BYTES),
)


def read_message(
    raw: bytes, *, verify: bool = True, admit: Callable[[DeviceKey], None] = lambda _author: None
) -> Message:
    """Parse a message and verify the author's signature over the exact bytes.

    `verify=False` is for a reader that has verified the same bytes before. `admit` is asked before the signature is
    verified, which costs most, whether anything of the author that it names is wanted: it raises where not.

    Raises:
        LimitError: longer than a message may be; nothing was parsed.
        MalformedError: not a message, or of an unknown version.
        SignatureError: not signed by the author it names.
        UnsupportedError: an unsequenced message of an unknown type, or with an unknown field that must be understood.
    """
    signature, signed, fields, newer = _read_quickly(raw) or _read_strictly(raw)
    version, kind, author, recipient, group_id, incarnation, seq, link_seq, sent_at_us, body = fields
    if version != _VERSION:
        raise MalformedError(f"message version {version}: a newer Covey?")
    if not newer and kind not in _KNOWN:
        newer = f"messages of type {kind:#04x} are unknown to this Covey: a newer one knows them"
    message_type = UNKNOWN_TYPE if newer else _KNOWN[kind]
    either = bool(newer) or message_type in _EITHER
    unsequenced = link_seq == 0 if either else message_type in _UNSEQUENCED
    if (seq == 0) != (link_seq == 0) or (link_seq == 0) != unsequenced:
        raise MalformedError(f"the {message_type.name} has the sequences of another type")
    if verify:
        admit(author)
        crypto.verify(_DOMAIN, signed, signature, author)
    if newer and not link_seq:
        raise UnsupportedError(newer)
    return Message(message_type, author, recipient, group_id, incarnation, seq, link_seq, sent_at_us, body, raw, newer)


def type_of(raw: bytes) -> MessageType | None:
    """Return the type of a message of one's own, without reading the rest; None for an unknown one."""
    return _KNOWN.get(raw[_type_at(raw)])


def group_of(raw: bytes) -> GroupId:
    """Return the group that a message of one's own names, without reading the rest."""
    begin = _type_at(raw) + 1 + 2 * (2 + KEY_BYTES) + 2
    return GroupId(raw[begin : begin + GROUP_ID_BYTES])


def _type_at(raw: bytes) -> int:
    signed = 67 + (2 if raw[67] == 0x58 else 3 if raw[67] == 0x59 else 5)  # after the signature: bytes, of some length
    return signed + (3 if raw[signed + 2] == 0x18 else 2)  # CBOR: a number takes one more byte from 24 on


def _read_strictly(raw: bytes) -> tuple[bytes, bytes, list[Any], str]:
    signature, signed = cbor.record(
        cbor.decode(raw, MAXIMUM_MESSAGE_BYTES),
        "message",
        cbor.octets(crypto.SIGNATURE_BYTES),
        cbor.octets_to(MAXIMUM_MESSAGE_BYTES),
    )
    value, newer = cbor.decode(signed, MAXIMUM_MESSAGE_BYTES), ""
    try:
        value, _ = cbor.split_extensions(value)
    except UnsupportedError as error:
        value, newer = value[:-1], str(error)
    return signature, signed, cbor.record(value, "signed message", *_READERS), newer


_SHAPE = shapes.shape(
    rb"\x82\x58\x40(.{64})(%(octets)b)\x8a\x01(%(uint8)b)\x58\x20(.{32})\x58\x20(.{32})\x58\x20(.{32})\x48(.{8})"
    rb"(%(uint)b)(%(uint)b)(%(uint)b)(%(octets)b)"
    % {b"octets": shapes.OCTETS, b"uint8": shapes.UINT_8, b"uint": shapes.UINT}
)


def _read_quickly(raw: bytes) -> tuple[bytes, bytes, list[Any], str] | None:
    """Return what `_read_strictly` does, or None where it has to judge."""
    found = _SHAPE.match(raw) if len(raw) <= MAXIMUM_MESSAGE_BYTES else None
    if found is None:
        return None
    uint, length = shapes.uint, shapes.length
    signature, size, kind, author, recipient, group_id, incarnation, seq, link_seq, sent_at, rest = found.groups()
    signed, body = raw[found.end(2) :], raw[found.end() :]
    if length(size) != len(signed) or length(rest) != len(body):
        return None
    number, link_number = uint(seq), uint(link_seq)
    if number > MAXIMUM_SEQUENCE or link_number > MAXIMUM_SEQUENCE:
        return None
    numbers = number, link_number, uint(sent_at)
    return signature, signed, [_VERSION, uint(kind), author, recipient, group_id, incarnation, *numbers, body], ""


_UNSUPPORTED = 1
"""The key of an acknowledgement's extension map: link sequences whose messages their recipient could not use."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What the recipient holds durably of one link.

    The sender may forget those whose `imprints` are their messages' (`core/link/imprints.py`); all of them, where None:
    a board names no imprints. `unsupported` are link sequences of messages that the recipient has set aside, as it
    does not know their type or a field that they need: they are in `received` as well.
    """

    incarnation: Incarnation
    received: SequenceSet
    imprints: Mapping[int, bytes] | None = None
    unsupported: tuple[LinkSeq, ...] = ()

    def to_wire(self) -> bytes:
        """Return the body `[incarnation, [upto, [[first, last], ...]]]`, imprints after it."""
        named = [] if self.imprints is None else [imprints.to_wire(self.imprints)]
        extensions = {_UNSUPPORTED: list(self.unsupported)} if self.unsupported else None
        fields = [self.incarnation, self.received.to_wire(MAXIMUM_ACKNOWLEDGED_RANGES), *named]
        return cbor.encode_growing(fields, extensions)

    @classmethod
    def from_wire(cls, body: bytes) -> Acknowledgement:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        fields, extensions = cbor.read_growing(body, _ACKNOWLEDGEMENT_BYTES)
        named = (imprints.from_wire,) if isinstance(fields, list) and len(fields) > 2 else ()
        incarnation, received, *rest = cbor.record(
            fields,
            "acknowledgement",
            cbor.octets(INCARNATION_BYTES),
            lambda value: SequenceSet.from_wire(value, MAXIMUM_ACKNOWLEDGED_RANGES),
            *named,
        )
        unsupported = _read_unsupported(extensions.get(_UNSUPPORTED, []))
        if list(unsupported) != sorted(set(unsupported)) or not all(each in received for each in unsupported):
            raise MalformedError("what a recipient cannot use has come, and is named once, in order")
        return cls(incarnation, received, rest[0] if rest else None, unsupported)


_read_sequence = cbor.uint(MAXIMUM_SEQUENCE)
_read_unsupported = cbor.many(lambda value: LinkSeq(_read_sequence(value)), MAXIMUM_UNSUPPORTED)
_ACKNOWLEDGEMENT_BYTES = 10_240
"""Ranges, runs and imprints at their longest."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A sender's answer to an acknowledgement that misses what its outbox does not hold: go on without these.

    They were acknowledged before, by a state that the recipient has lost, or their loss has a record of its own.
    """

    ranges: tuple[Range, ...]

    def to_wire(self) -> bytes:
        """Return the body `[[first, last], ...]`."""
        return cbor.encode_growing([list(span) for span in self.ranges])

    @classmethod
    def from_wire(cls, body: bytes) -> Resumption:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        spans = cbor.many(read_range, MAXIMUM_ACKNOWLEDGED_RANGES + 1)(cbor.decode_growing(body, 2048))
        return cls(spans)


class LossReason(IntEnum):
    """Why a sender no longer has a message that its recipient lacks."""

    OUTBOX_FULL = 1
    EXPIRED = 2
    WITHDRAWN = 3
    DAMAGED = 4
    RECIPIENT_LOST = 5

    @classmethod
    def _missing_(cls, value: object) -> LossReason | None:
        """Keep a newer Covey's reason as text, and keep counting losses."""
        if not isinstance(value, int) or not 0 < value <= _LAST_REASON:
            return None
        newer = int.__new__(cls, value)
        newer._name_, newer._value_ = f"REASON_{value}", value
        return newer


_LAST_REASON = 255


@dataclass(frozen=True, slots=True)
class Loss:
    """A signed admission: these link sequences will never come (docs/protocol/core.md, "Loss records").

    `numbers` are those of the telemetry among them, as far as they are known. `incarnation` names an earlier one of the
    author, which both then count in; None is the record's own. Ranges ascend and do not touch each other.
    """

    reason: LossReason
    places: tuple[Range, ...]
    numbers: tuple[Range, ...] = ()
    incarnation: Incarnation | None = None

    @property
    def last(self) -> int:
        """The highest of the link sequences."""
        return self.places[-1][1]

    def to_wire(self) -> bytes:
        """Return the body `[reason, [[first, last], ...], [[first, last], ...]]`, an earlier incarnation after it."""
        earlier = [] if self.incarnation is None else [self.incarnation]
        places, numbers = ([list(span) for span in spans] for spans in (self.places, self.numbers))
        return cbor.encode_growing([int(self.reason), places, numbers, *earlier])

    @classmethod
    def from_wire(cls, body: bytes) -> Loss:
        """Parse the body.

        Raises:
            RemoteError: malformed, beyond a bound, or of nothing.
        """
        fields = cbor.decode_growing(body, _LOSS_BYTES)
        spans = cbor.many(read_range, MAXIMUM_LOSS_RANGES)
        earlier = (cbor.octets(INCARNATION_BYTES),) if isinstance(fields, list) and len(fields) > 3 else ()
        reason, places, numbers, *incarnation = cbor.record(
            fields, "loss", cbor.uint(_LAST_REASON), spans, spans, *earlier
        )
        if not places or not are_apart(places) or not are_apart(numbers):
            raise MalformedError("a loss record's ranges must ascend and not touch")
        try:
            return cls(LossReason(reason), places, numbers, *incarnation)
        except ValueError as error:
            raise MalformedError(f"loss reason {reason}") from error


_LOSS_BYTES = 2_560
"""Two lists of `MAXIMUM_LOSS_RANGES` ranges at their longest."""
