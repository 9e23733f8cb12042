"""The loop: input → node → commit → release.

One thread owns the node and the store. Relays put their events into one queue; a turn takes what is there, lets the
node write in one transaction, commits, and only then answers the relay and publishes. Other processes of this device
(`covey message send`) write to the same store; the loop notices by SQLite's data version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, Queue
from threading import Event
from typing import TYPE_CHECKING, Protocol

from covey.app.loop.deliveries import Deliveries, DroppedLines
from covey.app.loop.link_windows import RESTING
from covey.app.loop.relays import Relays
from covey.app.wording import count
from covey.core.content.events import FileArrived, FileDamaged, FileRefused
from covey.core.events import (
    BlobArrived,
    EnvelopeDropped,
    Happening,
    HistoryForked,
    HistoryGrew,
    NotUnderstood,
    RollbackDetected,
)
from covey.core.group.device_labels import DeviceLabels
from covey.core.group.policy import Action
from covey.core.ids import DeviceKey, device_name, labelled_name
from covey.core.link.budget import URGENT
from covey.core.link.queued import Lane
from covey.core.link.sealer import Outgoing
from covey.core.link.send_window import InFlight
from covey.core.link.state import LinkState
from covey.core.membership.events import (
    GroupChanged,
    GroupDestroyed,
    GroupInvited,
    InviteRequested,
    JoinExpired,
    JoinRefused,
    RemovedFromGroup,
    VoteCast,
)
from covey.core.node import Node, purpose_of
from covey.core.now import Now
from covey.core.wire.topics import is_rendezvous
from covey.errors import ConstraintError, DamagedStateError, StorageError
from covey.limits.link import POISON_TRIES
from covey.ports import (
    Clock,
    Delivered,
    PublishRefusal,
    RelayDown,
    RelayEvent,
    RelayUp,
    Released,
    Report,
)

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.adapters.systemd import Systemd
    from covey.app.loop.link_windows import LinkWindows


_POLL_US = 250_000
"""How soon a message queued by another process is noticed; four look-ups a second cost nothing measurable."""

_GATHER_US = 25_000
"""Between two turns that take messages, at least: where they come one by one, most of what one costs is its commit."""

_TURN_EVENTS = 512
"""Events of one transaction: enough to share a sync among many, few enough to answer soon."""

_STALLED_US = 120_000_000
"""Connected, with something to send, and nothing moves for so long: twice the relay's keep-alive, which ends a
connection that is merely dead. Then the supervisor hears nothing more, and starts the agent again."""

_MIXED = frozenset({Lane.CONTROL, Lane.HISTORY})
"""The windows in which something urgent may come after a message that a budget lets wait."""

_SUCCESS = 0
_NOBODY_LISTENS = 0x10
"""MQTT 5: no matching subscribers."""
_REFUSES = 0x80
"""Reason codes from here on refuse (MQTT 5, section 2.4)."""
_UP = "up"
_CONNECTING = "connecting"
_ENDED = "not connected"
_REFUSED_SIZE = "refused size "
"""The condition that says which size a relay refuses; its name follows."""


class AgentRole(Protocol):
    """What an agent does beyond a plain member."""

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; return when to be called next, in monotonic microseconds."""

    def stop(self, node: Node, now: Now) -> None:
        """Bring what is open to a durable state."""


