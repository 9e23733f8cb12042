"""Durable state of links and telemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from covey.core.ids import BatchNumber, DeviceKey, GroupId, Incarnation, LinkSeq, NoisePublic, Place
from covey.core.link.incarnations import Gone, IncarnationSpan
from covey.core.link.link_keys import KeptKey
from covey.core.link.queued import NO_BATCHES, Batches, Imprint, Lane, MessageClass, TakenBack, Thinnable
from covey.core.presence.status import PeerPresence
from covey.core.wire.message import LossReason, Message
from covey.core.wire.sequences import Range, SequenceSet


class CounterRecords(Protocol):
    """Counters that `covey status` shows."""

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter that `covey status` shows."""


class OutboxRecords(Protocol):
    """The queues of messages that wait for their recipients."""

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
        batches: Batches = NO_BATCHES,
        *,
        beyond: bool = False,
    ) -> Place:
        """Append a signed message to the outbox; return its place. `batches` are those of telemetry.

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

    def missing_bytes(self, size: int) -> int:
        """Return how many bytes too many the outbox would hold with so many more; 0 or less: they fit."""

    @property
    def maximum_bytes(self) -> int:
        """The bound of all messages together."""

    def thinnable(self, recipient: DeviceKey, window_us: int) -> Iterator[Thinnable]:
        """Yield the messages of a queue that may be thinned, in order: batches (0), or summaries of one width."""

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

    def remove(self, recipient: DeviceKey, first: Place, last: Place) -> None:
        """Forget places of a queue whose messages go another way, or as a summary: nothing is lost or reported."""

    def take_back(self, recipient: DeviceKey, place: Place) -> TakenBack | None:
        """Forget a place of a queue and return what stood there: it is queued again under other numbers."""

    def free(self, recipient: DeviceKey, received: SequenceSet) -> int:
        """Forget the places that the recipient holds; return how many messages that were."""

    def control_messages(self, recipient: DeviceKey) -> list[tuple[Place, bytes]]:
        """Return (place, message) of the control messages that wait for a recipient."""

    def recipients_of_batches(self) -> set[DeviceKey]:
        """Return the recipients whose queues may hold telemetry of this device."""

    def holds_no_batches(self, recipient: DeviceKey) -> None:
        """Note that a queue has been looked through and holds none, until one is queued."""

    def bytes_by_class(self) -> Mapping[MessageClass, int]:
        """Return the bytes of each class of messages that wait for an acknowledgement."""

    def messages(self, recipient: DeviceKey, kind: MessageClass) -> Iterator[bytes]:
        """Yield the messages of a class that wait for a recipient: CONTROL or HISTORY, here and below."""

    def is_queued_between(self, recipient: DeviceKey, kind: MessageClass, first_us: int, last_us: int) -> bool:
        """Say whether a message of a class waits for a recipient that was queued between two times."""

    def waiting_bytes(self, recipient: DeviceKey, kind: MessageClass) -> int:
        """Return how many bytes of a class wait for a recipient."""

    def holds_submissions(self, recipient: DeviceKey) -> bool:
        """Say whether data or telemetry waits for a recipient."""

    def lost_by_recipient(self, recipient: DeviceKey, first: Place, last: Place) -> int:
        """Note as lost what a recipient had acknowledged of its queue between two places, and lacks now.

        Return how many messages those are, as far as they were telemetry and are remembered.
        """

    def take_acknowledged(self, recipient: DeviceKey, first: Place, last: Place) -> list[TakenBack]:
        """Return what is still kept of what a recipient had acknowledged between two places, and keep it no longer."""

    def lacking(self, recipient: DeviceKey, incarnation: Incarnation) -> list[Range]:
        """Return what a recipient's last acknowledgement lacked of what had left the queue."""

    def set_lacking(self, recipient: DeviceKey, incarnation: Incarnation, ranges: list[Range]) -> None:
        """Note that, so that a restart does not forget it."""

    def let_go(self, recipient: DeviceKey, span: IncarnationSpan, received: SequenceSet) -> list[Range]:
        """Return the link sequences of a span that its recipient lacks and the outbox does not hold."""


