"""One device: the production runtime, roles, node and store; a clock, a disk and a process that can fail."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.sqlite.file.high_water_file import HighWaterFile
from covey.adapters.sqlite.store import SqliteStore
from covey.app.loop.group_teardown import GroupTeardown
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import AgentRole, Runtime
from covey.app.telemetry.collector import Collector
from covey.app.telemetry.node_keys import NodeKeys
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest
from covey.core.ids import INCARNATION_BYTES, DeviceKey, GroupId, Incarnation, Place, inbox_name, node_id
from covey.core.link.link_keys import LinkTerms
from covey.core.node import Node
from covey.core.now import Now
from covey.core.pairing.invite import Invite
from covey.core.wire.message import MessageType, read_message
from covey.errors import CoveyError, LocalError, StorageError, UnknownGroupError
from covey.limits.vault import SEGMENT_US
from covey.ports import RelayEvent
from tests.fleet import NodeMaker
from tests.sim.agenda import SECOND
from tests.sim.broker import Broker, Link
from tests.sim.disk import Disk
from tests.sim.ledger import Backup, Submission, check
from tests.sim.store import SimStore
from tests.sim.template import JOINER

if TYPE_CHECKING:
    from tests.sim.world import World

_EPOCH_US = 1_790_000_000 * SECOND
_POLL_US = 60 * SECOND
"""The runtime looks four times a second; nothing may depend on that."""
_PAUSE_US = 1_000
_IDLE_TURNS = 200
_LINK_TERMS = LinkTerms(after=2, envelopes=20)
"""Links early, and new ones often."""


class CrashError(BaseException):
    """The process is gone. Nothing may catch this but the world."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that an application asks for: a blob for everybody, or a batch for the collector."""

    body: bytes
    telemetry: bool


class Clock:
    """`covey.ports.Clock`: monotonic since boot; a wall clock that may be years off."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._booted_us = world.agenda.now_us
        self._boot_id = world.rng(8)
        self.skew_us = 0

    def monotonic_us(self) -> int:
        """Return the time since boot."""
        return self._world.agenda.now_us - self._booted_us + SECOND

    def wall_us(self) -> int:
        """Return the date as this machine believes."""
        return _EPOCH_US + self._world.agenda.now_us + self.skew_us

    def synchronised(self) -> bool:
        """Return whether the date is right."""
        return self.skew_us == 0

    def boot_id(self) -> bytes:
        """Return the boot's id."""
        return self._boot_id


