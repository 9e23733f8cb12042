"""One device: what arrives is checked, stored and answered; what is queued is sealed and sent.

The node joins the machines of this package. It is sans-I/O: the runtime opens a transaction, calls in, commits, and
only then lets go of what `envelopes_to_send` and `next_event` give. Whatever an envelope holds, `receive_envelope`
raises no `RemoteError`: it counts, and drops.

An envelope is dealt with in this order, and the first failure ends it:

    1. size, shape, decryption; shape and signature of the message; it names us as its recipient;
    2. the author may speak: a member of the group named, an address that this device knows for what belongs to a
       link, the inviter whose answer is awaited, or the bearer of an open invite (000.24);
    3. the link sequence is new (`inbox.py`);
    4. the type's own rules. An authentic message that breaks these is quarantined and acknowledged: the link goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from agent.core import crypto
from agent.core.crypto import Identity
from agent.core.envelope import open_sealed, seal
from agent.core.group_messages import GroupSend
from agent.core.group_policy import Action
from agent.core.group_tending import GroupTending
from agent.core.inbox import Arrival, ReceiveLink, ReceiveLinks
from agent.core.limits import MAXIMUM_BLOB_BYTES, MAXIMUM_COUNTER, MESSAGE_OVERHEAD_BYTES
from agent.core.membership import Edit, GroupChanged, GroupDestroyed, Membership, RemovedFromGroup
from agent.core.message import (
    NO_GROUP,
    Acknowledgement,
    Loss,
    LossReason,
    Message,
    MessageType,
    Resumption,
    read_message,
    write_message,
)
from agent.core.now import Now
from agent.core.outbox import InFlight, Jitter, SendLink
from agent.core.pairing import Invite, JoinRequest
from agent.core.records import MessageClass, OpenInvite, Records
from agent.core.sequences import SequenceSet
from agent.core.topics import inbox_topic
from agent.core.voting import VoteArrived, Voting, receive_vote
from agent.core.voting import vote as cast_vote
from agent.errors import LimitError, LocalError, NotAMemberError, NotForUsError, RemoteError


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One envelope for the relay. Tell `Node.sent` when the relay took it; an acknowledgement has no `entry`."""

    topic: str
    envelope: bytes = field(repr=False)
    recipient: bytes
    entry: InFlight | None


@dataclass(frozen=True, slots=True)
class BlobArrived:
    """A member's blob lies in the inbox."""

    author: bytes
    size: int


@dataclass(frozen=True, slots=True)
class EnvelopeDropped:
    """An envelope broke a rule. `author` is known only where the signature verified."""

    code: str
    reason: str
    author: bytes | None


Event = GroupChanged | RemovedFromGroup | GroupDestroyed | VoteArrived | BlobArrived | EnvelopeDropped

_CLASSES = {
    MessageType.BLOB: MessageClass.DATA,
    MessageType.GROUP_MANIFEST: MessageClass.CONTROL,
    MessageType.GROUP_PULL: MessageClass.CONTROL,
    MessageType.GROUP_VOTE: MessageClass.CONTROL,
    MessageType.REVOKE: MessageClass.CONTROL,
    MessageType.JOIN: MessageClass.CONTROL,
    MessageType.TELEMETRY: MessageClass.TELEMETRY,
    MessageType.LOSS: MessageClass.CONTROL,
}
_LANDS = frozenset({MessageType.TELEMETRY, MessageType.LOSS})
"""What a collector puts into its vault before it acknowledges."""