class LossRecords(Protocol):
    """Places of queues whose messages are gone, until loss records have reported them."""

    def recipients(self) -> list[DeviceKey]:
        """Return the recipients that have not been told of lost messages."""

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

    def of_log(self, group_id: GroupId) -> Incarnation:
        """Return the incarnation that this device's present log of a group's history names.

        It is the present one until this device has forgotten what it wrote to the group.
        """

    def awaits_past(self, group_id: GroupId) -> bool:
        """Return whether this device has forgotten what it wrote to a group, and has not got it back yet."""

    def end_awaiting(self, group_id: GroupId) -> None:
        """Note that a member has sent all that it has of a group's history."""

    def spans(self, recipient: DeviceKey) -> list[IncarnationSpan]:
        """Return the incarnations of a recipient's queue, oldest first; none where nothing was ever queued."""

    def replace(self, recipient: DeviceKey, incarnation: Incarnation, now_us: int) -> bool:
        """Begin another incarnation, because a recipient has shown that another state used the present one.

        False where the same recipient said so a short time ago: nothing changes.
        """


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


class ImprintRecords(Protocol):
    """The imprints of the numbers of each link that rule 1 names."""

    def note(self, author: DeviceKey, incarnation: Incarnation, imprint: Imprint, received: SequenceSet) -> None:
        """Store the imprint of a message from a link, with the numbers `received` there."""

    def of(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        """Return what is kept of a number."""

    def before(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        """Return what is kept of the nearest lower number."""

    def after(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        """Return what is kept of the nearest higher number."""

    def newest(self, author: DeviceKey, incarnation: Incarnation, limit: int, highest: LinkSeq) -> list[Imprint]:
        """Return what is kept of the highest numbers, these first; nothing has come beyond `highest`."""


class LandingRecords(Protocol):
    """Messages that wait for the vault."""

    def land(self, message: Message, now_us: int) -> bool:
        """Keep a message for the collector; False where too much waits for the vault."""

    def unlanded(self, author: DeviceKey, incarnation: Incarnation) -> set[LinkSeq]:
        """Return the link sequences of a link that wait for the vault."""


class InboxRecords(Protocol):
    """Blobs for the application."""

    def deliver(self, message: Message, now_us: int) -> bool:
        """Put a message into the application's inbox; False where the inbox is full."""


class QuarantineRecords(Protocol):
    """Messages that were set aside."""

    def add(self, code: str, message: bytes, now_us: int, party: DeviceKey, recipient: DeviceKey | None = None) -> None:
        """Keep an authentic message that could not be used, or sent to a recipient, for a person to look at.

        `party` is its author, or its recipient: no device's messages push out another's.
        """


class LinkKeyRecords(Protocol):
    """The durable half: the keys that others have given to this device."""

    def find(self, tag: bytes) -> KeptKey | None:
        """Return the key that goes by a tag."""

    def save(self, key: KeptKey, now_us: int) -> None:
        """Keep a key; of too many of one author, the oldest goes. One whose tag is in use already is not kept."""

    def forget(self, is_peer: Callable[[DeviceKey], bool], noise_publics: set[NoisePublic], now_us: int) -> None:
        """Wipe the keys of who is no peer, those that came for another noise key, and those that are too old."""


class PresenceRecords(Protocol):
    """When other devices were last seen, and what they reported."""

    def seen(self, device: DeviceKey, now_us: int) -> None:
        """Note that something new came from a device: a message, or an acknowledgement of what was not acknowledged."""

    def links_seen(self, since_us: int, limit: int) -> list[tuple[DeviceKey, Incarnation]]:
        """Return (author, incarnation) of the links whose authors were seen since a time; the newest first.

        Known to a minute. A wall clock that has gone back hides none.
        """

    def of_peer(self, device: DeviceKey) -> PeerPresence | None:
        """Return what a device has last reported of itself; None for one that never did."""

    def note(self, device: DeviceKey, presence: PeerPresence) -> None:
        """Store what a device has reported of itself, in place of what it reported before."""

    def floor(self) -> int:
        """Return below which counters of this device's own presence may have been used."""

    def set_floor(self, floor: int) -> None:
        """Raise the floor: all counters below it may be used now."""

    def last_seen(self) -> dict[DeviceKey, int]:
        """Return when each device was last seen."""

    def silent_collectors(self) -> set[DeviceKey]:
        """Return the collectors that new telemetry does not go to."""

    def set_silent_collector(self, device: DeviceKey, since_us: int | None) -> None:
        """Note that a collector is silent, or, with None, that it is not."""


class CarrierRecords(Protocol):
    """Which gateway carries for which board."""

    def of(self, device: DeviceKey) -> DeviceKey | None:
        """Return the device that carries for another one, a board."""

    def set(self, device: DeviceKey, carrier: DeviceKey) -> None:
        """Remember the gateway that carries for a board."""