class Application:
    """A role that submits what is pending, as sensors do: in the agent's own process."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def turn(self, node: Node, now: Now) -> int | None:
        """Submit; a full disk leaves it for the next turn, a refusal is final."""
        device = self._device
        while device.pending:
            device.submit(device.store, node, device.pending[0], now)
        return None

    def stop(self, node: Node, now: Now) -> None:
        """Satisfy the protocol."""


class Device:
    """One member of the world."""

    def __init__(
        self, world: World, brokers: Sequence[Broker], name: str, identity: Identity, disk: Disk, *, collects: bool
    ) -> None:
        self.world = world
        self.name = name
        self._nodes = NodeMaker(identity, world.random, collects, terms=_LINK_TERMS)
        self.identity = identity
        self.node_id = node_id(identity.signing_public)
        self.disk_full = False
        self.reserved = False
        self.alive = False
        self.boots = 0
        self.pending: list[Action] = []
        self.asked = False
        """Whether it has asked to be let in."""
        self.skew_us = 0
        self.incarnation = Incarnation(b"")
        self.store: SimStore
        self._disk = disk
        self._clock = Clock(world)
        self._other: SimStore | None = None
        self._backup: tuple[Disk, Backup, list[bytes]] | None = None
        self._was_copied = False
        self._renews = False
        self._beside_disk = tempfile.TemporaryDirectory() if world.loses_commits else None
        self._runtime: Runtime | None = None
        self._events: list[RelayEvent] = []
        self._wake = 0
        self._idle_turns = 0
        client = inbox_name(identity.signing_public)
        self.links: Sequence[Link] = [world.link_class(world, broker, client, self._take_event) for broker in brokers]

    # -- life ---------------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the process."""
        world = self.world
        self.alive = True
        self.boots += 1
        self._clock = Clock(world)
        self._clock.skew_us = self.skew_us
        self.store = self._open(crashes=True)
        self.incarnation = self.store.incarnations.present()
        try:
            roles: list[AgentRole] = [Application(self)]
            if self._nodes.collects:
                roles.append(self._collector())
            if world.governed is not None:
                roles.append(GroupTeardown(self.store))
            self._runtime = self._make_runtime(self.store, roles)
        except StorageError as error:
            self._report("error", f"did not start: {error}")
            self._bury(5 * SECOND)
            return
        except CrashError:
            self._bury(world.random.randint(SECOND // 10, 30 * SECOND))
            return
        for link in self.links:
            link.begin()
        self.wake(0)

    def _make_runtime(self, store: SimStore, roles: list[AgentRole]) -> Runtime:
        relays = Relays(self.links)
        return Runtime(store, relays, self._clock, lambda state: self._nodes.make(store, state), roles, self._report)

    def _collector(self) -> Collector:
        world, objects = self.world, self.world.objects
        keys = NodeKeys(self.identity, world.vault_keys, self.store, objects, objects.key_chance.randbytes)
        return Collector(self.identity, keys, self.store, objects, world.rng, SEGMENT_US, self._report)

    def _open(self, *, crashes: bool) -> SimStore:
        """Open the state as `adapters/sqlite/file/state_file.py` does, which knows a copy by its mark and inode."""
        file = HighWaterFile(Path(self._beside_disk.name) / self.name) if self._beside_disk is not None else None
        store = SimStore(self._disk, Incarnation(self.world.rng(INCARNATION_BYTES)), self, file, crashes=crashes)
        if self._beside_disk is not None:
            with SqliteStore.transaction(store):
                said = store.high_water.said()
                if store.high_water.is_behind(said):
                    lost = store.high_water.recover(said, Incarnation(self.world.rng(INCARNATION_BYTES)))
                    self.world.trace(self.name, lost.line())
                store.high_water.begin()
        if self._renews:
            with SqliteStore.transaction(store):
                store.incarnations.renew(Incarnation(self.world.rng(INCARNATION_BYTES)))
            self._renews = False
        return store

    def groups(self) -> list[GroupManifest]:
        """Return what the running node believes of each group that it is in."""
        return [] if self._runtime is None else self._runtime.node.groups.joined()

    def back_up(self) -> None:
        """Copy the state as it is, once: a copy is worth having when it is old.

        Put back beside the file that says how far the state has come, it is a disk that has lost its last commits.
        """
        if self.alive and self._backup is None:
            backup = self.world.ledger.back_up(self.identity.signing_public)
            self._backup = (self._disk.copy(), backup, list(self.world.taken[self.name]))

    def restore(self, *, noticed: bool) -> None:
        """Put the copy in the place of the state. Unnoticed, it is a whole card that was written back."""
        if self._backup is None or not self.alive:
            return
        (disk, backup, taken), self._backup = self._backup, None
        if not noticed and self._was_copied:
            disk.close()
            return  # one recipient may make a device doubt itself once a day
        self._was_copied |= not noticed
        self.world.trace(self.name, f"is restored, {'' if noticed else 'un'}noticed")
        self._bury(0, boots=False)
        self._disk.close()
        self._disk = disk
        self.world.taken[self.name] = taken
        reports = noticed and self._beside_disk is not None
        self.world.ledger.restore(self.identity.signing_public, backup, noticed=noticed, reports=reports)
        self._renews = noticed and self._beside_disk is None
        self.world.agenda.after(self.world.random.randint(0, 30 * SECOND), self.boot)

    def lose_state(self) -> None:
        """Lose the database, and be down: keys and vault are all that is left."""
        self.world.trace(self.name, "loses its database")
        self._bury(0, boots=False)
        self._disk.close()
        self._disk = Disk(self.world.template.states[JOINER])
        self.world.taken[self.name] = []
        self.world.ledger.lose(self.identity.signing_public)
        self._renews = True

    def boundary(self) -> None:
        """Perhaps end the process here: beside a commit, or beside a write to the vault."""
        if self.alive and self.world.happens(self.world.plan.crash):
            self.alive = False
            self._vanish()
            raise CrashError

    def jump_clock(self, by_us: int) -> None:
        """Set the wall clock wrong, for good."""
        self.skew_us = self._clock.skew_us = by_us

    def sleep(self, pause_us: int) -> None:
        """Be off for a while."""
        self._bury(pause_us)

    def _bury(self, pause_us: int, *, boots: bool = True) -> None:
        self.alive = False
        self._vanish()
        self._close()
        self._runtime = None
        self._events.clear()
        self._wake += 1
        self.world.trace(self.name, "is down")
        if boots:
            self.world.agenda.after(pause_us, self.boot)

    def _vanish(self) -> None:
        for link in self.links:
            link.vanish()

    def throw_away(self) -> None:
        """End what is open."""
        self._close()
        self._disk.close()
        if self._beside_disk is not None:
            self._beside_disk.cleanup()
        if self._backup is not None:
            self._backup[0].close()

    def _close(self) -> None:
        if self.boots:
            self.store.close()
        if self._other is not None:
            self._other.close()
            self._other = None

    def _report(self, level: str, line: str) -> None:
        self.world.trace(self.name, f"{level}: {line}")
        check("defect" not in line, f"{self.name}: {line}")

    # -- turns --------------------------------------------------------------------------------------------------------

    def _take_event(self, event: RelayEvent) -> None:
        if self.alive:
            self._events.append(event)
            if len(self._events) == 1:  # what comes until then belongs to the same turn
                self.wake(self.world.random.randint(0, self.world.plan.turn_us))

    def wake(self, delay_us: int) -> None:
        """Turn after a while, or at once; an earlier appointment is dropped."""
        self._wake += 1
        appointment = self._wake
        self.world.agenda.after(delay_us, lambda: self._turn() if appointment == self._wake else None)

    def _turn(self) -> None:
        if not self.alive or self._runtime is None:
            return
        events, self._events = self._events, []
        published = self._published()
        try:
            deadline = self._runtime.turn(events)
        except CrashError:
            self._bury(self.world.random.randint(SECOND // 10, 30 * SECOND))
            return
        delay_us = self._poll_us
        if deadline is not None:
            delay_us = min(delay_us, max(0, deadline - self._clock.monotonic_us()))
        self._check_busy(delay_us, idle=not events and published == self._published())
        self.wake(0 if self._events else max(self._pause_us, delay_us))  # the turn itself may end a connection

    @property
    def _poll_us(self) -> int:
        """How long a turn is away at most."""
        return _POLL_US

    @property
    def _pause_us(self) -> int:
        """How long a turn is away at least, if no event comes."""
        return _PAUSE_US

    def _published(self) -> int:
        return sum(link.publishes for link in self.links)

    def _check_busy(self, delay_us: int, *, idle: bool) -> None:
        """The loop may not spin: a turn that is due at once must have something to do."""
        self._idle_turns = self._idle_turns + 1 if idle and not delay_us else 0
        check(self._idle_turns < _IDLE_TURNS, f"{self.name} spins")

    # -- applications -------------------------------------------------------------------------------------------------

    def submit(self, store: SimStore, node: Node, action: Action, now: Now) -> None:
        """Hand something over in one commit; what the commit holds is accepted."""
        world = self.world
        me = self.identity.signing_public
        try:
            with store.transaction():
                if action.telemetry:
                    node.telemetry.send(world.group_id, action.body, 1, now)
                    recipients = {world.collector.identity.signing_public}
                else:
                    node.send_blob(world.group_id, action.body, now)
                    members = node.groups.group(world.group_id).members
                    recipients = {member.keys.signing_public for member in members} - {me}
                submission = Submission(me, frozenset(recipients), action.telemetry)
                store.on_commit(lambda: self._accepted(action, submission))
        except (LocalError, UnknownGroupError) as error:
            self._done(action)
            world.ledger.refused += 1
            world.trace(self.name, f"refused: {error}")

    def _accepted(self, action: Action, submission: Submission) -> None:
        self._done(action)
        self.world.ledger.accept(action.body, submission)

    def _done(self, action: Action) -> None:
        if self.pending and self.pending[0] is action:
            self.pending.pop(0)

    def in_another_process(self, work: Callable[[SimStore, Node, Now], None]) -> None:
        """Do what a command does beside the running agent: another connection, another node."""

        def with_node(store: SimStore) -> None:
            work(store, self._nodes.make(store), Now(self._clock.monotonic_us(), self._clock.wall_us()))

        self._beside(with_node)

    def _beside(self, work: Callable[[SimStore], None]) -> None:
        if self._other is None:
            self._other = self._open(crashes=False)
        try:
            work(self._other)
        except CoveyError as error:
            self.world.trace(self.name, f"a command failed: {error}")
        self.wake(self.world.random.randint(0, 250_000))

    def receive(self, limit: int) -> list[bytes]:
        """Take blobs, as `covey message receive` does."""
        taken: list[bytes] = []

        def work(store: SimStore) -> None:
            for identifier, _, _, _, _, body in store.inbox.arrived(limit):
                with store.transaction():
                    store.inbox.consume(identifier)
                    store.on_commit(lambda body=body: taken.append(body))

        self._beside(work)
        return taken

    def join(self, inviter: Device, *, of_a_fleet: bool = False) -> None:
        """Ask the inviter to be let in, by itself or together with others of a fleet."""
        invites: list[Invite] = []

        def invite(store: SimStore, node: Node, now: Now) -> None:
            with store.transaction():
                prepared_for = self.name if of_a_fleet else None
                opened = node.joining.invite(
                    self.world.group_id, (), "mqtt://sim", now.wall_us, prepared_for=prepared_for
                )
                store.on_commit(lambda: invites.append(opened))

        def ask(store: SimStore, node: Node, now: Now) -> None:
            with store.transaction():
                node.actions.request_join(invites[0], self.name, now)
                store.on_commit(lambda: setattr(self, "asked", True))

        inviter.in_another_process(invite)
        if invites:
            self.in_another_process(ask)

    # -- the end ------------------------------------------------------------------------------------------------------

    def is_member(self) -> bool:
        """Say whether it is in the world's group, as it believes."""
        return any(group == self.world.group_id for group, _, _ in self.store.groups.manifests())

    def _waits_in_vain(self, recipient: DeviceKey) -> bool:
        """Say whether nothing waits for a recipient but what is of a group that it is out of, or takes to be destroyed.

        It takes no notice of it; its members repeat that for a day, and a removed device hears of it for 30. Who has
        banned the issuer of a destruction keeps the group with those who obeyed, until its person removes them; these,
        and who was banned, tell of the destruction for a day. What a link tells of itself goes before all that.
        """
        governed = self.world.governed
        if governed is None:
            return False
        own, obeyed = self.identity.signing_public, governed.has_obeyed(recipient)
        if not (obeyed or governed.is_out(recipient) or governed.is_out(own) or governed.has_obeyed(own)):
            return False
        rows = self.store.outbox.queued(recipient, Place(0), 1_000, 1_000_000)
        messages = [read_message(raw, verify=False) for _, raw in rows]
        news, links = {MessageType.REVOKE, MessageType.GROUP_MANIFEST}, {MessageType.LINK, MessageType.LOSS}
        return all(
            each.type in links or (each.group_id == governed.group_id and (obeyed or each.type in news))
            for each in messages
        )

    def is_out_of(self, group_id: GroupId) -> bool:
        """Say whether the running node knows a group, and that it is no member of it."""
        trust = None if self._runtime is None else self._runtime.node.groups.trust_of(group_id)
        current = None if trust is None else trust.current
        return current is not None and current.member(self.identity.signing_public) is None

    def epoch_of(self, group_id: GroupId) -> int:
        """Return the epoch that the next manifest of a group follows, as far as the running node knows."""
        assert self._runtime is not None
        return self._runtime.node.groups.trust(group_id).epoch

    def sends_what_is_gone(self) -> bool:
        """Say whether the running node goes on sending what its queue does not hold."""
        windows = self._runtime.node.state.windows.in_flight() if self._runtime is not None else []
        return any(self.store.outbox.missing(recipient, places) for recipient, places in windows)

    def quiet(self) -> bool:
        """Say whether nothing is left to do here."""
        if not self.alive or self.pending or not all(link.up for link in self.links):
            return False
        known = {device.identity.signing_public for device in self.world.devices}
        waiting = known.intersection(self.store.outbox.recipients())  # nobody else answers
        waiting = {each for each in waiting if not self._waits_in_vain(each)}
        return not waiting and (not self._nodes.collects or self.store.landing.size() == 0)
