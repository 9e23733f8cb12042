"""What the machines of links read and write of the durable state: a small Protocol for each family of tables.

Every call happens inside a transaction that the runtime opened and will commit before it releases anything.
`adapters/sqlite/store.py` holds an object for each family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from covey.core.ids import BatchNumber, DeviceKey, Incarnation, LinkSeq, Place
from covey.core.link.incarnations import Gone, IncarnationSpan
from covey.core.link.lanes import Lane
from covey.core.wire.message import LossReason, Message, MessageType
from covey.core.wire.sequences import Range, SequenceSet


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


class CounterRecords(Protocol):
    """Counters that `covey status` shows."""

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter that `covey status` shows."""


class QueuedRecords(Protocol):
    """What waits in the queues."""

    def recipients(self) -> list[DeviceKey]:
        """Return the recipients that the outbox holds messages for."""

    def queued(
        self, recipient: DeviceKey, after: Place, limit: int, size: int, *, lane: Lane | None = None
    ) -> list[tuple[Place, bytes]]:
        """Return a recipient's (place, message) that follow a place: up to `limit`, until their bytes reach `size`.

        `lane`: of that one alone.
        """

    def missing(self, recipient: DeviceKey, places: SequenceSet) -> list[Range]:
        """Return those of some places of a queue where no message stands any more."""


class QueueRecords(Protocol):
    """What becomes of the messages of a queue."""

    def allocate(self, recipient: DeviceKey) -> tuple[int, LinkSeq]:
        """Return the next (seq, link_seq) for a message to a recipient; neither is ever given again."""

    def allocate_number(self) -> BatchNumber:
        """Return the next telemetry number of this device; it is never given again."""

    def queue(
        self,
        recipient: DeviceKey,
        seq: int,
        link_seq: LinkSeq,
        kind: MessageClass,
        message: bytes,
        now_us: int,
        number: BatchNumber | None = None,
        *,
        beyond: bool = False,
    ) -> Place:
        """Append a signed message to the outbox; return its place. `number` is a telemetry batch's own.

        Raises:
            OutboxFullError: the outbox has reached its bound; control messages and history may exceed it.
        """

    def limit_lifetime(self, recipient: DeviceKey, place: Place, lifetime_us: int) -> None:
        """Let a message that was just queued expire when this state has aged by its lifetime, and not before."""

    def grow_older(self, elapsed_us: int) -> None:
        """Add to this state's age: the time that agents have run on it, which no clock can set."""

    def expire(self) -> list[tuple[DeviceKey, list[Range]]]:
        """Delete some messages that have outlived their lifetime; return recipients and places, to be reported."""

    def make_room(self, recipient: DeviceKey, size: int) -> list[Range]:
        """Where `size` more bytes would not fit, forget the recipient's oldest telemetry; return the places.

        They are to be reported as lost. Where that would not suffice, nothing is forgotten: `queue` will refuse.
        """

    def withdraw(
        self, recipient: DeviceKey, place: Place, code: str, now_us: int, reason: LossReason | None = None
    ) -> bool:
        """Move the message of a place from the outbox to quarantine; False where it is gone already.

        With a reason, its recipient gets a loss record.
        """

    def withdraw_all(self, recipient: DeviceKey, which: Callable[[Message], bool] | None = None) -> list[Range]:
        """Delete what waits for a recipient, control messages and batches apart, or else what a question is true of.

        Return its places, to be reported.
        """

    def forget(self, recipient: DeviceKey, *, but_telemetry: bool = False) -> int:
        """Forget whatever waits for a recipient, or was to be reported to it; return how many messages waited."""

    def remove(self, recipient: DeviceKey, place: Place) -> None:
        """Forget a place of a queue whose message goes by another queue: nothing of it is lost or reported."""

    def take_back(self, recipient: DeviceKey, place: Place) -> TakenBack | None:
        """Forget a place of a queue and return what stood there: it is queued again under other numbers."""

    def free(self, recipient: DeviceKey, received: SequenceSet) -> int:
        """Forget the places that the recipient holds; return how many messages that were."""

    def control_messages(self, recipient: DeviceKey) -> list[tuple[Place, bytes]]:
        """Return (place, message) of the control messages that wait for a recipient."""


