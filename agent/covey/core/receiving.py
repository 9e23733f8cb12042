"""What a node does with an envelope that has come.

An envelope is dealt with in this order, and the first failure ends it:

    1. size, shape, decryption; shape and signature of the message; it names us as its recipient;
    2. the author may speak: a member of the group named, an address that this device knows for what belongs to a
       link, the inviter whose answer is awaited, or the bearer of an open invite (000.24);
    3. the link sequence is new (`inbox.py`);
    4. the type's own rules. An authentic message that breaks these is quarantined and acknowledged: the link goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from covey.core.collectors import Collectors, read_redirected
from covey.core.crypto import NONCE_BYTES, Identity, NoiseKey
from covey.core.events import BlobArrived, EnvelopeDropped, Event, RollbackDetected
from covey.core.group.messages import GroupSend
from covey.core.link.link_keys import KeptKey, LinkKey, open_envelope
from covey.core.link.receiver import Arrival, ReceiveLink, ReceiveLinks
from covey.core.link.sender import Sending
from covey.core.membership.authorisation import authorise
from covey.core.membership.maintenance import GroupMaintenance
from covey.core.membership.membership import Membership
from covey.core.membership.records import OpenInvite
from covey.core.membership.requests import receive_group_invite
from covey.core.membership.voting import receive_vote
from covey.core.now import Now
from covey.core.presence.heartbeat import Heartbeat
from covey.core.records import Records
from covey.core.routing.forwarding import BoardRoutes, Forward, check_carried, read_downward
from covey.core.wire.message import Acknowledgement, Loss, Message, MessageType, Resumption, read_message
from covey.core.wire.sequences import SequenceSet
from covey.errors import LimitError, MalformedError, NotForUsError, RemoteError
from covey.limits import MAXIMUM_COUNTER

_LANDS = frozenset({MessageType.TELEMETRY, MessageType.REDIRECTED, MessageType.LOSS})
"""What a collector puts into its vault before it acknowledges."""


class Receiving:
    """Part of `Node`."""

    identity: Identity
    membership: Membership
    routes: BoardRoutes
    heartbeat: Heartbeat
    _records: Records
    _rng: Callable[[int], bytes]
    _sending: Sending
    _receiving: ReceiveLinks
    _collectors: Collectors
    _group_maintenance: GroupMaintenance
    _lands_telemetry: bool
    _events: deque[Event]
    _speaker: tuple[bytes, bool] | None
    _resumptions: dict[tuple[bytes, bytes], Resumption]

    def receive_envelope(self, raw: bytes, now: Now) -> tuple[bytes, bool] | None:
        """Deal with one envelope from a relay; return who wants an answer or was heard, and whether it was news."""
        self._speaker = None
        self._receive(raw, None, now)
        return self._speaker

    def _receive(self, raw: bytes, carrier: bytes | None, now: Now) -> bool:
        """Deal with an envelope that the relay or a member brought; return False where there is no room for it."""
        author = None
        try:
            opened = open_envelope(raw, self.identity.noise, self._records.link_keys)
            message = read_message(opened.message)
            author = message.author
            opened.check_author(message)
            if message.recipient != self.identity.signing_public:
                raise NotForUsError("the message names another recipient")
            if carrier is not None:
                check_carried(self.membership, message, carrier)
            if message.type is MessageType.ACK:
                self._receive_acknowledgement(message, now)
                return True
            invite = authorise(self.membership, message, now.wall_us)
            self._sending.link_keys.heard(message.author)
            if message.link_seq:
                return self._receive_sequenced(message, invite, carrier, opened.sealed_for, now)
            if message.type is MessageType.RESUME:
                self._receive_resumption(message, now)
            elif message.type is MessageType.PRESENCE:
                self._speaker = (
                    (message.author, True) if self.heartbeat.receive(self.membership, message, now) else None
                )
            else:
                self.routes.keep(message.author, read_downward(self.membership, message))
        except RemoteError as error:
            self._records.counters.count(f"dropped_{error.code}")
            self._events.append(EnvelopeDropped(error.code, str(error), author))
        return True

    def landed(self, author: bytes, incarnation: bytes, link_seqs: set[int], now: Now) -> None:
        """Acknowledge what the collector has put into its vault."""
        link = self._receiving.of(author, incarnation)
        link.landed(link_seqs)
        link.answer_soon(now.monotonic_us)
        link.answer_now(now.monotonic_us)

    def _receive_acknowledgement(self, message: Message, now: Now) -> None:
        acknowledgement = Acknowledgement.from_wire(message.body)
        spans = self._records.incarnations.spans(message.author)
        span = next((span for span in spans if span.incarnation == acknowledgement.incarnation), None)
        if span is None:
            return
        if span is spans[-1] and span.covers_too_much(acknowledgement.received):
            if self._sending.doubt(message.author, now):
                self._events.append(RollbackDetected(message.author))
            return
        if self._sending.free(message.author, span.places(acknowledgement.received), now):
            self._records.presence.seen(message.author, now.wall_us)
            self._collectors.answered(message.author, now)
            self._speaker = message.author, True
        gone = self._records.outbox.let_go(message.author, span, acknowledgement.received)
        if gone:
            self._resumptions[message.author, span.incarnation] = Resumption(tuple(gone))

    def _receive_resumption(self, message: Message, now: Now) -> None:
        """Go on without what the sender no longer has: an earlier state of ours had it, or a loss record tells."""
        link = self._receiving.of(message.author, message.incarnation)
        before = link.received
        for first, last in Resumption.from_wire(message.body).ranges:
            link.take(first, last)
        if link.received != before:
            self._records.received.set(message.author, message.incarnation, link.received)
            link.answer_soon(now.monotonic_us)

    def _receive_sequenced(
        self, message: Message, invite: OpenInvite | None, carrier: bytes | None, sealed_for: NoiseKey | None, now: Now
    ) -> bool:
        if carrier is not None:
            self._receiving.restarted(message.author, message.incarnation)
        link = self._receiving.of(message.author, message.incarnation)
        self._speaker = message.author, False
        try:
            arrival = link.classify(message.link_seq)
        except LimitError:
            link.answer_soon(now.monotonic_us)  # it shows the sender where this link stands
            raise
        if arrival is Arrival.DUPLICATE:
            self._records.counters.count("duplicates")
            if carrier is not None:
                self.routes.brought(message.author, carrier, new=False)
            if sealed_for is not None and link.has_answered(message.link_seq):
                self._sending.link_keys.end(message.author)  # our acknowledgement may not have opened there
            link.answer_soon(now.monotonic_us)
            return True
        try:
            taken = self._handle(message, link, invite, now, sealed_for)
        except RemoteError as error:
            self._records.quarantine.add(error.code, message.raw, now.wall_us)
            self._records.counters.count(f"quarantined_{error.code}")
            self._events.append(EnvelopeDropped(error.code, str(error), message.author))
            taken = True
        if not taken:
            self._records.counters.count("refused_full")
            return False
        if carrier is not None:
            self.routes.brought(message.author, carrier, new=True)
        lands_later = self._lands_telemetry and message.type in _LANDS
        link.take(message.link_seq, message.link_seq, lands_later=lands_later)
        self._records.received.set(message.author, message.incarnation, link.received)
        self._records.presence.seen(message.author, now.wall_us)
        self._speaker = message.author, True
        if not lands_later:
            link.answer_soon(now.monotonic_us)
        return True

    def _handle(
        self,
        message: Message,
        link: ReceiveLink,
        invite: OpenInvite | None,
        now: Now,
        sealed_for: NoiseKey | None = None,
    ) -> bool:
        """Apply a new message by its type; return False where there is no room for it now."""
        if message.type is MessageType.BLOB:
            if not self._records.inbox.deliver(message, now.wall_us):
                return False
            self._events.append(BlobArrived(message.author, len(message.body)))
        elif message.type is MessageType.TELEMETRY:
            return self._lands_telemetry and self._records.landing.land(message, now.wall_us)
        elif message.type is MessageType.REDIRECTED:
            redirected = replace(message, raw=read_redirected(message))
            return self._lands_telemetry and self._records.landing.land(redirected, now.wall_us)
        elif message.type is MessageType.LOSS:
            return self._receive_loss(message, link, now)
        elif message.type is MessageType.LINK:
            self._take_link(message, sealed_for, now)
        elif message.type is MessageType.FORWARD:
            forward = Forward.from_wire(message.body)
            if forward.to != self.identity.signing_public:
                raise NotForUsError("a forwarded envelope for another device")
            return self._receive(forward.envelope, message.author, now)
        elif invite is not None:
            self._queue_all(self.membership.admit(message, invite, now.wall_us), now)
        else:
            self._handle_of_group(message, now)
        return True

    def _handle_of_group(self, message: Message, now: Now) -> None:
        """Apply a message that speaks of a group's membership."""
        if message.type is MessageType.GROUP_MANIFEST:
            self._queue_all(self.membership.receive_manifests(message, now.wall_us), now)
            self._queue_all(self._group_maintenance.ask(self.membership, message.group_id, message.author, now), now)
        elif message.type is MessageType.GROUP_PULL:
            self._queue_all(self._group_maintenance.answer_pull(self.membership, message), now)
        elif message.type is MessageType.GROUP_INVITE:
            invited = receive_group_invite(self.membership, self._records.requests, message, now.wall_us)
            self._events.extend([] if invited is None else [invited])
        elif message.type is MessageType.GROUP_VOTE:
            self._events.append(receive_vote(self.membership, self._records.votes, message))
        elif message.type is MessageType.REVOKE:
            self._queue_all(self.membership.receive_revoke(message, now.wall_us), now)
            if self.membership.shares_nothing_with(message.author):  # it knows, and may be gone before it answers
                self._sending.free(message.author, SequenceSet(MAXIMUM_COUNTER), now)

    def _queue_all(self, sends: list[GroupSend], now: Now) -> None:
        self._sending.queue_all(sends, self.membership.take_departed(), now)

    def _receive_loss(self, message: Message, link: ReceiveLink, now: Now) -> bool:
        loss = Loss.from_wire(message.body)
        if loss.incarnation == message.incarnation:
            raise MalformedError("a loss record names its own incarnation")
        if loss.incarnation is None and loss.last >= message.link_seq:
            raise LimitError("a loss record speaks of messages before it")
        if self._lands_telemetry and not self._records.landing.land(message, now.wall_us):
            return False
        about = link if loss.incarnation is None else self._receiving.of(message.author, loss.incarnation)
        for first, last in loss.places:
            self._records.counters.count("lost_messages", about.received.missing(first, last))
            about.take(first, last)
        if about is not link:
            self._records.received.set(message.author, loss.incarnation or b"", about.received)
            about.answer_soon(now.monotonic_us)
        return True

    def _take_link(self, message: Message, sealed_for: NoiseKey | None, now: Now) -> None:
        """Keep a link key that came sealed. Of one that did not, its author has no use (`link_keys.py`, rule 3).

        Raises:
            MalformedError: no link key.
        """
        link = LinkKey.from_wire(message.author, message.body)
        if sealed_for is not None:
            self._records.link_keys.save(KeptKey.of(link, sealed_for, self._rng(NONCE_BYTES)), now.wall_us)
