"""Messages between devices and mailboxes (docs/protocol/content.md, "Mailbox").

A MAILBOX message is an unsequenced one of a group. Its body is `[number, ...]`, where `number` is that of the message
in 002, and the rest its fields in the order of 002. What 002 has in its envelope is in the message's header: the group,
and the sender as its author. So no number of 002 is read as one of Covey's own types (ADR 76).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from enum import Enum, IntEnum
from itertools import pairwise
from typing import Any, ClassVar

from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.wire import cbor
from covey.core.wire.envelope import sealed_length
from covey.core.wire.sequences import Range
from covey.errors import LimitError, MalformedError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.mailbox import (
    DELETED_RANGES,
    MAXIMUM_ERROR_BYTES,
    MAXIMUM_HOOK_BYTES,
    MAXIMUM_PULL_BLOBS,
)
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES, MAXIMUM_MESSAGE_BYTES, MAXIMUM_SEQUENCE

VERSION = 1
BLOB_ID_BYTES = 16
NO_BLOB = bytes(BLOB_ID_BYTES)
"""In an ERROR: it is about no blob."""
_RELAY_ID_BYTES = 64
_NAME_BYTES = 4 * MAXIMUM_LABEL_BYTES
_CODE_BYTES = 32
_BLOB_ID = cbor.octets(BLOB_ID_BYTES)
_CURSOR = cbor.uint(MAXIMUM_SEQUENCE)
_KEY = cbor.octets(KEY_BYTES)
_COUNT = cbor.uint(2**32 - 1)


class Number(IntEnum):
    """The messages of 002, by its numbers."""

    HELLO = 0x01
    WELCOME = 0x02
    PUSH = 0x10
    PUSH_ACK = 0x11
    PULL = 0x20
    PULL_RESPONSE = 0x21
    NOTIFY = 0x31
    DELETE = 0x40
    REVOKE_DEVICE = 0x50
    DEVICE_REVOKED = 0x51
    REGISTER_PUSH = 0x60
    UNREGISTER_PUSH = 0x61
    ERROR = 0xFF


class Hook(IntEnum):
    """How a device wants to be woken."""

    MQTT = 1
    WEBHOOK = 2
    PROGRAM = 3


AROUND_BLOB = 512
"""Bytes of a message with one blob, in addition to the blob, and a reserve."""


def fits_relay(payload_bytes: int, maximum_payload: int) -> bool:
    """Say whether a message that brings such a blob goes by a relay that takes so much."""
    size = payload_bytes + AROUND_BLOB
    return size <= MAXIMUM_MESSAGE_BYTES and sealed_length(size) <= maximum_payload


@dataclass(frozen=True, slots=True)
class _Body:
    """One message: `to_wire` is its number and its fields."""

    number: ClassVar[Number]

    def to_wire(self) -> bytes:
        """Return the body `[number, ...]`."""
        return cbor.encode_growing([int(self.number), *(_plain(each) for each in astuple(self))])


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, IntEnum) else value


@dataclass(frozen=True, slots=True)
class Hello(_Body):
    """A device greets; `last_cursor` is up to where it has dealt with what waited, 0 at first (002.03)."""

    number = Number.HELLO
    version: int
    device_name: str
    last_cursor: int


@dataclass(frozen=True, slots=True)
class MailboxWelcome(_Body):
    """The mailbox answers: `relay_id` names its state, `max_cursor` is the last one given; how many wait (002.04)."""

    number = Number.WELCOME
    version: int
    relay_id: str
    max_cursor: int
    pending_count: int


@dataclass(frozen=True, slots=True)
class Push(_Body):
    """A sealed envelope for a recipient, to be kept for `ttl` seconds of running, 0: as the mailbox likes (002.05)."""

    number = Number.PUSH
    blob_id: bytes
    payload: bytes = field(repr=False)
    ttl: int
    recipient: DeviceKey


@dataclass(frozen=True, slots=True)
class PushAck(_Body):
    """It is kept durably, under a cursor of the recipient's inbox; the time is the mailbox's clock (002.06)."""

    number = Number.PUSH_ACK
    blob_id: bytes
    cursor: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Pull(_Body):
    """Asks for what has a cursor above `after_cursor`; `limit` 0 is the default (002.07)."""

    number = Number.PULL
    after_cursor: int
    limit: int


@dataclass(frozen=True, slots=True)
class BlobEntry:
    """One envelope that waited; `timestamp` is informational, nothing is ordered by it (002.09, 002.42)."""

    blob_id: bytes
    cursor: int
    sender_id: DeviceKey
    payload: bytes = field(repr=False)
    timestamp: int


@dataclass(frozen=True, slots=True)
class PullResponse(_Body):
    """What waits, in the order of its cursors; `has_more`: another PULL brings more (002.08)."""

    number = Number.PULL_RESPONSE
    blobs: tuple[BlobEntry, ...]
    has_more: bool
    max_cursor: int


@dataclass(frozen=True, slots=True)
class Notify(_Body):
    """Something new waits (002.11)."""

    number = Number.NOTIFY
    blob_id: bytes
    cursor: int
    sender_id: DeviceKey
    timestamp: int
    size: int


@dataclass(frozen=True, slots=True)
class Delete(_Body):
    """Its author has dealt with these cursors of its inbox, durably (002.12)."""

    number = Number.DELETE
    cursors: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class RevokeDevice(_Body):
    """A member's signed removal of a device: a body of GROUP_MANIFEST (002.13)."""

    number = Number.REVOKE_DEVICE
    device: DeviceKey
    manifests: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeviceRevoked(_Body):
    """The mailbox keeps nothing for that device any more, and takes nothing of it (002.14)."""

    number = Number.DEVICE_REVOKED
    device: DeviceKey


