"""What the machines of links read and write of the durable state: a small Protocol for each family of tables.

Every call happens inside a transaction that the runtime opened and will commit before it releases anything.
`adapters/sqlite/store.py` holds an object for each family.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from covey.core.ids import BatchNumber, DeviceKey, LinkSeq
from covey.core.wire.message import MessageType


class MessageClass(IntEnum):
    """How an outbox treats a message when room is short."""

    CONTROL = 0
    DATA = 1
    TELEMETRY = 2
    HISTORY = 3


_CLASSES = {
    MessageType.BLOB: MessageClass.DATA,
    MessageType.TELEMETRY: MessageClass.TELEMETRY,
    MessageType.FORWARD: MessageClass.TELEMETRY,
    MessageType.REDIRECTED: MessageClass.TELEMETRY,
    MessageType.OPERATIONS: MessageClass.HISTORY,
    MessageType.HISTORY_GRAPH: MessageClass.HISTORY,
}


def class_of(kind: MessageType) -> MessageClass:
    """Return how the messages of a type are treated: all that has no class of its own is control."""
    return _CLASSES.get(kind, MessageClass.CONTROL)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A message that was set aside: on its way to a recipient, or, without one, when it had come."""

    id: int
    code: str
    stored_at_us: int
    recipient: DeviceKey | None
    message: bytes


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """What the outbox holds for one recipient."""

    recipient: DeviceKey
    queued: int
    acknowledged: int
    oldest_at_us: int | None


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A message that has left its place; `number` is a batch's own, `lifetime_us` what is left of it."""

    message: bytes
    number: BatchNumber | None
    lifetime_us: int | None


class Imprint(NamedTuple):
    """What is kept of a message that has come."""

    link_seq: LinkSeq
    seq: int
    imprint: bytes
