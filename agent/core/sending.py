"""What a node sends: messages into the outbox, envelopes out of it, one link for each recipient.

A link sequence here is a place in the recipient's queue, counted on through incarnations (`eras.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from agent.core import crypto
from agent.core.crypto import Identity
from agent.core.envelope import seal
from agent.core.eras import era_of, losses
from agent.core.group_messages import GroupSend
from agent.core.ids import INCARNATION_BYTES
from agent.core.limits import LINK_WINDOW_BYTES, LINK_WINDOW_MESSAGES, MAXIMUM_COUNTER, MESSAGE_OVERHEAD_BYTES
from agent.core.message import NO_GROUP, Loss, LossReason, MessageType, Resumption, write_message
from agent.core.now import Now
from agent.core.outbox import InFlight, Jitter, SendLink
from agent.core.records import MessageClass, Records
from agent.core.sequences import Range, SequenceSet
from agent.core.topics import inbox_topic


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One envelope for the relay. Tell `Node.sent` when the relay took it; an acknowledgement has no `entry`."""

    topic: str
    envelope: bytes = field(repr=False)
    recipient: bytes
    entry: InFlight | None


_CLASSES = {
    MessageType.BLOB: MessageClass.DATA,
    MessageType.GROUP_MANIFEST: MessageClass.CONTROL,
    MessageType.GROUP_PULL: MessageClass.CONTROL,
    MessageType.GROUP_VOTE: MessageClass.CONTROL,
    MessageType.GROUP_INVITE: MessageClass.CONTROL,
    MessageType.REVOKE: MessageClass.CONTROL,
    MessageType.JOIN: MessageClass.CONTROL,
    MessageType.TELEMETRY: MessageClass.TELEMETRY,
    MessageType.LOSS: MessageClass.CONTROL,
    MessageType.FORWARD: MessageClass.TELEMETRY,
    MessageType.COLLECTOR_KEY: MessageClass.CONTROL,
}