class Runtime:
    """One running agent."""

    def __init__(
        self,
        store: SqliteStore,
        relays: Relays,
        clock: Clock,
        make_node: Callable[[LinkState | None], Node],
        roles: Sequence[AgentRole],
        report: Report,
        supervisor: Systemd | None = None,
        rendezvous: Callable[[str, bytes], None] = lambda _topic, _payload: None,
        *,
        fresh_account: bool = False,
        windows: LinkWindows | None = None,
        may_spend: Callable[[str, int, Now], bool] = lambda _kind, _size, _now: True,
    ) -> None:
        """Begin with nothing connected; a relay may not know a `fresh_account` yet, which is no warning.

        With `windows` the relays are connected in these only. `may_spend(kind, bytes, now)` says what the budget
        allows.
        """
        self._windows = windows
        self._may_spend = may_spend
        self._store = store
        self._fresh_account = fresh_account
        self._rendezvous = rendezvous
        self._relays = relays
        self._clock = clock
        self._roles = roles
        self._report = report
        self._supervisor = supervisor
        self._moved_at = self._turned_at = 0
        self._relay_states: dict[str, str] = {}
        self._offline_since: int | None = None
        self._inputs: Queue[RelayEvent | None] = Queue()
        self._woken = Event()
        self._storage_fails = False
        self._make_node = make_node
        self._dropped_lines = DroppedLines(self._named)
        self._deliveries = Deliveries(store, relays, self._replace_node, report)
        self._noted_refusals: dict[str, tuple[int, int] | None] = {}
        self._restore_refusals()
        self.node = make_node(None)

    def run(self, until: Callable[[], bool]) -> None:
        """Run until the condition holds; it is asked after every turn, at least four times a second."""
        now = self._now()
        self._guarded(lambda: self._maintain(now))
        if self._windows is not None:
            self._windows.turn(self.node, now)  # what the will and the first beat say depends on the next one
        for name in self._relays.names:
            self._note_relay(name, _CONNECTING, now)  # what an earlier process has left there holds no more
            self._relays.set_will(name, self.node.last_will(now))
        deadline = self.turn([])  # a role that serves others, as a mailbox does, does so before the first message comes
        self._relays.start(self._inputs.put)
        try:
            while not until():
                deadline = self.turn(self._wait(deadline))
                if self._supervisor is not None and self._moves():
                    self._supervisor.alive()
            if self._supervisor is not None:
                self._supervisor.stopping()
            self.finish()
            for name in self._relays.names:
                self._note_relay(name, _ENDED, self._now())
        finally:
            self._relays.stop()

    def wake(self) -> None:
        """Do a turn at once; called by any thread."""
        self._inputs.put(None)
        self._woken.set()

    def _now(self) -> Now:
        return Now(self._clock.monotonic_us(), self._clock.wall_us())

    def _wait(self, deadline: int | None) -> list[RelayEvent]:
        timeout_us = _POLL_US if deadline is None else min(_POLL_US, deadline - self._clock.monotonic_us())
        events: list[RelayEvent | None] = []
        try:
            if timeout_us > 0:
                events.append(self._inputs.get(timeout=timeout_us / 1e6))
            self._gather(events)
            while len(events) < _TURN_EVENTS:
                events.append(self._inputs.get_nowait())
        except Empty:
            pass
        return [event for event in events if event is not None]

    def _gather(self, events: list[RelayEvent | None]) -> None:
        """Wait briefly for further events, so that many messages share a turn and its commit."""
        missing_us = self._turned_at + _GATHER_US - self._clock.monotonic_us()
        if missing_us > 0 and any(isinstance(event, Delivered) for event in events):
            self._woken.wait(missing_us / 1e6)
        self._woken.clear()
        self._turned_at = self._clock.monotonic_us()

    def turn(self, events: list[RelayEvent]) -> int | None:
        """Take events in, commit, release; return when the next turn is due, in monotonic microseconds."""
        now = self._now()
        deadlines: list[int | None] = []
        self._guarded(lambda: self._take(events, now))
        for role in self._roles:
            self._guarded(lambda role=role: deadlines.append(role.turn(self.node, now)))  # type: ignore[misc]
        self._guarded(lambda: self._maintain(now))
        self.node.handle_deadline(now)
        self._guarded(lambda: self._release(now))
        if self._windows is not None:
            windows = self._windows
            self._guarded(lambda: deadlines.append(windows.turn(self.node, now)))
        self._report_events()
        if self._storage_fails:
            self._try_storage(now)
        deadlines.append(self._deliveries.next_deadline())
        if not self._relays.full(now.monotonic_us):  # what is due cannot go before a relay says something
            deadlines.append(self.node.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _moves(self) -> bool:
        """Return whether everything moves that should; offline, or waiting for a recipient or a full disk, is not
        stuck."""
        now = self._clock.monotonic_us()
        due = self.node.next_deadline()
        overdue = due is not None and due < now - _POLL_US
        stuck = self._relays.connected and not self._storage_fails and (self._relays.full(now) or overdue)
        if not stuck:
            self._moved_at = now
        return self._relays.alive() and now - self._moved_at < _STALLED_US

    def finish(self) -> None:
        """Bring to an end what is open: the last turn of this process."""
        for role in self._roles:
            self._guarded(lambda role=role: role.stop(self.node, self._now()))  # type: ignore[misc]
        now = self._now()
        self.node.make_acknowledgements_due(now)
        self.node.heartbeat.end()
        self._guarded(lambda: self._release(now))

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; if the disk refuses, continue with another node (ADR 4): nothing of the step was released."""
        try:
            step()
        except DamagedStateError:
            raise  # the next start saves what can be read
        except StorageError as error:
            if not self._storage_fails:
                self._report("error", f"{error}; the agent accepts nothing new until this is solved")
            self._storage_fails = True
            self._replace_node()
        except ConstraintError as error:
            self._report("error", f"{error}: a defect of Covey; the step was skipped")
            self._replace_node()
        else:
            if self.node.discarded:
                self._replace_node()

    def _replace_node(self) -> Node:
        """Make a node from the store and from what is in flight; uncommitted changes are gone."""
        self.node = self._make_node(self.node.state)
        return self.node

    def _try_storage(self, now: Now) -> None:
        try:
            with self._store.transaction():
                self._store.conditions.set("storage", "accepts writes again", now.wall_us)
        except StorageError:
            return
        self._storage_fails = False
        self._report("notice", "the disk accepts writes again")

    def _take(self, events: list[RelayEvent], now: Now) -> None:
        delivered = [event for event in events if isinstance(event, Delivered)]
        try:
            if self._store.changed_elsewhere():
                self.node.refresh()
                if self._windows is not None:
                    self._windows.changed_elsewhere(now)
            self._deliveries.add([event for event in delivered if not is_rendezvous(event.topic)])
            for event in delivered:
                if is_rendezvous(event.topic):
                    self._rendezvous(event.topic, event.payload)
                    self._relays.acknowledge(event)
            self._deliveries.receive(self.node, now)
        finally:
            for other in events:
                self._take_relay_news(other, now)

    def _maintain(self, now: Now) -> None:
        if self.node.has_work(now):
            with self._store.transaction():
                self.node.maintain(now)

    def _take_relay_news(self, event: RelayEvent, now: Now) -> None:
        if self._windows is not None and not isinstance(event, RelayDown):
            self._windows.moved(now)
        if isinstance(event, RelayUp):
            self._moved_at = now.monotonic_us
            if not self._relays.connected:
                self.node.connected(now)
            self._relays.came_up(event.relay, event.maximum_payload)
            self.node.state.carriage.maximum_payload = self._relays.maximum_payload
            self.node.heartbeat.connected(event.relay, event.connection)
            self._relays.set_will(event.relay, self.node.last_will(now))  # for the connection after this one
            self._note_relay(event.relay, _UP, now)
        elif isinstance(event, RelayDown):
            self._deliveries.forget(event.relay)
            refused_bytes = self._relays.went_down(event.relay, now.monotonic_us, too_large=event.too_large)
            self.node.connection_lost(event.relay if self._relays.connected else None)
            self.node.heartbeat.connection_lost(event.relay)
            self._relays.set_will(event.relay, self.node.last_will(now))  # to the collector of the moment
            state = RESTING if event.resting else event.reason
            self._note_relay(event.relay, state, now, awaited=event.refused and self._fresh_account)
            if event.up_s:
                self._guarded(lambda: self._note_connection(event, now))
            if refused_bytes is not None:
                self._note_refused_size(event.relay, refused_bytes, now)
            self._note_refusal(event.relay, now)
        elif isinstance(event, Released):
            self._moved_at = self._clock.monotonic_us()
            outgoing = self._relays.released(event)
            self._note_refusal(event.relay, now)
            if outgoing is None or outgoing.entry is None:
                return
            if event.reason_code == _SUCCESS:
                self.node.relayed(outgoing.recipient, outgoing.entry.place)
            elif event.reason_code == _NOBODY_LISTENS:
                self.node.nobody_listens(outgoing.recipient)
            elif event.reason_code >= _REFUSES and self._relays.gives_up(event.relay, outgoing):
                why = f"relay {event.relay} refuses it (reason 0x{event.reason_code:02x})"
                self._guarded(partial(self._give_up, outgoing, outgoing.entry, why, now))

    def _restore_refusals(self) -> None:
        """Restore the sizes that relays refused before this process began, so that none disconnects over them again."""
        for name, (value, _) in self._store.conditions.values().items():
            relay, words = name.removeprefix(_REFUSED_SIZE), value.split()
            if name.startswith(_REFUSED_SIZE) and len(words) == 2 and all(word.isdecimal() for word in words):
                self._relays.restore_refusal(relay, int(words[0]), int(words[1]), self._clock.monotonic_us())
                self._noted_refusals[relay] = int(words[0]), int(words[1])

    def _note_refusal(self, relay: str, now: Now) -> None:
        refusal = self._relays.refusal_of(relay)
        if refusal == self._noted_refusals.get(relay):
            return
        self._noted_refusals[relay] = refusal

        def note() -> None:
            with self._store.transaction():
                value = "" if refusal is None else f"{refusal[0]} {refusal[1]}"
                self._store.conditions.set(f"{_REFUSED_SIZE}{relay}", value, now.wall_us)

        self._guarded(note)

    def _note_refused_size(self, relay: str, size: int, now: Now) -> None:
        """Report a size over which a relay disconnects, and keep new messages below it."""
        self.node.state.carriage.maximum_payload = self._relays.maximum_payload

        def note() -> None:
            with self._store.transaction():
                most = str(self._relays.payload_of(relay))
                self._store.conditions.set(f"payload {relay}", most, now.wall_us)

        self._guarded(note)
        self._report(
            "warning",
            f"relay {relay} disconnects on messages of {size} bytes: messages of this size wait and are tried "
            "again later",
        )

    def _note_connection(self, event: RelayDown, now: Now) -> None:
        from covey.app.loop.takeovers import note_connection

        with self._store.transaction():
            note_connection(self._store.conditions, event.up_s, now.wall_us, taken_over=event.taken_over)

    def _note_relay(self, name: str, state: str, now: Now, *, awaited: bool = False) -> None:
        """Store a relay's state and since when; a lasting state is logged once, however often it is tried."""
        if state == self._relay_states.get(name):
            return
        before = self._reached()
        self._relay_states[name] = state
        offline_us = 0 if self._offline_since is None else now.monotonic_us - self._offline_since
        self._offline_since = None if self._reached() in {_UP, RESTING} else now.monotonic_us

        def note() -> None:
            with self._store.transaction():
                self._store.conditions.set(f"relay {name}", state, now.wall_us)
                if state == _UP:
                    self._store.conditions.set(f"payload {name}", str(self._relays.payload_of(name)), now.wall_us)
                if self._reached() != before:
                    self._store.conditions.set("relay", self._reached(), now.wall_us)
                if offline_us:
                    self._store.counters.count("offline_seconds", round(offline_us / 1e6))

        self._guarded(note)
        if state == _ENDED:
            return
        if self._supervisor is not None:
            self._supervisor.status(f"relay: {self._reached()}")
        which = "relay" if len(self._relays.names) == 1 else f"relay {name}"
        if state == _UP:
            self._report("info", f"{which}: connected")
        elif awaited:
            self._report("info", f"{which}: waiting until it knows the new account")
        elif state == RESTING:
            self._report("info", f"{which}: {state}")
        elif state != _CONNECTING:
            self._report("warning", f"{which}: {state}")

    def _reached(self) -> str:
        """Return how this device is connected: up if any relay is, else the preferred relay's state."""
        states = [self._relay_states[name] for name in self._relays.names if name in self._relay_states]
        return _UP if _UP in states else next(iter(states), "")

    def _release(self, now: Now) -> None:
        if not self._relays.connected or self._relays.full(now.monotonic_us):
            return
        too_large: list[Outgoing] = []
        urgent_waits = False  # for the budget: then nothing else uses what is left of it
        with self._store.reading():
            for outgoing in self.node.envelopes_to_send(now):
                purpose = purpose_of(outgoing)
                fits = self._may_spend(purpose, len(outgoing.envelope), now)
                if not fits or (urgent_waits and purpose not in URGENT):
                    urgent_waits = urgent_waits or purpose in URGENT
                    if outgoing.entry is not None and outgoing.entry.lane not in _MIXED:
                        self.node.pass_over()
                    continue  # what is in no window is made again when it is due next
                retries = self.node.retries(outgoing)
                result = self._relays.send(outgoing, retries, now.monotonic_us)
                if result is PublishRefusal.NOT_NOW:
                    continue
                if result is PublishRefusal.TOO_LARGE:
                    too_large.append(outgoing)
                elif isinstance(result, PublishRefusal):
                    break
                self.node.sent(outgoing, now, result if isinstance(result, str) else "")
                if self._windows is not None:
                    self._windows.moved(now)
        for outgoing in too_large:
            self._set_aside(outgoing, now)

    def _set_aside(self, outgoing: Outgoing, now: Now) -> None:
        """Give up a message that no relay accepts by its announced limit, so that later ones do not wait. If one
        announced too much, a number of tries decides."""
        entry, size = outgoing.entry, len(outgoing.envelope)
        if entry is not None and self.node.waits_for_a_relay(entry):
            if entry.sends == 1:
                self._report(
                    "warning", f"a notice of departure of {size} bytes waits for a relay that accepts this size"
                )
            return
        hopeless = not self._relays.carries(size)
        if entry is None or not (hopeless or (self._relays.complete and entry.sends >= POISON_TRIES)):
            self._report(
                "warning",
                f"the relay's size limit refuses a message of {size} bytes to {self._named(outgoing.recipient)}",
            )
            return
        self._give_up(outgoing, entry, "no relay takes it", now)

    def _give_up(self, outgoing: Outgoing, entry: InFlight, why: str, now: Now) -> None:
        """Quarantine one message, and report it."""
        if self.node.waits_for_a_relay(entry):
            return
        with self._store.transaction():
            self.node.withdraw(outgoing.recipient, entry.place, now)
        size, recipient = len(outgoing.envelope), self._named(outgoing.recipient)
        self._report("error", f"a message of {size} bytes to {recipient} was set aside: {why}")

    def _named(self, device: DeviceKey) -> str:
        return DeviceLabels(self.node.groups.joined()).named(device)

    def _report_events(self) -> None:
        now_us = self._clock.monotonic_us()
        arrived: dict[DeviceKey, list[int]] = {}
        while (event := self.node.next_event()) is not None:
            if isinstance(event, EnvelopeDropped):
                line = self._dropped_lines.dropped(event, now_us)
                if line is not None:
                    self._report("warning", line)
            elif isinstance(event, BlobArrived):  # a line of the journal for each would wear a card, too
                arrived.setdefault(event.author, []).append(event.size)
            else:
                self._report(*describe(event, DeviceLabels(self.node.groups.joined())))
        for author, sizes in arrived.items():
            what = "" if len(sizes) == 1 else f"{count(len(sizes), 'message')} of "
            line = f"{what}{sum(sizes)} bytes from {self._named(author)} have arrived"
            self._report("info", f"{line}: 'covey message receive'")
        for line in self._dropped_lines.due(now_us):
            self._report("warning", line)


def describe(event: Happening, labels: DeviceLabels) -> tuple[str, str]:
    """Return what happened as (level, one line for people), devices with what `labels` call them."""
    if isinstance(event, FileArrived | FileDamaged | FileRefused | HistoryGrew | HistoryForked):
        return _describe_content(event, labels)
    if isinstance(event, RollbackDetected):
        line = f"{labels.named(event.recipient)} holds messages that this state never sent"
        return "warning", f"{line}: it is an old copy; waiting messages are sent again, in a new incarnation"
    if isinstance(event, NotUnderstood):
        line = f"{labels.named(event.recipient)} set aside {count(event.messages, 'message')} of this device"
        return "warning", f"{line}: its Covey is too old for them; upgrade it"
    if isinstance(event, VoteCast | GroupInvited | InviteRequested | JoinExpired | JoinRefused):
        return _describe_question(event, labels)
    return _describe_change(event)


def _describe_content(
    event: FileArrived | FileDamaged | FileRefused | HistoryGrew | HistoryForked, labels: DeviceLabels
) -> tuple[str, str]:
    group = f"group {event.group_id.hex()[:8]}"
    if isinstance(event, HistoryGrew):
        return "info", f"{group}: {count(event.operations, 'operation')} from {labels.named(event.sender)}"
    if isinstance(event, HistoryForked):
        line = f"{labels.named(event.author)} wrote two operations under one number; both are kept"
        return "warning", f"{group}: {line}: its key may have been copied"
    if isinstance(event, FileArrived):
        source = "a nearby source" if event.holder is None else labels.named(event.holder)
        line = f"a file of {event.size} bytes is here, from {source}"
        return "info", f"{group}: {line}; 'covey file list' lists it"
    if isinstance(event, FileDamaged):
        line = f"the local copy of a file of {event.size} bytes was damaged; it is fetched again"
        return "warning", f"{group}: {line} ('covey file list --waiting')"
    line = f"a file that {labels.named(event.author)} offers does not match its description"
    return "warning", f"{group}: {line}, and was deleted"


def _describe_question(
    event: VoteCast | GroupInvited | InviteRequested | JoinExpired | JoinRefused, labels: DeviceLabels
) -> tuple[str, str]:
    group = f"group {event.group_id.hex()[:8]}"
    if isinstance(event, VoteCast):
        verb = "unban" if event.action is Action.UNBAN else "ban"
        target = event.target.hex() if event.action is Action.KEEP_OUT else device_name(event.target)
        whom = labelled_name(target, labels.label(event.target))
        line = f"{labels.named(event.voter)} votes to {verb} {whom}; to agree: covey group {verb} {target}"
        return "notice", f"{group}: {line}"
    if isinstance(event, GroupInvited):
        return "notice", f"{group}: {labels.named(event.inviter)} invites this device; to answer: covey request"
    if isinstance(event, InviteRequested):
        return "notice", f"{group}: {labels.named(event.device)} asks to be invited; to answer: covey request"
    if isinstance(event, JoinRefused):
        line = f"{labels.named(event.inviter)} has no such invite, or no longer; ask for a new one"
        return "warning", f"{group}: {line}"
    line = f"{labels.named(event.inviter)} did not answer while the invite was valid; ask for a new one"
    return "warning", f"{group}: {line}"


def _describe_change(event: GroupChanged | RemovedFromGroup | GroupDestroyed) -> tuple[str, str]:
    group = f"group {event.manifest.group_id.hex()[:8]}"
    if isinstance(event, RemovedFromGroup):
        return "warning", f"{group}: this device was removed"
    if isinstance(event, GroupDestroyed):
        issuer = DeviceLabels((event.manifest,)).named(event.issuer)
        return "warning", f"{group}: destroyed by {issuer}; this device deletes it once all members know"
    return "notice", f"{group}: {_change(event)}"


def _change(event: GroupChanged) -> str:
    version = event.manifest.version
    if event.joined:
        return f"joined at version {version}, {count(len(event.manifest.members), 'member')}"
    changes = "".join(
        f", {verb} " + ", ".join(labelled_name(member.name, member.label) for member in members)
        for verb, members in (("added", event.added), ("removed", event.removed))
        if members
    )
    return f"version {version}{changes}" + (
        "; members hold conflicting versions and will agree on one" if event.conflict else ""
    )
