"""One device: what arrives is checked, stored and answered; what is queued is sealed and sent.

The node joins the machines of this package. It is sans-I/O: the runtime opens a transaction, calls in, commits, and
only then lets go of what `envelopes_to_send` and `next_event` give. Whatever an envelope holds, `receive_envelope`
raises no `RemoteError`: it counts, and drops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from covey.core.by_hand import ByHand
from covey.core.collectors import Collecting, Collectors
from covey.core.crypto import Identity
from covey.core.events import Event
from covey.core.group.manifest import Member
from covey.core.group.policy import Action
from covey.core.key_keeping import KeyKeeping
from covey.core.link.link_keys import DEFAULT_TERMS, LinkTerms
from covey.core.link.receiver import ReceiveLinks
from covey.core.link.send_window import Jitter
from covey.core.link.sender import Outgoing, Sending
from covey.core.membership.expiry import give_up
from covey.core.membership.maintenance import GroupMaintenance
from covey.core.membership.membership import Edit, Membership
from covey.core.membership.requests import as_invite, invite_member
from covey.core.membership.voting import Voting
from covey.core.membership.voting import vote as cast_vote
from covey.core.now import Now
from covey.core.pairing.invite import Invite, JoinRequest
from covey.core.pairing.records import GroupRequest
from covey.core.presence.heartbeat import Heartbeat
from covey.core.reach import Reach
from covey.core.records import Records
from covey.core.routing.forwarding import BoardRoutes, Forward, blob_recipients, check_forward
from covey.core.routing.routes import Routing, address, may_link
from covey.core.wire.message import Acknowledgement, MessageType, Resumption
from covey.errors import LocalError, OutboxFullError
from covey.limits import (
    COLLECTOR_SILENT_US,
    EXPIRE_AGAIN_US,
    MAINTENANCE_US,
    MAXIMUM_BLOB_BYTES,
    MAXIMUM_BOARD_BLOB_BYTES,
)


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
        self._group_maintenance = GroupMaintenance(identity, records, jitter)
        self._maintenance_at_us = 0
        self._records = records
        self._rng = rng
        self._sending = Sending(identity, records, self._address, rng, jitter, link_terms)
        self.routes = BoardRoutes(records.carriers)
        self._routing = Routing(identity, records.carriers, self._sending, self.routes)
        self._collectors = Collectors(identity.signing_public, records, self._sending, silent_us)
        self._lands_telemetry = lands_telemetry
        self._events: deque[Event] = deque()
        self._receiving = ReceiveLinks(records)
        self.heartbeat = Heartbeat(identity.signing_public, records.presence, self._sending, rng, presence_us)
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
        self.heartbeat.rolled_back()
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
        self._records.requests.drop(request.group_id)

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
        self._records.counters.count("forwarded_envelopes")

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
            yield from self._routing.of(self.membership, outgoing, now)

    def next_deadline(self) -> int | None:
        """Return when `handle_deadline` and `envelopes_to_send` should be called next; None while unconnected."""
        if not self._sending.is_connected:
            return None
        deadlines = self._sending.deadlines()
        deadlines += self._receiving.deadlines()
        deadlines += [self._group_maintenance.next_deadline(), self.heartbeat.next_deadline()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def has_work(self, now: Now) -> bool:
        """Say whether `maintain` has something to do."""
        due = (
            now.monotonic_us >= self._maintenance_at_us
            or self._sending.link_keys.wanted
            or self.heartbeat.has_work(now)
        )
        due = due or self._receiving.unreported
        return due or self._collectors.has_work(now) or self._group_maintenance.has_work(self.membership, now)

    def maintain(self, now: Now) -> None:
        """Do what is due in groups: end conflicts, ask for what is missing, give up what has waited too long.

        Writes, so inside a transaction.
        """
        if now.monotonic_us >= self._maintenance_at_us:
            more = self._sending.expire(now)
            self._maintenance_at_us = now.monotonic_us + (EXPIRE_AGAIN_US if more else MAINTENANCE_US)
            self._events += give_up(self.membership, self._records, self._sending, now)
            self._sending.report_losses(now)
            self.forget_link_keys(now)
        self._receiving.reacknowledge(now)
        self._sending.begin_links(lambda device: may_link(self.membership, device), now)
        self._queue_all(self._group_maintenance.handle_deadline(self.membership, now), now)
        self.heartbeat.write(now)
        self._collectors.maintain(self.membership, now)

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
        voting, sends = cast_vote(
            self.membership, self.identity, self._records.votes, manifest, action, target, now.wall_us
        )
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

    def _address(self, device: bytes) -> bytes | None:
        return address(self.membership, self._records.carriers, device)

    # -- links --------------------------------------------------------------------------------------------------------

    def _acknowledgements(self, now: Now, wanted: Callable[[bytes], bool] = lambda _: True) -> Iterator[Outgoing]:
        for author, incarnation, link in self._receiving.due(now.monotonic_us, wanted):
            body = Acknowledgement(incarnation, link.acknowledgement()).to_wire()
            yield from self._routing.unsequenced(self.membership, author, MessageType.ACK, body, now)

    def _answers(self, now: Now) -> Iterator[Outgoing]:
        for author, incarnation in list(self._resumptions):
            body = self._resumptions[author, incarnation].to_wire()
            yield from self._routing.unsequenced(self.membership, author, MessageType.RESUME, body, now, incarnation)
            del self._resumptions[author, incarnation]
