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
from dataclasses import replace

from agent.core.authority import authorise
from agent.core.by_hand import ByHand
from agent.core.collecting import Collecting, Collectors, read_redirected
from agent.core.crypto import Identity, NoiseKey
from agent.core.events import BlobArrived, EnvelopeDropped, Event, StateDoubted
from agent.core.forwarding import (
    Forward,
    Routes,
    blob_recipients,
    check_carried,
    check_forward,
    read_downward,
)
from agent.core.group_manifest import Member
from agent.core.group_messages import GroupSend
from agent.core.group_policy import Action
from agent.core.group_requests import as_invite, invite_member, receive_group_invite
from agent.core.group_tending import GroupTending
from agent.core.inbox import Arrival, ReceiveLink, ReceiveLinks
from agent.core.key_keeping import KeyKeeping
from agent.core.limits import (
    COLLECTOR_SILENT_US,
    EXPIRE_AGAIN_US,
    MAXIMUM_BLOB_BYTES,
    MAXIMUM_BOARD_BLOB_BYTES,
    MAXIMUM_COUNTER,
    UPKEEP_US,
)
from agent.core.link_keys import DEFAULT_TERMS, LinkTerms, open_envelope
from agent.core.membership import Edit, Membership
from agent.core.message import Acknowledgement, Loss, Message, MessageType, Resumption, read_message
from agent.core.now import Now
from agent.core.outbox import Jitter
from agent.core.pairing import Invite, JoinRequest
from agent.core.pairing_records import GroupRequest
from agent.core.pulse import Pulse
from agent.core.reach import Reach
from agent.core.records import OpenInvite, Records
from agent.core.sending import Outgoing, Sending
from agent.core.sequences import SequenceSet
from agent.core.upkeep import give_up
from agent.core.voting import Voting, receive_vote
from agent.core.voting import vote as cast_vote
from agent.core.ways import Ways, address, may_link
from agent.errors import LimitError, LocalError, MalformedError, NotForUsError, OutboxFullError, RemoteError

_LANDS = frozenset({MessageType.TELEMETRY, MessageType.REDIRECTED, MessageType.LOSS})
"""What a collector puts into its vault before it acknowledges."""