@dataclass(frozen=True, slots=True)
class RegisterPush(_Body):
    """How its author wants to be woken when something waits; it carries no content (002.15)."""

    number = Number.REGISTER_PUSH
    hook: Hook
    target: str


@dataclass(frozen=True, slots=True)
class UnregisterPush(_Body):
    """Its author no longer wants to be woken in this way (002.16)."""

    number = Number.UNREGISTER_PUSH
    hook: Hook
    target: str


@dataclass(frozen=True, slots=True)
class Error(_Body):
    """Something was refused, by a code of section 16; `blob_id`: of that PUSH, zeros for none (002.19)."""

    number = Number.ERROR
    code: str
    message: str
    blob_id: bytes = NO_BLOB


MailboxMessage = (
    Hello
    | MailboxWelcome
    | Push
    | PushAck
    | Pull
    | PullResponse
    | Notify
    | Delete
    | RevokeDevice
    | DeviceRevoked
    | RegisterPush
    | UnregisterPush
    | Error
)


def _entry(value: object) -> BlobEntry:
    entry = BlobEntry(
        *cbor.record(value, "blob entry", _BLOB_ID, _CURSOR, _KEY, cbor.octets_to(MAXIMUM_ENVELOPE_BYTES), cbor.uint())
    )
    if not entry.cursor:
        raise MalformedError("cursors must begin at 1")
    return entry


def _entries(value: object) -> tuple[BlobEntry, ...]:
    entries = cbor.many(_entry, MAXIMUM_PULL_BLOBS)(value)
    if any(before.cursor >= after.cursor for before, after in pairwise(entries)):
        raise MalformedError("blobs must be ordered by cursor")
    return entries


def _range(value: object) -> Range:
    first, last = cbor.record(value, "range of cursors", _CURSOR, _CURSOR)
    if not 1 <= first <= last:
        raise MalformedError("a range of cursors is empty")
    return first, last


def _ranges(value: object) -> tuple[Range, ...]:
    ranges = cbor.many(_range, DELETED_RANGES)(value)
    if not ranges or any(before[1] + 1 >= after[0] for before, after in pairwise(ranges)):
        raise MalformedError("ranges of cursors must ascend and not touch")
    return ranges


def _hook(value: object) -> Hook:
    try:
        return Hook(cbor.uint(255)(value))
    except ValueError as error:
        raise MalformedError("an unknown kind of wake hook") from error


_NUMBERED: dict[int, tuple[Callable[..., MailboxMessage], tuple[cbor.Read[Any], ...]]] = {
    Number.HELLO: (Hello, (cbor.uint(255), cbor.text(_NAME_BYTES), _CURSOR)),
    Number.WELCOME: (MailboxWelcome, (cbor.uint(255), cbor.text(_RELAY_ID_BYTES), _CURSOR, _COUNT)),
    Number.PUSH: (Push, (_BLOB_ID, cbor.octets_to(MAXIMUM_ENVELOPE_BYTES), _COUNT, _KEY)),
    Number.PUSH_ACK: (PushAck, (_BLOB_ID, _CURSOR, cbor.uint())),
    Number.PULL: (Pull, (_CURSOR, _COUNT)),
    Number.PULL_RESPONSE: (PullResponse, (_entries, cbor.boolean, _CURSOR)),
    Number.NOTIFY: (Notify, (_BLOB_ID, _CURSOR, _KEY, cbor.uint(), _COUNT)),
    Number.DELETE: (Delete, (_ranges,)),
    Number.REVOKE_DEVICE: (RevokeDevice, (_KEY, cbor.octets_to(MAXIMUM_MESSAGE_BYTES))),
    Number.DEVICE_REVOKED: (DeviceRevoked, (_KEY,)),
    Number.REGISTER_PUSH: (RegisterPush, (_hook, cbor.text(MAXIMUM_HOOK_BYTES))),
    Number.UNREGISTER_PUSH: (UnregisterPush, (_hook, cbor.text(MAXIMUM_HOOK_BYTES))),
    Number.ERROR: (Error, (cbor.text(_CODE_BYTES), cbor.text(MAXIMUM_ERROR_BYTES), _BLOB_ID)),
}


def read_mailbox_message(body: bytes) -> MailboxMessage:
    """Parse the body of a MAILBOX message.

    Raises:
        LimitError: a field beyond its bound, or of another version.
        MalformedError: no message of 002 that a mailbox knows, or not of its shape.
    """
    fields = cbor.decode_growing(body, MAXIMUM_MESSAGE_BYTES)
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int or fields[0] not in _NUMBERED:
        raise MalformedError("unknown kind of mailbox message: a newer Covey?")
    make, readers = _NUMBERED[fields[0]]
    message = make(*cbor.record(fields[1:], Number(fields[0]).name, *readers))
    if isinstance(message, Hello | MailboxWelcome) and message.version != VERSION:
        raise LimitError(f"mailbox version {message.version}: a newer Covey?")
    return message


class BlobRefusal(Enum):
    """Why a mailbox does not keep a blob."""

    INBOX_FULL = "the inbox is full"
    FULL = "the mailbox is full"


@dataclass(frozen=True, slots=True)
class Kept:
    """A blob as a mailbox keeps it; `is_new`: since this PUSH."""

    cursor: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class InboxState:
    """How one device's inbox stands: the last cursor that was given, and how much waits in it."""

    max_cursor: int = 0
    blobs: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class WakeHook:
    """How a device wants to be woken."""

    kind: Hook
    target: str

    @property
    def by_topic(self) -> bool:
        """Whether it is a publish at the mailbox's own relays."""
        return self.kind is Hook.MQTT