class Node:
    """One device's protocol state. Everything durable is in `records`; the rest can be lost at any time.

    `lands_telemetry` says whether a collector empties the landing; without one, telemetry stays at its sender.
    """

    def __init__(
        self,
        identity: Identity,
        records: Records,
        rng: Callable[[int], bytes],
        jitter: Jitter,
        *,
        lands_telemetry: bool = False,
    ) -> None:
        self.identity = identity
        self.membership = Membership(identity, records, rng)
        self._tending = GroupTending(identity.signing_public, records, jitter)
        self._records = records
        self._rng = rng
        self._jitter = jitter
        self._lands_telemetry = lands_telemetry
        self._events: deque[Event] = deque()
        self._sending: dict[bytes, SendLink] = {}
        self._receiving = ReceiveLinks(records)
        self._resumptions: dict[bytes, Resumption] = {}
        self._acknowledged: list[tuple[bytes, SequenceSet]] = []
        self._withdrawn: list[tuple[bytes, int, int]] = []
        self._incarnation = records.incarnation()
        self._connected = False
        self.refresh()

    def refresh(self) -> None:
        """Take up what another process wrote: groups, joins and queued messages."""
        self.membership.refresh()
        for recipient in self._records.recipients_waiting():
            self._send_link(recipient).queue_grew()

    def rolled_back(self) -> None:
        """Take back what was not committed: everything is read from the store again.

        What is in flight stays so: a disk that refuses must not have everything sent again at each attempt.
        """
        self._acknowledged.clear()
        self._withdrawn.clear()
        self._receiving.clear()
        self._resumptions.clear()
        self._events.clear()
        self.membership = Membership(self.identity, self._records, self._rng)

    # -- sending ------------------------------------------------------------------------------------------------------

    def request_join(self, invite: Invite, label: str, now: Now) -> None:
        """Ask the inviter to let this device into its group (003.16).

        Raises:
            LocalError: expired, our own invite, or a group that this device is in.
        """
        self.membership.begin_join(invite, now.wall_us)
        request = JoinRequest(invite.secret, self.identity.noise_public, label)
        self._queue(invite.inviter.signing_public, MessageType.JOIN, invite.group_id, request.to_wire(), now)

    def send_blob(self, group_id: bytes, content: bytes, now: Now) -> int:
        """Queue one separately sealed blob for every other member (001.01, 001.03); return how many.

        Raises:
            LocalError: too large, or the outbox is full: then the caller rolls back, and nothing was queued.
            UnknownGroupError: this device is not in the group.
        """
        if len(content) > MAXIMUM_BLOB_BYTES:
            raise LocalError(f"a blob has at most {MAXIMUM_BLOB_BYTES} bytes")
        others = [
            member.keys.signing_public
            for member in self.membership.group(group_id).members
            if member.keys.signing_public != self.identity.signing_public
        ]
        for recipient in others:
            self._queue(recipient, MessageType.BLOB, group_id, content, now)
        return len(others)

    def send_telemetry(self, group_id: bytes, batch: bytes, readings: int, now: Now) -> None:
        """Queue one batch for this device's collector, and count its readings as published.

        Where the outbox is full, the oldest telemetry goes, and a signed loss record says so.

        Raises:
            LocalError: the group has no collector, or the outbox is full: then the caller rolls back.
            UnknownGroupError: this device is not in the group.
        """
        collector = self.membership.collector_of(group_id)
        if collector is None:
            raise LocalError("the group has no collector", hint="invite one: covey invite --capability collector")
        recipient = collector.keys.signing_public
        for first, last in self._records.make_room(recipient, len(batch) + MESSAGE_OVERHEAD_BYTES):
            self._queue_loss(recipient, Loss(first, last, LossReason.OUTBOX_FULL), now)
        self._queue(recipient, MessageType.TELEMETRY, group_id, batch, now)
        self._records.count("published_readings", readings)
        self._records.count("published_messages")

    def _queue(self, recipient: bytes, kind: MessageType, group_id: bytes, body: bytes, now: Now) -> None:
        seq, link_seq = self._records.allocate(recipient)
        message = write_message(
            self.identity, kind, recipient, group_id, self._incarnation, seq, link_seq, now.wall_us, body
        )
        self._records.queue(recipient, seq, link_seq, _CLASSES[kind], message, now.wall_us)
        self._send_link(recipient).queue_grew()

    def _queue_loss(self, recipient: bytes, loss: Loss, now: Now) -> None:
        self._withdrawn.append((recipient, loss.first, loss.last))
        self._queue(recipient, MessageType.LOSS, NO_GROUP, loss.to_wire(), now)

    def withdraw(self, recipient: bytes, link_seq: int, now: Now) -> None:
        """Set a message aside that no relay carries; its recipient is told. Writes, so inside a transaction."""
        if self._records.withdraw(recipient, link_seq, "too_large", now.wall_us):
            self._queue_loss(recipient, Loss(link_seq, link_seq, LossReason.DAMAGED), now)

    def envelopes_to_send(self, now: Now) -> Iterator[Outgoing]:
        """Yield sealed envelopes: acknowledgements that are due, then each link's messages.

        A caller whose relay takes no more just stops iterating: a link that was served goes to the end of the queue.
        """
        self._forget_committed(now)
        yield from self._acknowledgements(now)
        for link in list(self._sending.values()):
            wanted = link.wanted()
            if wanted is not None:
                link.offer(self._records.queued(link.recipient, *wanted), wanted)
            address = self.membership.address(link.recipient)
            if address is not None:
                for entry in link.to_send():
                    self._sending[link.recipient] = self._sending.pop(link.recipient)
                    yield Outgoing(inbox_topic(address), self._seal(entry.message, address), link.recipient, entry)
            if link.idle:
                del self._sending[link.recipient]

    def sent(self, outgoing: Outgoing, now: Now) -> None:
        """Note that the relay took an envelope."""
        link = self._sending.get(outgoing.recipient)
        if link is not None and outgoing.entry is not None:
            link.sent(outgoing.entry, now.monotonic_us)

    def relayed(self, recipient: bytes, link_seq: int) -> None:
        """Note that the relay says it has stored an envelope."""
        link = self._sending.get(recipient)
        if link is not None:
            link.relayed(link_seq)

    def connected(self, now: Now) -> None:
        """Note that the relay can be reached."""
        self._connected = True
        for link in self._sending.values():
            link.connected(now.monotonic_us)

    def connection_lost(self) -> None:
        """Note that the relay cannot be reached."""
        self._connected = False
        for link in self._sending.values():
            link.connection_lost()

    def next_deadline(self) -> int | None:
        """Return when `handle_deadline` and `envelopes_to_send` should be called next; None while unconnected."""
        if not self._connected:
            return None
        deadlines = [link.next_deadline() for link in self._sending.values()]
        deadlines += self._receiving.deadlines()
        deadlines.append(self._tending.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def restless(self, now: Now) -> bool:
        """Say whether `tend_groups` has something to do."""
        return self._tending.restless(self.membership, now)

    def tend_groups(self, now: Now) -> None:
        """Do what is due in groups: end conflicts, ask for what is missing. Writes, so inside a transaction."""
        self._queue_all(self._tending.handle_deadline(self.membership, now), now)

    def change_group(self, group_id: bytes, edit: Edit, now: Now) -> None:
        """Issue a group's next version and queue it for everybody.

        Raises:
            LocalError: this device may not do that, or it cannot be done.
            UnknownGroupError: this device is not in the group.
        """
        self._queue_all(self.membership.change(group_id, edit, now.wall_us), now)

    def vote(self, group_id: bytes, action: Action, target: bytes, now: Now) -> Voting:
        """Vote for a ban or its end, which happens where that decides it.

        Raises:
            LocalError: this device may not, or there is nothing to vote about.
            UnknownGroupError: this device is not in the group.
        """
        manifest = self.membership.group(group_id)
        voting, sends = cast_vote(self.membership, self.identity, self._records, manifest, action, target, now.wall_us)
        self._queue_all(sends, now)
        return voting

    def destroy_group(self, group_id: bytes, now: Now) -> None:
        """Destroy a group for everybody in it; `UnknownGroupError` where this device is not."""
        self._queue_all(self.membership.destroy(group_id, now.wall_us), now)

    def leave_group(self, group_id: bytes, now: Now) -> None:
        """Leave a group and tell the others; `UnknownGroupError` where this device is not in it."""
        self._queue_all(self.membership.leave(group_id, now.wall_us), now)

    def handle_deadline(self, now: Now) -> None:
        """Begin the retries that are due."""
        self._forget_committed(now)
        if self._connected:
            for link in self._sending.values():
                link.handle_deadline(now.monotonic_us, self._jitter)

    def answer_now(self, now: Now) -> None:
        """Let acknowledgements that wait for company go at once: this process is about to end."""
        self._receiving.answer_now(now.monotonic_us)

    def next_event(self) -> Event | None:
        """Return what happened, oldest first."""
        if self.membership.events:
            return self.membership.events.popleft()
        return self._events.popleft() if self._events else None

    # -- receiving ----------------------------------------------------------------------------------------------------

    def receive_envelope(self, raw: bytes, now: Now) -> None:
        """Deal with one envelope from the relay."""
        author = None
        try:
            message = read_message(open_sealed(raw, self.identity.noise_secret))
            author = message.author
            if message.recipient != self.identity.signing_public:
                raise NotForUsError("the message names another recipient")
            if message.type is MessageType.ACK:
                self._receive_acknowledgement(message)
            elif message.type is MessageType.RESUME:
                self._receive_resumption(message, now)
            else:
                self._receive_sequenced(message, now)
        except RemoteError as error:
            self._records.count(f"dropped_{error.code}")
            self._events.append(EnvelopeDropped(error.code, str(error), author))

    def landed(self, author: bytes, incarnation: bytes, link_seqs: set[int], now: Now) -> None:
        """Acknowledge what the collector has put into its vault."""
        link = self._receiving.of(author, incarnation)
        link.landed(link_seqs)
        link.answer_soon(now.monotonic_us)
        link.answer_now(now.monotonic_us)

    def _receive_acknowledgement(self, message: Message) -> None:
        acknowledgement = Acknowledgement.from_wire(message.body)
        if acknowledgement.incarnation != self._incarnation:
            return
        self._records.free(message.author, acknowledgement.received)
        self._acknowledged.append((message.author, acknowledgement.received))
        gone = self._records.let_go(message.author, acknowledgement.received)
        if gone:
            self._resumptions[message.author] = Resumption(tuple(gone))

    def _receive_resumption(self, message: Message, now: Now) -> None:
        """Go on without what the sender no longer has: an earlier state of ours had it, or a loss record tells."""
        if self.membership.address(message.author) is None:
            raise NotAMemberError("a resumption by a stranger")
        link = self._receiving.of(message.author, message.incarnation)
        before = link.received
        for first, last in Resumption.from_wire(message.body).ranges:
            link.take(first, last)
        if link.received != before:
            self._records.set_received(message.author, message.incarnation, link.received)
            link.answer_soon(now.monotonic_us)

    def _forget_committed(self, now: Now) -> None:
        """Let the links forget what a commit has freed; before it, a failure would leave messages that none sends."""
        for author, received in self._acknowledged:
            link = self._sending.get(author)
            if link is not None:
                link.receive_acknowledgement(received, now.monotonic_us)
        self._acknowledged.clear()
        for recipient, first, last in self._withdrawn:
            link = self._sending.get(recipient)
            if link is not None:
                link.withdraw(first, last)
        self._withdrawn.clear()

    def _receive_sequenced(self, message: Message, now: Now) -> None:
        invite = self._authorise(message, now)
        link = self._receiving.of(message.author, message.incarnation)
        try:
            arrival = link.classify(message.link_seq)
        except LimitError:
            link.answer_soon(now.monotonic_us)  # it shows the sender where this link stands
            raise
        if arrival is Arrival.DUPLICATE:
            self._records.count("duplicates")
            link.answer_soon(now.monotonic_us)
            return
        try:
            taken = self._handle(message, link, invite, now)
        except RemoteError as error:
            self._records.quarantine(error.code, message.raw, now.wall_us)
            self._records.count(f"quarantined_{error.code}")
            self._events.append(EnvelopeDropped(error.code, str(error), message.author))
            taken = True
        if not taken:
            self._records.count("refused_full")
            return
        lands_later = self._lands_telemetry and message.type in _LANDS
        link.take(message.link_seq, message.link_seq, lands_later=lands_later)
        self._records.set_received(message.author, message.incarnation, link.received)
        if not lands_later:
            link.answer_soon(now.monotonic_us)

    def _authorise(self, message: Message, now: Now) -> OpenInvite | None:
        """Apply rule 2: return the invite that a joiner bears, None for everybody else who may speak.

        Raises:
            RemoteError: the author may not speak.
        """
        if message.type is MessageType.JOIN:
            return self.membership.invitations.find(message, now.wall_us)
        if message.type is MessageType.LOSS:
            if message.group_id != NO_GROUP or self.membership.address(message.author) is None:
                raise NotAMemberError("a loss record by a stranger")
        elif message.type in {MessageType.GROUP_MANIFEST, MessageType.GROUP_PULL, MessageType.REVOKE}:
            self.membership.authorise(message)
        elif self.membership.group(message.group_id).member(message.author) is None:
            raise NotAMemberError("the author is not a member of the group")
        return None

    def _handle(self, message: Message, link: ReceiveLink, invite: OpenInvite | None, now: Now) -> bool:
        """Apply a new message by its type; return False where there is no room for it now."""
        if message.type is MessageType.BLOB:
            if not self._records.deliver(message, now.wall_us):
                return False
            self._events.append(BlobArrived(message.author, len(message.body)))
        elif message.type is MessageType.TELEMETRY:
            return self._lands_telemetry and self._records.land(message, now.wall_us)
        elif message.type is MessageType.GROUP_MANIFEST:
            self.membership.receive_manifests(message, now.wall_us)
            self._queue_all(self._tending.ask(self.membership, message.group_id, message.author, now), now)
        elif message.type is MessageType.GROUP_PULL:
            self._queue_all(self._tending.answer_pull(self.membership, message), now)
        elif message.type is MessageType.GROUP_VOTE:
            self._events.append(receive_vote(self.membership, self._records, message))
        elif message.type is MessageType.REVOKE:
            self._queue_all(self.membership.receive_revoke(message, now.wall_us), now)
            if self.membership.shares_nothing_with(message.author):  # it knows, and may be gone before it answers
                everything = SequenceSet(MAXIMUM_COUNTER)
                self._records.free(message.author, everything)
                self._acknowledged.append((message.author, everything))
        elif message.type is MessageType.LOSS:
            return self._receive_loss(message, link, now)
        elif invite is not None:
            self._queue_all(self.membership.admit(message, invite, now.wall_us), now)
        return True

    def _queue_all(self, sends: list[GroupSend], now: Now) -> None:
        for recipient in self.membership.take_departed():
            for first, last in self._records.withdraw_all(recipient):
                self._queue_loss(recipient, Loss(first, last, LossReason.WITHDRAWN), now)
        for each in sends:
            self._queue(each.recipient, each.type, each.group_id, each.body, now)

    def _receive_loss(self, message: Message, link: ReceiveLink, now: Now) -> bool:
        loss = Loss.from_wire(message.body)
        if loss.last >= message.link_seq:
            raise LimitError("a loss record speaks of messages before it")
        if self._lands_telemetry and not self._records.land(message, now.wall_us):
            return False
        link.take(loss.first, loss.last)
        self._records.count("lost_messages", loss.last - loss.first + 1)
        return True

    # -- links --------------------------------------------------------------------------------------------------------

    def _send_link(self, recipient: bytes) -> SendLink:
        link = self._sending.get(recipient)
        if link is None:
            link = self._sending[recipient] = SendLink(recipient)
        return link

    def _acknowledgements(self, now: Now) -> Iterator[Outgoing]:
        for author, incarnation, link in self._receiving.due(now.monotonic_us):
            body = Acknowledgement(incarnation, link.acknowledgement()).to_wire()
            yield from self._unsequenced(author, MessageType.ACK, body, now)
        for author in list(self._resumptions):
            yield from self._unsequenced(author, MessageType.RESUME, self._resumptions[author].to_wire(), now)
            del self._resumptions[author]

    def _unsequenced(self, recipient: bytes, kind: MessageType, body: bytes, now: Now) -> Iterator[Outgoing]:
        """Yield a message about a link; none to a device that was removed, or never let in: it hears nothing."""
        address = self.membership.address(recipient)
        if address is not None:
            message = write_message(
                self.identity, kind, recipient, NO_GROUP, self._incarnation, 0, 0, now.wall_us, body
            )
            yield Outgoing(inbox_topic(address), self._seal(message, address), recipient, None)

    def _seal(self, message: bytes, address: bytes) -> bytes:
        return seal(message, address, self._rng(32), self._rng(crypto.NONCE_BYTES))