class Node(ByHand, Reach, KeyKeeping, Collecting):
    """One device's protocol state. Everything durable is in `records`; the rest can be lost at any time.

    `lands_telemetry` says whether a collector empties the landing; without one, telemetry stays at its sender.
    `silent_us` is how long a collector may acknowledge nothing before new telemetry goes to the next one.
    `presence_us` is the longest silence towards this device's collectors; 0: it does not tell them that it is there.
    """

    def __init__(
        self,
        identity: Identity,
        records: Records,
        rng: Callable[[int], bytes],
        jitter: Jitter,
        *,
        lands_telemetry: bool = False,
        presence_us: int = 0,
        silent_us: int = COLLECTOR_SILENT_US,
        link_terms: LinkTerms = DEFAULT_TERMS,
    ) -> None:
        self.identity = identity
        self.membership = Membership(identity, records, rng)
        self._tending = GroupTending(identity, records, jitter)
        self._upkeep_at_us = 0
        self._records = records
        self._rng = rng
        self._sending = Sending(identity, records, self._address, rng, jitter, link_terms)
        self.routes = Routes(records)
        self._ways = Ways(identity, records, self._sending, self.routes)
        self._collectors = Collectors(identity.signing_public, records, self._sending, silent_us)
        self._lands_telemetry = lands_telemetry
        self._events: deque[Event] = deque()
        self._receiving = ReceiveLinks(records)
        self.pulse = Pulse(identity.signing_public, records, self._sending, rng, presence_us)
        self._speaker: tuple[bytes, bool] | None = None
        self._resumptions: dict[tuple[bytes, bytes], Resumption] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take up what another process wrote: groups, joins and queued messages."""
        self.membership.refresh()
        self._sending.refresh()

    def rolled_back(self) -> None:
        """Take back what was not committed: everything is read from the store again."""
        self._sending.rolled_back()
        self.pulse.rolled_back()
        self._collectors.rolled_back()
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
        self._sending.queue(invite.inviter.signing_public, MessageType.JOIN, invite.group_id, request.to_wire(), now)

    def invite_member(self, group_id: bytes, member: bytes, capabilities: tuple[str, ...], now: Now) -> None:
        """Invite a device that shares a group with this one to a further group; a person there answers.

        Raises:
            LocalError: not that device, or not to that group.
            UnknownGroupError: this device is not in the group.
        """
        body = invite_member(self.membership, group_id, member, capabilities, now.wall_us).to_wire()
        self._sending.queue(member, MessageType.GROUP_INVITE, group_id, body, now)

    def accept_request(self, request: GroupRequest, label: str, now: Now) -> None:
        """Accept an invitation to a further group: ask its inviter to be let in.

        Raises:
            LocalError: expired, or a group that this device is in.
        """
        self.request_join(as_invite(request), label, now)
        self._records.drop_group_request(request.group_id)

    def send_blob(
        self, group_id: bytes, content: bytes, now: Now, to: bytes | None = None, lifetime_us: int | None = None
    ) -> int:
        """Queue one separately sealed blob for a member, or for every other one (001.01, 001.03); return for how many.

        Boards are sent to only by name, and listen to their collector alone. A blob that outlives its lifetime is
        dropped (`Sending.expire`), and its recipient is told.

        Raises:
            LocalError: too large, or the outbox is full: then the caller rolls back, and nothing was queued.
            NotAMemberError: `to` is nobody else in the group.
            UnknownGroupError: this device is not in the group.
        """
        group = self.membership.group(group_id)
        recipients = blob_recipients(group, self.identity.signing_public, to)
        if len(content) > (
            MAXIMUM_BOARD_BLOB_BYTES if any(each.is_board for each in recipients) else MAXIMUM_BLOB_BYTES
        ):
            raise LocalError(f"a blob has at most {MAXIMUM_BLOB_BYTES} bytes, for a board {MAXIMUM_BOARD_BLOB_BYTES}")
        for recipient in recipients:
            key = recipient.keys.signing_public
            self._sending.queue(key, MessageType.BLOB, group_id, content, now, lifetime_us=lifetime_us)
        return len(recipients)

    def forward(self, board: bytes, recipient: bytes, envelope: bytes, now: Now) -> None:
        """Queue an envelope of a board that hangs on this device (`forwarding.py`).

        Raises:
            LocalError: not for that recipient.
            OutboxFullError: there is no room: then the caller rolls back, and keeps the envelope.
        """
        group = check_forward(self.membership, board, recipient, envelope)
        if recipient != self.identity.signing_public:
            body = Forward(recipient, envelope).to_wire()
            self._sending.queue_telemetry(recipient, MessageType.FORWARD, group.group_id, body, now)
        elif not self._receive(envelope, recipient, now):
            raise OutboxFullError("there is no room for a board's message")
        self._records.count("forwarded_envelopes")

    def answer_boards(self, now: Now) -> None:
        """Let acknowledgements for our own boards go down: they need no relay. `routes.take` then has them."""
        for _ in self._acknowledgements(now, lambda author: self.routes.leads_here(author, self.identity)):
            continue  # a second way, which leads elsewhere: the board tells again there

    def withdraw(self, recipient: bytes, link_seq: int, now: Now) -> None:
        """Set a message aside that no relay carries; its recipient is told. Writes, so inside a transaction."""
        self._sending.withdraw(recipient, link_seq, now)

    def envelopes_to_send(self, now: Now) -> Iterator[Outgoing]:
        """Yield sealed envelopes: acknowledgements that are due, then each link's messages.

        A caller whose relay takes no more just stops iterating.
        """
        self._sending.forget_committed(now)
        yield from self._acknowledgements(now)
        yield from self._answers(now)
        yield from self._beats(now)
        for outgoing in self._sending.envelopes(now):
            yield from self._ways.of(self.membership, outgoing, now)

    def next_deadline(self) -> int | None:
        """Return when `handle_deadline` and `envelopes_to_send` should be called next; None while unconnected."""
        if not self._sending.is_connected:
            return None
        deadlines = self._sending.deadlines()
        deadlines += self._receiving.deadlines()
        deadlines += [self._tending.next_deadline(), self.pulse.next_deadline()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def restless(self, now: Now) -> bool:
        """Say whether `tend_groups` has something to do."""
        due = now.monotonic_us >= self._upkeep_at_us or self._sending.link_keys.wanted or self.pulse.restless(now)
        due = due or self._receiving.untold
        return due or self._collectors.restless(now) or self._tending.restless(self.membership, now)

    def tend_groups(self, now: Now) -> None:
        """Do what is due in groups: end conflicts, ask for what is missing, give up what has waited too long.

        Writes, so inside a transaction.
        """
        if now.monotonic_us >= self._upkeep_at_us:
            more = self._sending.expire(now)
            self._upkeep_at_us = now.monotonic_us + (EXPIRE_AGAIN_US if more else UPKEEP_US)
            self._events += give_up(self.membership, self._records, self._sending, now)
            self._sending.tell_losses(now)
            self.forget_link_keys(now)
        self._receiving.tell_anew(now)
        self._sending.begin_links(lambda device: may_link(self.membership, device), now)
        self._queue_all(self._tending.handle_deadline(self.membership, now), now)
        self.pulse.write(now)
        self._collectors.tend(self.membership, now)

    def add_device(self, group_id: bytes, newcomer: Member, relay_url: str, now: Now) -> Invite:
        """Let a device in by its keys, and tell everybody; the invite is for it alone.

        Raises:
            LocalError: it is a member already, one of its keys stands in the group, or the group does not let us.
            UnknownGroupError: this device is not in the group.
        """
        invite, sends = self.membership.add_device(group_id, newcomer, relay_url, now.wall_us)
        self._queue_all(sends, now)
        return invite

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
        self._sending.handle_deadline(now)

    def answer_now(self, now: Now) -> None:
        """Let acknowledgements that wait for company go at once: this process is about to end."""
        self._receiving.answer_now(now.monotonic_us)

    def next_event(self) -> Event | None:
        """Return what happened, oldest first."""
        if self.membership.events:
            return self.membership.events.popleft()
        return self._events.popleft() if self._events else None

    # -- receiving ----------------------------------------------------------------------------------------------------

    def receive_envelope(self, raw: bytes, now: Now) -> tuple[bytes, bool] | None:
        """Deal with one envelope from a relay; return who wants an answer or was heard, and whether it was news."""
        self._speaker = None
        self._receive(raw, None, now)
        return self._speaker

    def _receive(self, raw: bytes, carrier: bytes | None, now: Now) -> bool:
        """Deal with an envelope that the relay or a member brought; return False where there is no room for it."""
        author = None
        try:
            opened = open_envelope(raw, self.identity.noise, self._records)
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
                self._speaker = (message.author, True) if self.pulse.receive(self.membership, message, now) else None
            else:
                self.routes.keep(message.author, read_downward(self.membership, message))
        except RemoteError as error:
            self._records.count(f"dropped_{error.code}")
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
        eras = self._records.eras(message.author)
        era = next((era for era in eras if era.incarnation == acknowledgement.incarnation), None)
        if era is None:
            return
        if era is eras[-1] and era.covers_too_much(acknowledgement.received):
            if self._sending.doubt(message.author, now):
                self._events.append(StateDoubted(message.author))
            return
        if self._sending.free(message.author, era.places(acknowledgement.received), now):
            self._records.heard(message.author, now.wall_us)
            self._collectors.answered(message.author, now)
            self._speaker = message.author, True
        gone = self._records.let_go(message.author, era, acknowledgement.received)
        if gone:
            self._resumptions[message.author, era.incarnation] = Resumption(tuple(gone))

    def _receive_resumption(self, message: Message, now: Now) -> None:
        """Go on without what the sender no longer has: an earlier state of ours had it, or a loss record tells."""
        link = self._receiving.of(message.author, message.incarnation)
        before = link.received
        for first, last in Resumption.from_wire(message.body).ranges:
            link.take(first, last)
        if link.received != before:
            self._records.set_received(message.author, message.incarnation, link.received)
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
            self._records.count("duplicates")
            if carrier is not None:
                self.routes.brought(message.author, carrier, new=False)
            if sealed_for is not None and link.has_answered(message.link_seq):
                self._sending.link_keys.end(message.author)  # our acknowledgement may not have opened there
            link.answer_soon(now.monotonic_us)
            return True
        try:
            taken = self._handle(message, link, invite, now, sealed_for)
        except RemoteError as error:
            self._records.quarantine(error.code, message.raw, now.wall_us)
            self._records.count(f"quarantined_{error.code}")
            self._events.append(EnvelopeDropped(error.code, str(error), message.author))
            taken = True
        if not taken:
            self._records.count("refused_full")
            return False
        if carrier is not None:
            self.routes.brought(message.author, carrier, new=True)
        lands_later = self._lands_telemetry and message.type in _LANDS
        link.take(message.link_seq, message.link_seq, lands_later=lands_later)
        self._records.set_received(message.author, message.incarnation, link.received)
        self._records.heard(message.author, now.wall_us)
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
            if not self._records.deliver(message, now.wall_us):
                return False
            self._events.append(BlobArrived(message.author, len(message.body)))
        elif message.type is MessageType.TELEMETRY:
            return self._lands_telemetry and self._records.land(message, now.wall_us)
        elif message.type is MessageType.REDIRECTED:
            redirected = replace(message, raw=read_redirected(message))
            return self._lands_telemetry and self._records.land(redirected, now.wall_us)
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
            self._queue_all(self._tending.ask(self.membership, message.group_id, message.author, now), now)
        elif message.type is MessageType.GROUP_PULL:
            self._queue_all(self._tending.answer_pull(self.membership, message), now)
        elif message.type is MessageType.GROUP_INVITE:
            invited = receive_group_invite(self.membership, self._records, message, now.wall_us)
            self._events.extend([] if invited is None else [invited])
        elif message.type is MessageType.GROUP_VOTE:
            self._events.append(receive_vote(self.membership, self._records, message))
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
        if self._lands_telemetry and not self._records.land(message, now.wall_us):
            return False
        about = link if loss.incarnation is None else self._receiving.of(message.author, loss.incarnation)
        for first, last in loss.places:
            self._records.count("lost_messages", about.received.missing(first, last))
            about.take(first, last)
        if about is not link:
            self._records.set_received(message.author, loss.incarnation or b"", about.received)
            about.answer_soon(now.monotonic_us)
        return True

    def _address(self, device: bytes) -> bytes | None:
        return address(self.membership, self._records, device)

    # -- links --------------------------------------------------------------------------------------------------------

    def _acknowledgements(self, now: Now, wanted: Callable[[bytes], bool] = lambda _: True) -> Iterator[Outgoing]:
        for author, incarnation, link in self._receiving.due(now.monotonic_us, wanted):
            body = Acknowledgement(incarnation, link.acknowledgement()).to_wire()
            yield from self._ways.unsequenced(self.membership, author, MessageType.ACK, body, now)

    def _answers(self, now: Now) -> Iterator[Outgoing]:
        for author, incarnation in list(self._resumptions):
            body = self._resumptions[author, incarnation].to_wire()
            yield from self._ways.unsequenced(self.membership, author, MessageType.RESUME, body, now, incarnation)
            del self._resumptions[author, incarnation]
