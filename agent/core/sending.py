"""What a node sends: messages into the outbox, envelopes out of it, one link for each recipient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from agent.core import crypto
from agent.core.crypto import Identity
from agent.core.envelope import seal
from agent.core.group_messages import GroupSend
from agent.core.limits import MESSAGE_OVERHEAD_BYTES
from agent.core.message import NO_GROUP, Loss, LossReason, MessageType, write_message
from agent.core.now import Now
from agent.core.outbox import InFlight, Jitter, SendLink
from agent.core.records import MessageClass, Records
from agent.core.sequences import SequenceSet
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
    MessageType.REVOKE: MessageClass.CONTROL,
    MessageType.JOIN: MessageClass.CONTROL,
    MessageType.TELEMETRY: MessageClass.TELEMETRY,
    MessageType.LOSS: MessageClass.CONTROL,
    MessageType.FORWARD: MessageClass.TELEMETRY,
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
        self.incarnation = records.incarnation()
        self._connected = False

    def refresh(self) -> None:
        """Take up what another process has queued."""
        for recipient in self._records.recipients_waiting():
            self._link(recipient).queue_grew()

    def rolled_back(self) -> None:
        """Take back what was not committed. What is in flight stays so: a disk that refuses must not have everything
        sent again at each attempt."""
        self._acknowledged.clear()
        self._withdrawn.clear()

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
        for first, last in self._records.make_room(recipient, len(body) + MESSAGE_OVERHEAD_BYTES):
            self._queue_loss(recipient, Loss(first, last, LossReason.OUTBOX_FULL), now)
        self.queue(recipient, kind, group_id, body, now)

    def queue_all(self, sends: Iterable[GroupSend], departed: Iterable[bytes], now: Now) -> None:
        """Queue what a change of a group makes necessary; what waits for those who left is withdrawn."""
        for recipient in departed:
            for first, last in self._records.withdraw_all(recipient):
                self._queue_loss(recipient, Loss(first, last, LossReason.WITHDRAWN), now)
        for each in sends:
            self.queue(each.recipient, each.type, each.group_id, each.body, now)

    def withdraw(self, recipient: bytes, link_seq: int, now: Now) -> None:
        """Set a message aside that no relay carries; its recipient is told."""
        if self._records.withdraw(recipient, link_seq, "too_large", now.wall_us):
            self._queue_loss(recipient, Loss(link_seq, link_seq, LossReason.DAMAGED), now)

    def _queue_loss(self, recipient: bytes, loss: Loss, now: Now) -> None:
        self._withdrawn.append((recipient, loss.first, loss.last))
        self.queue(recipient, MessageType.LOSS, NO_GROUP, loss.to_wire(), now)

    def free(self, recipient: bytes, received: SequenceSet) -> None:
        """Delete what a recipient has; its link forgets it once that is committed."""
        self._records.free(recipient, received)
        self._acknowledged.append((recipient, received))

    def forget_committed(self, now: Now) -> None:
        """Let the links forget what a commit has freed; before it, a failure would leave messages that none sends."""
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
                link.offer(self._records.queued(link.recipient, *wanted), wanted)
            if self._address(link.recipient) is not None:
                for entry in link.to_send():
                    self._links[link.recipient] = self._links.pop(link.recipient)
                    yield self.seal(link.recipient, entry.message, entry)
            if link.idle:
                del self._links[link.recipient]

    def unsequenced(self, recipient: bytes, kind: MessageType, body: bytes, now: Now) -> bytes:
        """Return a signed message about a link, which no outbox keeps."""
        return write_message(self._identity, kind, recipient, NO_GROUP, self.incarnation, 0, 0, now.wall_us, body)

    def seal(self, recipient: bytes, message: bytes, entry: InFlight | None = None) -> Outgoing:
        """Return a message's envelope, for a device that has an address."""
        address = self._address(recipient)
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