class OutboxRecords(QueuedRecords, QueueRecords, Protocol):
    """The queues of messages that wait, as their sender needs them."""


class LossRecords(Protocol):
    """Places of queues whose messages are gone, until loss records have reported them."""

    def recipients(self) -> list[DeviceKey]:
        """Return the recipients to whom something that is gone has not been reported."""

    def unreported(self, recipient: DeviceKey) -> list[Gone]:
        """Return what is gone and not reported yet; nothing as long as an earlier record waits for the recipient.

        So what is lost meanwhile keeps company, in one record. A bounded number, by place.
        """

    def reported(self, recipient: DeviceKey, last_place: Place) -> None:
        """Forget what is gone up to a place: signed records are queued, and the last one is what waits now."""


class IncarnationRecords(Protocol):
    """The incarnations of this device, and which part of a queue belongs to which."""

    def present(self) -> Incarnation:
        """Return the 8 bytes drawn when this state was new."""

    def spans(self, recipient: DeviceKey) -> list[IncarnationSpan]:
        """Return the incarnations of a recipient's queue, oldest first; none where nothing was ever queued."""

    def replace(self, recipient: DeviceKey, incarnation: Incarnation, now_us: int) -> bool:
        """Begin another incarnation, because a recipient has shown that another state used the present one.

        False where the same recipient said so a short time ago: nothing changes.
        """


class SenderRecords(Protocol):
    """What a sender needs."""

    @property
    def outbox(self) -> QueuedRecords:
        """Messages that wait for their recipients."""

    @property
    def incarnations(self) -> IncarnationRecords:
        """The incarnations of this device."""


class SendQueueRecords(Protocol):
    """What the queues of a sender need."""

    @property
    def outbox(self) -> QueueRecords:
        """Messages that wait for their recipients."""

    @property
    def losses(self) -> LossRecords:
        """What is gone of queues and not reported yet."""

    @property
    def incarnations(self) -> IncarnationRecords:
        """The incarnations of this device."""


class ReceivedRecords(Protocol):
    """What has come over each link."""

    def links(self, author: DeviceKey) -> list[tuple[Incarnation, SequenceSet]]:
        """Return (incarnation, what has come) of each link from an author."""

    def count(self, author: DeviceKey) -> int:
        """Return of how many incarnations of an author links are remembered."""

    def forget(self, author: DeviceKey, keep: Incarnation) -> None:
        """Forget an author's links, except for one incarnation and those of which something has still to land."""

    def of(self, author: DeviceKey, incarnation: Incarnation) -> SequenceSet:
        """Return what has come over a link."""

    def set(self, author: DeviceKey, incarnation: Incarnation, received: SequenceSet) -> None:
        """Remember what has come over a link."""

    def resumed(self, author: DeviceKey, incarnation: Incarnation) -> SequenceSet:
        """Return what of a link only resumptions have closed: a loss record that names it is still news."""

    def set_resumed(self, author: DeviceKey, incarnation: Incarnation, resumed: SequenceSet) -> None:
        """Remember what only resumptions have closed: the highest `MAXIMUM_RECEIVED_RANGES` ranges."""


class LandingRecords(Protocol):
    """Messages that wait for the vault."""

    def land(self, message: Message, now_us: int) -> bool:
        """Keep a message for the collector; False where too much waits for the vault."""

    def unlanded(self, author: DeviceKey, incarnation: Incarnation) -> set[LinkSeq]:
        """Return the link sequences of a link that wait for the vault."""


class SeenRecords(Protocol):
    """When something new came from each device."""

    def seen(self, device: DeviceKey, now_us: int) -> None:
        """Note that something new came from a device: a message, or an acknowledgement of what was not acknowledged."""

    def links_seen(self, since_us: int, limit: int) -> list[tuple[DeviceKey, Incarnation]]:
        """Return (author, incarnation) of the links whose authors were seen since a time; the newest first.

        Known to a minute. A wall clock that has gone back hides none.
        """


class ReceiverRecords(Protocol):
    """What a receiver needs."""

    @property
    def received(self) -> ReceivedRecords:
        """What has come over each link."""

    @property
    def landing(self) -> LandingRecords:
        """Messages on their way into the vault."""

    @property
    def presence(self) -> SeenRecords:
        """When other devices were last seen, and what they reported."""
