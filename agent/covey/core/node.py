"""One device: check, store and answer incoming messages; seal and send queued ones.

The node holds and connects the machines of this package. It is sans-I/O: the runtime opens a transaction, calls the
node, commits, reports that (`committed`), and only then releases the results of `envelopes_to_send` and `next_event`.
If the commit fails, it drops the node and makes another one from the store and from `state` (ADR 4). Whatever an
envelope holds, `receive_envelope` raises no `RemoteError`: it counts, and drops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.assembly import (
    Given,
    group_machines,
    history_machines,
    link_machines,
    receiving_machines,
    report_machines,
)
from covey.core.checkpoints.newcomers import nobody_pinned
from covey.core.content.exchange import ContentExchange
from covey.core.content.secrets import EpochSecrets
from covey.core.crypto import Identity
from covey.core.ephemeral.messages import EphemeralMessages
from covey.core.events import Event
from covey.core.history.urgency import is_urgent
from covey.core.ids import DeviceKey, GroupId, Place
from covey.core.link.costs import ALARMS, CONTROL, HISTORY, RESENDS, kind_of
from covey.core.link.queued import Lane
from covey.core.link.sealer import Outgoing
from covey.core.link.send_window import InFlight, Jitter
from covey.core.link.state import LinkState
from covey.core.mailbox.mailboxes import Mailboxes
from covey.core.membership.expiry import give_up, is_departure_notice
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.core.presence.heartbeat import Heartbeat, LastWill
from covey.core.receiving.acknowledgements import Acknowledgements
from covey.core.receiving.export import Export
from covey.core.receiving.landing import TelemetryLanding
from covey.core.receiving.outcome import Seen
from covey.core.routing.collectors import Collectors, Publishing
from covey.core.routing.forwarding import (
    KEPT_OF_ONE,
    Forward,
    blob_recipients,
    board_member,
    check_forward,
)
from covey.core.routing.routes import may_link
from covey.core.wire.message import Acknowledgement, MessageType, read_message, type_of
from covey.core.wire.topics import wake_topic
from covey.errors import LocalError, OutboxFullError
from covey.limits.board import MAXIMUM_BOARD_BLOB_BYTES
from covey.limits.content import CONTENT_EXPIRY_S
from covey.limits.ephemeral import EPHEMERAL_US
from covey.limits.group import MAINTENANCE_US
from covey.limits.heads import HEADS_CALM_US
from covey.limits.link import RESEND_KEPT_US, RETRY_US_MAX
from covey.limits.message import MAXIMUM_BLOB_BYTES
from covey.limits.relay import COLLECTOR_SILENT_US
from covey.limits.storage import EXPIRE_NEXT_US

if TYPE_CHECKING:
    from covey.core.mailbox.exchange import MailboxExchange
    from covey.core.records import Records


class Node:
    """One device's protocol state. Everything durable is in `records`, what is in flight in `state`.

    `actions` changes groups, `history` has their operations, `telemetry` publishes, `landing` answers for a collector,
    `export` carries by hand. `ephemeral` sends messages that nobody stores, `content` fetches and gives files,
    `mailboxes` keep messages for sleepers. `heads` compares groups with others', `setting_reports` reports settings'
    states, `results` reports commands' results here, `order_results` stores those of other devices.

    `lands_telemetry` says whether a collector empties the landing; without one, telemetry stays at its sender. `pins`
    returns a group's operators that this device's owner has pinned. `silent_us` is how long a collector may acknowledge
    nothing before new telemetry goes to the next one. `presence_us` is the longest silence towards this device's
    collectors; 0: it sends them no heartbeat.
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
        state: LinkState | None = None,
        pins: Callable[[GroupId], Pins] = nobody_pinned,
    ) -> None:
        self.identity = identity
        self.state = state = state or LinkState.of_start(identity, rng)
        self._records = records
        self._jitter = jitter
        self._after_commit = records.after_commit
        self._maintenance_at_us = 0
        self._events: deque[Event] = deque()
        self.discarded = False
        """Whether a transaction of a role failed, so that another node is to take this one's place."""
        given, own, windows = Given(identity, records, rng, jitter, state), identity.signing_public, state.windows

        of_groups = group_machines(given)
        self.groups, self.membership, self.joining = of_groups.groups, of_groups.membership, of_groups.joining
        self._group_maintenance, self._left = of_groups.maintenance, of_groups.left

        links = link_machines(given, self.groups)
        self.routes, self._routing = links.routes, links.routing
        self._sealer, self._queue, self._sender, self._links = links.sealer, links.queue, links.sender, links.receiving
        self._imprints = links.imprints

        histories = history_machines(given, of_groups, links, pins)
        self.history, self.newcomers, self.actions = histories.history, histories.newcomers, histories.actions
        self.heads, self.history_import = histories.heads, histories.importing

        reports = report_machines(given, self.groups, links.queue)
        self.setting_reports, self.order_results = reports.settings, reports.received
        self.results, self.probes = reports.results, reports.probes

        self.telemetry = Publishing(own, self.groups, records, links.queue, links.sender)
        self.landing = TelemetryLanding(records, links.receiving, lands=lands_telemetry)
        self._collectors = Collectors(
            own, records, links.queue, links.sender, windows, state.waiting_since_us, silent_us
        )
        self._acknowledgements = Acknowledgements(records, links.receiving, links.queue, self._collectors, rng)

        self.heartbeat = Heartbeat(
            own, records.presence, links.sealer, rng, presence_us, state.presence, records.after_commit
        )
        self.ephemeral = EphemeralMessages(own, self.groups, windows, state.ephemeral)
        self.content = ContentExchange(
            own, self.groups, records.content, EpochSecrets(records), links.queue, state.carriage
        )
        self.mailboxes = Mailboxes(self.groups, self._make_mailbox_exchange)

        receiving = receiving_machines(
            *(given, self._events, of_groups, links, histories, reports),
            acknowledgements=self._acknowledgements,
            landing=self.landing,
            heartbeat=self.heartbeat,
            ephemeral=self.ephemeral,
            content=self.content,
            mailboxes=self.mailboxes,
        )
        self._receiver, self._group_messages = receiving.receiver, receiving.group_messages
        self.export = Export(
            *(self.groups, records, links.queue, links.sender, links.sealer, self.heads, links.imprints),
            receiving.receiver,
        )
        self.refresh()

    def _make_mailbox_exchange(self) -> MailboxExchange:
        from covey.core.mailbox.exchange import MailboxExchange, MailboxParts

        def seal(recipient: DeviceKey, message: bytes, now: Now) -> bytes | None:
            known = self._sealer.address(recipient)
            if known is None:
                return None
            return self._routing.kept(self.groups, self._sealer.seal(recipient, message, address=known), now)

        def inbox(recipient: DeviceKey) -> DeviceKey | None:
            return self.routes.inbox(self.groups, self.identity, recipient)

        parts = MailboxParts(seal, inbox, self._receiver.receive_kept, self._receiver.take_manifests)
        state, own = self.state, self.identity.signing_public
        return MailboxExchange(own, self.groups, self._records, state.windows, state.carriage, parts)

    def refresh(self) -> None:
        """Take up what another process wrote: groups, joins and queued messages."""
        self.groups.refresh()
        self.history.refresh()
        self.content.refresh()
        self._sender.refresh()
        if (mailboxes := self.mailboxes.exchange) is not None:
            mailboxes.refresh()

    def discard(self) -> None:
        """Note that a transaction was rolled back: this node is to be replaced."""
        self.discarded = True
        self._events.clear()

    # -- what comes and goes ------------------------------------------------------------------------------------------

    def receive_envelope(self, raw: bytes, now: Now) -> Seen | None:
        """Deal with one envelope from a relay; return its author, where that one wants an answer or was seen."""
        return self._receiver.receive(raw, now)

    def receiving_rests_us(self, now: Now) -> int:
        """Return how long nothing more may be received (`link/rates.py`, rule 4); 0 where something may."""
        return self.state.rates.wait_us(now.monotonic_us)

    def set_aside(self, raw: bytes, now: Now) -> DeviceKey | None:
        """Keep an envelope's message for a person, as dealing with it brought out a defect; return whose it was."""
        return self._receiver.set_aside(raw, now)

    def send_blob(
        self, group_id: GroupId, content: bytes, now: Now, to: DeviceKey | None = None, lifetime_us: int | None = None
    ) -> int:
        """Queue one separately sealed blob for a member, or for every other one (001.01, 001.03); return for how many.

        Boards are sent to only by name, and listen to their collector alone. A blob that outlives its lifetime is
        dropped (`SendQueue.expire`), and its recipient gets a loss record.

        Raises:
            LocalError: too large, or the outbox is full: then the caller rolls back, and nothing was queued.
            NotAMemberError: `to` is nobody else in the group.
            UnknownGroupError: this device is not in the group.
        """
        group = self.groups.group(group_id)
        recipients = blob_recipients(group, self.identity.signing_public, to)
        if len(content) > (
            MAXIMUM_BOARD_BLOB_BYTES if any(each.is_board for each in recipients) else MAXIMUM_BLOB_BYTES
        ):
            raise LocalError(
                f"a blob must have at most {MAXIMUM_BLOB_BYTES} bytes, for a board {MAXIMUM_BOARD_BLOB_BYTES}"
            )
        for recipient in recipients:
            key = recipient.keys.signing_public
            self._queue.queue(key, MessageType.BLOB, group_id, content, now, lifetime_us=lifetime_us)
        return len(recipients)

    def forward(
        self, board: DeviceKey, recipient: DeviceKey, envelope: bytes, now: Now, *, is_alarm: bool = False
    ) -> bool:
        """Queue an envelope of a board that hangs on this device (`forwarding.py`), which the board may call an alarm.

        Return whether it goes as one (rule 6).

        Raises:
            LocalError: not for that recipient.
            OutboxFullError: there is no room: then the caller rolls back, and keeps the envelope.
        """
        group = check_forward(self.groups, board, recipient, envelope)
        if recipient != self.identity.signing_public:
            body = Forward(recipient, envelope).to_wire()
            is_alarm = is_alarm and self.routes.takes_alarm(board, len(body), self._records.outbox, now)
            kind = MessageType.FORWARD
            self._queue.queue_telemetry(recipient, kind, group.group_id, body, now, is_alarm=is_alarm)
        elif not self._receiver.receive_from(recipient, envelope, now):
            raise OutboxFullError("the outbox has no room for a board's message")
        self._records.counters.count("forwarded_envelopes")
        return is_alarm

    def hand_to_boards(self, now: Now) -> None:
        """Put what there is for boards that hang on this device into `routes` (`take`): no relay is needed for it.

        What leads to another gateway as well is dropped: the board repeats itself there.
        """
        waited_for = self.state.windows.on_line(self.routes.on_line, now)
        for _ in self._about_links(now, self._hangs_here):
            continue
        for board in filter(self._hangs_here, waited_for):
            for outgoing in self._sender.envelopes_to(board, now, KEPT_OF_ONE):
                if not self.routes.may_keep(self.identity.signing_public, board):
                    break
                for _ in self._routing.of(self.groups, outgoing, now):
                    continue

    def _hangs_here(self, device: DeviceKey) -> bool:
        return board_member(self.groups, device) is not None and self.routes.leads_here(device, self.identity)

    def withdraw(self, recipient: DeviceKey, place: Place, now: Now) -> None:
        """Set a message aside that no relay takes; its recipient gets a loss record. Inside a transaction."""
        self._queue.withdraw(recipient, place, now)

    def waits_for_a_relay(self, entry: InFlight) -> bool:
        """Say whether a message is to wait, where none takes it, for one that does (`membership/expiry.py`, rule 5)."""
        return is_departure_notice(self.groups, read_message(entry.message, verify=False))

    def envelopes_to_send(self, now: Now) -> Iterator[Outgoing]:
        """Yield sealed envelopes: acknowledgements that are due, then each link's messages.

        A caller whose relay is full just stops iterating.
        """
        yield from self._about_links(now)
        for collector, body in self.heartbeat.due(self.groups, now):
            heads = self.heads.said_to(collector)
            said = self._routing.unsequenced(self.groups, collector, MessageType.PRESENCE, body, now, heads=heads)
            yield from said if self.heartbeat.stays else (replace(each, lifetime_s=0) for each in said)
        for member, body, keys in self.heads.due(now) if self.state.windows.is_connected else ():
            heads, kind = self.heads.said_to(member), MessageType.HEADS
            kept_s = self._kept_s(HEADS_CALM_US, now)  # another report says it again
            for key in keys:
                said = self._routing.unsequenced(self.groups, member, kind, body, now, heads=heads, sealed_for=key)
                yield from (replace(each, lifetime_s=each.lifetime_s or kept_s) for each in said)
        for member, group_id, body in self.ephemeral.due(now):
            said = self._routing.unsequenced(self.groups, member, MessageType.EPHEMERAL, body, now, heads=group_id)
            yield from (replace(each, lifetime_s=EPHEMERAL_US // 1_000_000) for each in said)
        for outgoing in self._sender.envelopes(now, lambda device: not self._hangs_here(device)):
            yield from (self._resent(each, now) for each in self._routing.of(self.groups, outgoing, now))
        for member, group_id, kind, body in self.content.due(now) if self.state.windows.is_connected else ():
            said = self._routing.unsequenced(self.groups, member, kind, body, now, heads=group_id)
            yield from (replace(each, lifetime_s=CONTENT_EXPIRY_S) for each in said)
        if self.state.windows.is_connected and (mailboxes := self.mailboxes.exchange) is not None:
            for device in mailboxes.due_topics():
                yield Outgoing(wake_topic(device), b"", device, None, CONTENT_EXPIRY_S)
            for device, group_id, message in mailboxes.due(now):
                body = message.to_wire()
                said = self._routing.unsequenced(self.groups, device, MessageType.MAILBOX, body, now, heads=group_id)
                yield from (replace(each, lifetime_s=CONTENT_EXPIRY_S) for each in said)

    def pass_over(self) -> None:
        """Have `envelopes_to_send` continue with another window than that of the last envelope."""
        self._sender.pass_over()

    def _resent(self, outgoing: Outgoing, now: Now) -> Outgoing:
        """Let a relay keep a resend until the next one only: a recipient that sleeps would get, and pay, all of them
        (ADR 123).

        The relay keeps the first copy as long as it likes. If it has lost it, it always has a resend.
        """
        entry = outgoing.entry
        if entry is None or not entry.sends or outgoing.lifetime_s:
            return outgoing
        next_us = self.state.windows.next_retry_us(outgoing.recipient, entry)
        waits_us = RETRY_US_MAX if next_us is None else next_us - now.monotonic_us
        return replace(outgoing, lifetime_s=self._kept_s(waits_us, now))

    def _kept_s(self, repeated_us: int, now: Now) -> int:
        """Return how long a relay keeps, in seconds, what is sent again after a time, or in the next window."""
        next_copy_us = self.state.presence.next_copy_us or 0
        return (max(repeated_us, next_copy_us - now.monotonic_us) + RESEND_KEPT_US) // 1_000_000

    def _about_links(self, now: Now, wanted: Callable[[DeviceKey], bool] = lambda _: True) -> Iterator[Outgoing]:
        present = None
        for author, incarnation, link in self._links.due(now.monotonic_us, wanted):
            present = present or self._records.incarnations.present()
            repeated = self._imprints.repeated(link, now.monotonic_us)
            acknowledgement = self._imprints.acknowledgement(author, incarnation, link, repeated)
            if board_member(self.groups, author) is not None:
                acknowledgement = Acknowledgement(incarnation, acknowledgement.received)
            body, heads = acknowledgement.to_wire(), self.heads.said_to(author)
            yield from self._routing.unsequenced(self.groups, author, MessageType.ACK, body, now, present, heads=heads)
        for author, incarnation, body in self._acknowledgements.resumptions(wanted):
            yield from self._routing.unsequenced(self.groups, author, MessageType.RESUME, body, now, incarnation)

    def make_acknowledgements_due(self, now: Now) -> None:
        """Have acknowledgements that wait for others to join them go at once: this process is about to end."""
        self._links.make_due(now.monotonic_us)

    def next_event(self) -> Event | None:
        """Return what happened, oldest first."""
        found = self.membership.events.next()
        return found or (self._events.popleft() if self._events else None)

    # -- what relays say ----------------------------------------------------------------------------------------------

    def connected(self, now: Now) -> None:
        """Note that a relay can be reached, after a time without any."""
        self.state.windows.connected(now)
        if self.state.aged_at_us is None:
            self.state.aged_at_us = now.monotonic_us
        self._links.connected(now)
        if (mailboxes := self.mailboxes.exchange) is not None:
            mailboxes.connected(now)

    def connection_lost(self, relay: str | None = None) -> None:
        """Note that a relay cannot be reached any more, while others can; without a name, that none can."""
        self.state.windows.connection_lost(relay)

    def sent(self, outgoing: Outgoing, now: Now, relay: str = "") -> None:
        """Note that a relay took an envelope."""
        self.state.traffic.count_sent(kind_of_outgoing(outgoing), len(outgoing.envelope))
        if outgoing.entry is None:
            return
        if outgoing.entry.sends == 0:
            self.heartbeat.spoke(outgoing.recipient, now)
        self.state.windows.sent(outgoing.recipient, outgoing.entry, now, relay)

    def relayed(self, recipient: DeviceKey, place: Place) -> None:
        """Note that a relay says it has stored an envelope."""
        self.state.windows.relayed(recipient, place)

    def nobody_listens(self, recipient: DeviceKey) -> None:
        """Note that a relay knows of nobody who would get what is sent to a recipient, which is a hint at most."""
        if (mailboxes := self.mailboxes.exchange) is not None:
            mailboxes.nobody_listens(recipient)

    def retries(self, outgoing: Outgoing) -> int:
        """Return how often in a row a recipient has left the retry time of such an envelope without an answer."""
        return self.state.windows.retries(outgoing.recipient, outgoing.entry)

    def last_will(self, now: Now) -> LastWill | None:
        """Return the will of the next connection, sealed; None where nobody is to have one."""
        return self.heartbeat.last_will(self.groups, now)

    # -- what is due --------------------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """Return when `handle_deadline` and `envelopes_to_send` should be called next.

        While unconnected, when what boards on lines of this device were handed is to go again.
        """
        deadlines = self.state.windows.deadlines()
        if not self.state.windows.is_connected:
            return min((deadline for deadline in deadlines if deadline is not None), default=None)
        deadlines += self._links.deadlines()
        deadlines += [self._group_maintenance.next_deadline(), self.heartbeat.next_deadline()]
        deadlines += [self.heads.next_deadline(), self.content.next_deadline()]
        deadlines += [] if (mailboxes := self.mailboxes.exchange) is None else [mailboxes.next_deadline()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def handle_deadline(self, now: Now) -> None:
        """Begin the retries that are due."""
        if self.state.windows.is_connected:
            self._links.online(now)
        longest_us = self.heartbeat.asleep_us(now) | self.groups.addresses.longest_retries_us(now.wall_us)
        self.state.windows.handle_deadline(now, self._jitter, longest_us)

    def has_work(self, now: Now) -> bool:
        """Say whether `maintain` has something to do."""
        return (
            now.monotonic_us >= self._maintenance_at_us
            or self.state.link_keys.wanted
            or self.heartbeat.has_work(now)
            or self._links.has_work
            or self._collectors.has_work(now)
            or self._group_maintenance.has_work(self.membership, now)
            or self._group_messages.has_work
            or self._left.may_go
            or self.history.exchange.has_work(now)
            or self.newcomers.has_work(now)
            or self.content.has_work()
        )

    def maintain(self, now: Now) -> None:
        """Do what is due in groups: end conflicts, ask for what is missing, give up what has waited too long.

        Writes, so inside a transaction.
        """
        if now.monotonic_us >= self._maintenance_at_us:
            more = self._expire(now)
            self._maintenance_at_us = now.monotonic_us + (EXPIRE_NEXT_US if more else MAINTENANCE_US)
            self._events += give_up(self.membership, self._records, self._queue, now)
            self._queue.report_losses(now)
            self._forget_link_keys(now)
        if self._left.may_go:
            self._left.erase(self._records, self._queue, now)
        self._links.reacknowledge(now)
        self._sender.begin_links(lambda device: may_link(self.groups, device), now)
        self.actions.queue_sends(self._group_maintenance.handle_deadline(self.membership, now), now)
        if self._group_messages.has_work:
            outcome = self._group_messages.take_what_waited(now)
            self.actions.queue_sends(outcome.sends, now)
            self._events += outcome.events
        if self.history.exchange.has_work(now):
            self.history.exchange.maintain(now)
        self.newcomers.maintain(now)
        self._events += self.content.maintain(now)
        self.heartbeat.write(now)
        self._collectors.maintain(self.groups, now)

    def _expire(self, now: Now) -> bool:
        """Drop expired messages; return whether there are more. Age counts while this runs."""
        since_us = self.state.aged_at_us
        if since_us is not None:
            self._queue.grow_older(now.monotonic_us - since_us)
        self._after_commit(lambda: self._aged(now.monotonic_us))
        return self._queue.expire(now)

    def _aged(self, at_us: int) -> None:
        self.state.aged_at_us = at_us

    def _forget_link_keys(self, now: Now) -> None:
        """Delete the link keys that must not be used any more (`link_keys.py`, rule 6)."""

        def is_peer(device: DeviceKey) -> bool:
            return not self.groups.shares_nothing_with(device)

        noise_publics = {key.public for key in self.identity.noise.keys}
        self._records.link_keys.forget(is_peer, noise_publics, now.wall_us)
        self.state.link_keys.keep(is_peer)
        self.state.windows.keep(is_peer)


def kind_of_outgoing(outgoing: Outgoing) -> str:
    """Return what an envelope costs bytes for (`link/costs.py`)."""
    return RESENDS if outgoing.entry is not None and outgoing.entry.sends else purpose_of(outgoing)


def purpose_of(outgoing: Outgoing) -> str:
    """Return the kind of an envelope's message, whether or not it went before."""
    entry = outgoing.entry
    if entry is None:
        return kind_of(outgoing.kind)
    if entry.lane is Lane.HISTORY and type_of(entry.message) is MessageType.OPERATIONS:
        return CONTROL if is_urgent(entry.message) else HISTORY
    return ALARMS if entry.lane is Lane.ALARM else kind_of(type_of(entry.message))