class Sending:
    """The sending half of a node. What is durable is in `records`; links can be lost at any time.

    `address` gives a device's noise key, None for a device that nothing is sent to.
    """

    def __init__(
        self,
        identity: Identity,
        records: Records,
        address: Callable[[bytes], bytes | None],
        rng: Callable[[int], bytes],
        jitter: Jitter,
    ) -> None:
        self._identity = identity
        self._records = records
        self._address = address
        self._rng = rng
        self._jitter = jitter
        self._links: dict[bytes, SendLink] = {}
        self._acknowledged: list[tuple[bytes, SequenceSet]] = []
        self._withdrawn: list[tuple[bytes, int, int]] = []
        self._incarnation = records.incarnation()
        self._renewed = False
        self._connected = False

    @property
    def incarnation(self) -> bytes:
        """This device's present incarnation; another process may have begun it."""
        return self._records.incarnation()

    def refresh(self) -> None:
        """Take up what another process has queued, or begun."""
        present = self._records.incarnation()
        if present != self._incarnation:  # what is in flight may have to be signed anew
            self._incarnation = present
            self._links.clear()
        for recipient in self._records.recipients_waiting():
            self._link(recipient).queue_grew()

    def rolled_back(self) -> None:
        """Take back what was not committed. What is in flight stays so: a disk that refuses must not have everything
        sent again at each attempt."""
        self._acknowledged.clear()
        self._withdrawn.clear()
        self._renewed = False

    # -- into the outbox ----------------------------------------------------------------------------------------------

    def queue(self, recipient: bytes, kind: MessageType, group_id: bytes, body: bytes, now: Now) -> None:
        """Queue a message.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        seq, link_seq = self._records.allocate(recipient)
        message = write_message(
            self._identity, kind, recipient, group_id, self.incarnation, seq, link_seq, now.wall_us, body
        )
        self._records.queue(recipient, seq, link_seq, _CLASSES[kind], message, now.wall_us)
        self._link(recipient).queue_grew()

    def queue_telemetry(self, recipient: bytes, kind: MessageType, group_id: bytes, body: bytes, now: Now) -> None:
        """Queue a message of telemetry. Where the outbox is full, the oldest goes, and a signed record says so."""
        dropped = self._records.make_room(recipient, len(body) + MESSAGE_OVERHEAD_BYTES)
        self._queue_losses(recipient, dropped, LossReason.OUTBOX_FULL, now)
        self.queue(recipient, kind, group_id, body, now)

    def queue_all(self, sends: Iterable[GroupSend], departed: Iterable[bytes], now: Now) -> None:
        """Queue what a change of a group makes necessary; what waits for those who left is withdrawn.

        Those who are not even told that they are out, as boards, are told of no loss either.
        """
        for recipient in departed:
            if self._address(recipient) is None:
                self.forget(recipient)
                continue
            self._queue_losses(recipient, self._records.withdraw_all(recipient), LossReason.WITHDRAWN, now)
        for each in sends:
            self.queue(each.recipient, each.type, each.group_id, each.body, now)

    def withdraw(
        self, recipient: bytes, link_seq: int, now: Now, code: str = "too_large", *, tell: bool = True
    ) -> None:
        """Set a message aside that nobody would carry or take; its recipient is told, if it may be."""
        if self._records.withdraw(recipient, link_seq, code, now.wall_us):
            self._withdrawn.append((recipient, link_seq, link_seq))
            if tell:
                reason = LossReason.DAMAGED if code == "too_large" else LossReason.EXPIRED
                self._queue_losses(recipient, [(link_seq, link_seq)], reason, now)

    def forget(self, recipient: bytes) -> int:
        """Forget whatever waits for a recipient; return how many messages that was."""
        self._withdrawn.append((recipient, 0, MAXIMUM_COUNTER))
        return self._records.forget_queue(recipient)

    def tell_untold_losses(self, now: Now) -> int:
        """Queue signed records of what a damaged disk lost; return how many. Writes, so inside a transaction."""
        untold = self._records.untold_losses()
        for recipient, incarnation, first, last in untold:
            self._queue_loss(recipient, Loss(first, last, LossReason.DAMAGED, incarnation), now)
        if untold:
            self._records.losses_told()
        return len(untold)

    def _queue_losses(self, recipient: bytes, places: list[Range], reason: LossReason, now: Now) -> None:
        """Tell a recipient that some places of its queue never come."""
        self._withdrawn += [(recipient, first, last) for first, last in places]
        if places:
            for loss in losses(self._records.eras(recipient), places, reason):
                self._queue_loss(recipient, loss, now)

    def _queue_loss(self, recipient: bytes, loss: Loss, now: Now) -> None:
        self.queue(recipient, MessageType.LOSS, NO_GROUP, loss.to_wire(), now)

    def free(self, recipient: bytes, received: SequenceSet) -> int:
        """Delete the places that a recipient has, and return how many messages that were.

        Its link forgets them once that is committed.
        """
        freed = self._records.free(recipient, received)
        self._acknowledged.append((recipient, received))
        return freed

    def doubt(self, recipient: bytes, now: Now) -> bool:
        """Begin another incarnation, as a recipient has shown that the present one had another life (`eras.py`)."""
        doubted = self._records.doubt(recipient, self._rng(INCARNATION_BYTES), now.wall_us)
        self._renewed |= doubted
        return doubted

    def forget_committed(self, now: Now) -> None:
        """Let the links forget what a commit has freed; before it, a failure would leave messages that none sends."""
        if self._renewed:
            self._renewed = False
            self.refresh()
        for recipient, received in self._acknowledged:
            link = self._links.get(recipient)
            if link is not None:
                link.receive_acknowledgement(received, now.monotonic_us)
        self._acknowledged.clear()
        for recipient, first, last in self._withdrawn:
            link = self._links.get(recipient)
            if link is not None:
                link.withdraw(first, last)
        self._withdrawn.clear()

    # -- out of it ----------------------------------------------------------------------------------------------------

    def envelopes(self) -> Iterator[Outgoing]:
        """Yield each link's messages, sealed; a link that was served goes to the end of the queue."""
        for link in list(self._links.values()):
            wanted = link.wanted()
            if wanted is not None:
                link.offer(self._as_sent(link.recipient, self._records.queued(link.recipient, *wanted)), wanted)
            address = self._address(link.recipient)
            if address is not None:
                for entry in link.to_send():
                    self._links[link.recipient] = self._links.pop(link.recipient)
                    yield self.seal(link.recipient, entry.message, entry, address)
            if link.idle:
                del self._links[link.recipient]

    def _as_sent(self, recipient: bytes, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return queued messages as they go out; each must be its place's own (`eras.py`, rule 2)."""
        eras = self._records.eras(recipient)
        if not any(era.anew for era in eras):
            return rows
        return [(place, era_of(eras, place).as_sent(place, raw, self._identity)) for place, raw in rows]

    def carried(self, recipient: bytes, after: int) -> list[tuple[int, bytes]]:
        """Return the next (place, envelope) of a recipient, for a carrier that is no relay: a window of them."""
        rows = self._records.queued(recipient, after, LINK_WINDOW_MESSAGES, LINK_WINDOW_BYTES)
        return [(place, self.seal(recipient, raw).envelope) for place, raw in self._as_sent(recipient, rows)]

    def resumptions(self, recipient: bytes, now: Now) -> Iterator[bytes]:
        """Yield envelopes that tell a recipient what comes before all that waits for it, and never again."""
        for era in self._records.eras(recipient):
            held = self._records.queued(recipient, era.base, 1, 1)
            last = min(held[0][0] - 1, era.last) if held else era.last
            if last > era.base:
                body = Resumption(((1, last - era.base),)).to_wire()
                message = self.unsequenced(recipient, MessageType.RESUME, body, now, era.incarnation)
                yield self.seal(recipient, message).envelope

    def unsequenced(
        self, recipient: bytes, kind: MessageType, body: bytes, now: Now, incarnation: bytes | None = None
    ) -> bytes:
        """Return a signed message about a link, which no outbox keeps."""
        life = incarnation or self.incarnation
        return write_message(self._identity, kind, recipient, NO_GROUP, life, 0, 0, now.wall_us, body)

    def seal(
        self, recipient: bytes, message: bytes, entry: InFlight | None = None, address: bytes | None = None
    ) -> Outgoing:
        """Return a message's envelope, for a device that has an address: the one given, or the one known."""
        address = address or self._address(recipient)
        assert address is not None
        envelope = seal(message, address, self._rng(32), self._rng(crypto.NONCE_BYTES))
        return Outgoing(inbox_topic(recipient), envelope, recipient, entry)

    def sent(self, outgoing: Outgoing, now: Now) -> None:
        """Note that the relay took an envelope."""
        link = self._links.get(outgoing.recipient)
        if link is not None and outgoing.entry is not None:
            link.sent(outgoing.entry, now.monotonic_us)

    def relayed(self, recipient: bytes, link_seq: int) -> None:
        """Note that the relay says it has stored an envelope."""
        link = self._links.get(recipient)
        if link is not None:
            link.relayed(link_seq)

    def connected(self, now: Now) -> None:
        """Note that the relay can be reached."""
        self._connected = True
        for link in self._links.values():
            link.connected(now.monotonic_us)

    def connection_lost(self) -> None:
        """Note that the relay cannot be reached."""
        self._connected = False
        for link in self._links.values():
            link.connection_lost()

    def deadlines(self) -> list[int | None]:
        """Return when links want to be called, in monotonic microseconds."""
        return [link.next_deadline() for link in self._links.values()]

    def handle_deadline(self, now: Now) -> None:
        """Begin the retries that are due."""
        self.forget_committed(now)
        if self._connected:
            for link in self._links.values():
                link.handle_deadline(now.monotonic_us, self._jitter)

    @property
    def is_connected(self) -> bool:
        """Whether the relay can be reached."""
        return self._connected

    def _link(self, recipient: bytes) -> SendLink:
        link = self._links.get(recipient)
        if link is None:
            link = self._links[recipient] = SendLink(recipient)
        return link
