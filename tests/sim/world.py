"""A seeded world: three members of a group, one of them a collector, around a broker or two, and everything that fails.

`run_seed` lets the faults of a plan rage for a while, then lets them cease, and checks that everything accepted has
come, once. What may never happen, whatever fails, is checked as it happens (`ledger.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest
from covey.core.link import queued, send_window
from covey.core.link.queued import Lane
from covey.core.node import Node
from covey.core.now import Now
from covey.limits.link import LINK_WINDOW_LIVE_MESSAGES
from covey.limits.pairing import INVITE_US
from tests.fleet import identity
from tests.sim.agenda import MINUTE, SECOND, YEAR, Agenda
from tests.sim.attacker import Attacker
from tests.sim.broker import Broker, Link
from tests.sim.device import Action, Device
from tests.sim.disk import Disk
from tests.sim.former_member import FormerMember
from tests.sim.governed import Governed
from tests.sim.insider import Insider
from tests.sim.ledger import MARK, Ledger, ViolationError, check, measured
from tests.sim.memory import Memory
from tests.sim.plan import Plan, draw
from tests.sim.store import SimStore
from tests.sim.template import GUEST, JOINER, MEMBERS, template
from tests.sim.vault_store import SimKeyFile, VaultStore

_PUBLISHES_BASE, _PUBLISHES_EACH, _PUBLISHES_START = 200, 10, 6
"""Most publishes of a seed: so many, with the history that a newcomer catches up with; and for each submission or
change and each of its recipients, with acknowledgements and whatever fails, and for each start, which acknowledges
every link anew. A storm of resends needs hundreds for each."""
_REPEATED, _REPEATED_SLOWLY, _SLOW_US = 1.4, 2.4, 400_000
"""More by a relay that takes one at a time: what waits for that goes again. Most where each takes two ways of up to so
long: a hundred wait there for a minute, which outlasts the first retries of each, and then they drain."""

_INSIDER_EACH, _FORMER_EACH = 7, 5
"""In one world of so many a member's keys are somebody else's, too, or a former member speaks. Their chance is their
own: the other worlds do not change."""
_HOSTILE_EVERY_US = 2 * SECOND
_MANIFESTS_BYTES = 1_200_000
"""What a relay takes where a group changes: one that takes no manifests ends every group."""
_PUBLISHES_PROVOKED = 8
"""Most publishes for each thing that they say: an answer, sent again while things fail, and acknowledgements."""

_RENAMED_EACH = 4
"""In one world of so many two members change their labels at once, again and again, which ends epochs."""
_RENAME_EVERY_US = 15 * SECOND

_GOVERNED_EACH, _GOVERNED = 13, 9
"""In one world of so many the devices are in a second group, too, in which admins vote and ban, and which is ended."""
_VOTE_EVERY_US = 10 * SECOND

_NARROW_EACH, _IS_NARROW = 5, 3
"""In one world of so many windows are narrow, so that a few messages are a backlog, and what is live overtakes it."""
_NARROW = {Lane.BULK: 2, Lane.LIVE: 1}

_HANGS_UP_EACH, _HANGS_UP = 7, 3
_HANGS_UP_BYTES = 1_700
"""In one world of so many the relays announce no limit and end the connection over an envelope above a size."""

_LOSS_EACH, _LOSES = 13, 5
"""In one world of so many the collector loses its database at the end of the faults."""
_QUEUED_MEANWHILE = 20
_REJOIN_US = 300 * SECOND
"""Most that being let in again takes where nothing fails: a slow broker may hold many envelopes before the answer."""

_LOST_EACH = 10
"""Most messages that are told as lost for each submission: one for each recipient, with control messages."""

_PATIENCE_US = 120 * MINUTE
"""How long after the last fault everything must have come: many of the longest retries."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a seed did."""

    accepted: int
    refused: int
    publishes: int
    quiet_us: int


class World:
    """Everything of one seed. `happens` and `random` are its only sources of chance."""

    device_class: type[Device] = Device
    link_class: type[Link] = Link
    broker_class: type[Broker] = Broker

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None, plan: Plan | None = None) -> None:
        """Draw a plan, and what else a seed's number brings; with a plan of its own a world is without the latter."""
        self.random = random.Random(seed)
        self.plan: Plan = draw(self.random) if plan is None else plan
        self.agenda = Agenda()
        governed = seed % _GOVERNED_EACH == _GOVERNED and not self.plan.joiner and plan is None
        self.template = template(governed=True) if governed else template()
        names = (*MEMBERS, JOINER) if self.plan.joiner else (*MEMBERS, GUEST) if governed else MEMBERS
        self.ledger = Ledger(frozenset(identity(name).signing_public for name in names))
        self.raging = True
        self.group_id = self.template.group_id
        self._trace = trace
        self._submitted = 0
        self.publishes = 0
        names_of_brokers = ("sim", "second")[: 2 if self.plan.second_relay else 1]
        self.brokers = [self.broker_class(self, name) for name in names_of_brokers]
        self.attacker = Attacker(self)
        self.vault_keys = SimKeyFile(self)
        self.objects = VaultStore(self)
        self.loses_commits = bool(self.plan.restore_every_us) and not self.plan.unnoticed and seed % 2 == 1
        self.devices: list[Device] = []
        for name in names:
            disk = Disk(self.template.states[name])
            brokers = self.brokers[-1:] if name == "ben" else self.brokers  # who can be reached by a way round alone
            collects = name == "collector"
            self.devices.append(self.device_class(self, brokers, name, identity(name), disk, collects=collects))
        self.collector = self.devices[2]
        self.insider = Insider(self, self.devices[1], random.Random(f"insider {seed}"))
        self._renames = seed % _RENAMED_EACH == 1 and plan is None
        self._gathers = seed % 2 == 1
        self._changes = 0
        self.former = FormerMember(self, random.Random(f"former {seed}"))
        self._hostile: list[Insider | FormerMember] = []
        if seed % _INSIDER_EACH == _INSIDER_EACH - 1 and plan is None:
            self._hostile.append(self.insider)
        if seed % _FORMER_EACH == _FORMER_EACH - 1 and plan is None:
            self._hostile.append(self.former)
        self.governed = Governed(self, random.Random(f"governed {seed}")) if governed else None
        self.provoked = 0
        if self.plan.joiner or self._renames or governed:
            self.plan = replace(self.plan, payload_most=_MANIFESTS_BYTES)
        loses = seed % _LOSS_EACH == _LOSES and plan is None
        self._loses_state = loses and not self._hostile and not self.plan.joiner
        changes = self.plan.joiner or self._renames or governed or self.plan.restore_every_us or self._loses_state
        hangs_up = seed % _HANGS_UP_EACH == _HANGS_UP and not changes and not self._hostile and plan is None
        self.hangs_up_bytes = _HANGS_UP_BYTES if hangs_up else self.plan.payload_most
        self.hang_ups = 0
        self.taken: dict[str, list[bytes]] = {device.name: [] for device in self.devices}

    def rng(self, length: int) -> bytes:
        """Return random bytes."""
        return self.random.randbytes(length)

    def happens(self, share: float) -> bool:
        """Say whether a fault of that share happens now."""
        return self.raging and share > 0 and self.random.random() < share

    def trace(self, who: str, what: str) -> None:
        """Tell whoever replays the seed."""
        if self._trace is not None:
            self._trace(f"{self.agenda.now_us / 1e6:10.3f} {who:10} {what}")

    def count_publish(self) -> None:
        """Count one publish of any device; there is a bound."""
        self.publishes += 1
        starts = sum(device.boots for device in self.devices)
        votes = self.governed.acts + self.governed.said if self.governed is not None else 0
        said = (self._submitted + self._changes + votes) * (len(self.devices) - 1)
        most = _PUBLISHES_BASE + _PUBLISHES_EACH * said + _PUBLISHES_START * starts
        most += _PUBLISHES_PROVOKED * (self.insider.acts + self.former.acts + self.provoked)
        check(self.publishes <= most * self._repeated(), "a storm of resends")

    def _repeated(self) -> float:
        """Return how many times its share a world publishes where a relay takes one at a time, and how slowly."""
        if self.plan.receive_maximum > 1:
            return 1
        return _REPEATED_SLOWLY if self.plan.latency_us >= _SLOW_US else _REPEATED

    # -- the course of events -----------------------------------------------------------------------------------------

    def run(self) -> Summary:
        """Live through the plan.

        Raises:
            ViolationError: an invariant does not hold.
        """
        self.trace("world", str(self.plan))
        for device in self.devices:
            self.agenda.after(self.random.randint(0, 5 * SECOND), device.boot)
        self._enter_submissions()
        self._enter_faults()
        self.agenda.run(self.plan.faults_us)
        self.raging = False
        for device in self.devices:
            device.disk_full = False
        self.trace("world", "the faults cease")
        calm_us = self._lose_and_rejoin() if self._loses_state else self.agenda.now_us
        self.run_until_quiet(calm_us)
        quiet_us = self.agenda.now_us - self.plan.faults_us
        if self.governed is not None:
            self.governed.finish()
        self.agenda.run(self.agenda.now_us + 30 * SECOND)
        self._check_end()
        return Summary(len(self.ledger.accepted), self.ledger.refused, self.publishes, quiet_us)

    def run_until_quiet(self, since_us: int | None = None) -> None:
        """Go on until nothing is left to do, some time after now, or after another time, at the latest.

        Raises:
            ViolationError: it never was so.
        """
        latest_us = (self.agenda.now_us if since_us is None else since_us) + _PATIENCE_US
        while not self._quiet():
            if self.agenda.now_us > latest_us:
                waiting = {device.name: device.store.outbox.totals()[0] for device in self.devices if device.alive}
                raise ViolationError(f"outboxes do not drain: {waiting}")
            self.agenda.run(self.agenda.now_us + 5 * SECOND)

    def _lose_and_rejoin(self) -> int:
        """Let the collector lose its database while others send to it, and ask to be let in; return when it was in.

        That takes no longer than `_REJOIN_US`, and whoever let it in has nothing waiting for it soon after.
        """
        collector, inviter = self.collector, self.devices[0]
        while not (collector.alive and inviter.alive):
            self.agenda.run(self.agenda.now_us + SECOND)
        collector.lose_state()
        collector.skew_us = inviter.skew_us
        for _ in range(_QUEUED_MEANWHILE):
            self.agenda.run(self.agenda.now_us + MINUTE)
            self._submit(inviter)
        collector.boot()
        for link in inviter.links:
            link.cut("cut")
        self.agenda.run(self.agenda.now_us + 30 * SECOND)
        collector.join(inviter)
        self.agenda.run(self.agenda.now_us + _REJOIN_US)
        check(collector.is_member(), "a device that has lost its database is not let in again")
        return self.agenda.now_us

    def _quiet(self) -> bool:
        return all(device.quiet() for device in self.devices)

    def _enter_submissions(self) -> None:
        last_us = self.plan.faults_us * 9 // 10
        start_us = self.random.randint(0, last_us)
        for device in self.devices:
            if device.name == GUEST:
                continue
            for _ in range(self.plan.submissions):
                at_us = start_us if self.plan.burst else self.random.randint(0, last_us)
                self.agenda.after(at_us, lambda device=device: self._submit(device))
        for device in self.devices:
            self.agenda.after(self.random.randint(0, last_us), lambda device=device: self._take(device, 3))
        if self.plan.joiner:
            self.agenda.after(
                self.random.randint(0, 20 * SECOND),
                lambda: self.devices[3].join(self.devices[0], of_a_fleet=self._gathers),
            )

    def _submit(self, device: Device) -> None:
        self._submitted += 1
        padding = self.rng(self.random.choice((1, 20, 200, 1_500)))
        telemetry = device is not self.collector and self.random.random() < 0.5
        said = MARK + self._submitted.to_bytes(4) + padding
        action = Action(measured(self._submitted, said) if telemetry else said, telemetry)
        if self.random.random() < 0.3:
            device.in_another_process(lambda store, node, now: device.submit(store, node, action, now))
        else:
            device.pending.append(action)
            device.wake(0)

    def _take(self, device: Device, limit: int) -> None:
        self.taken[device.name] += device.receive(limit)

    def _enter_faults(self) -> None:
        plan = self.plan
        for every_us, fault in (
            (plan.cut_every_us, self._cut),
            (plan.wipe_every_us, lambda: self._some_broker().wipe()),
            (plan.deafen_every_us, lambda: self._some_broker().deafen()),
            (plan.snapshot_every_us, self._restart_broker),
            (plan.disk_full_every_us, self._fill_disk),
            (plan.clock_jump_every_us, self._jump_clock),
            (plan.attack_every_us, self.attacker.act),
            (plan.restore_every_us // 2, self._back_up),
            (plan.restore_every_us, self._restore),
        ):
            if every_us:
                self._repeat(every_us, fault)
        for actor in self._hostile:
            self._repeat_act(actor)
        if self._renames:
            self._repeat(_RENAME_EVERY_US, self._rename)
        if self.governed is not None:
            self._repeat(_VOTE_EVERY_US, self.governed.act)
        for broker in self.brokers:
            self._repeat(15 * SECOND, broker.take_snapshot)

    def _repeat(self, every_us: int, fault: Callable[[], None]) -> None:
        def strike() -> None:
            if self.raging:
                fault()
                self._repeat(every_us, fault)

        self.agenda.after(self.random.randint(every_us // 2, every_us * 3 // 2), strike)

    def _repeat_act(self, actor: Insider | FormerMember) -> None:
        def strike() -> None:
            if self.raging:
                actor.act()
                self._repeat_act(actor)

        self.agenda.after(_HOSTILE_EVERY_US, strike)

    def _rename(self) -> None:
        """Let two members change their labels at once: rivals, and whatever follows both begins an epoch."""
        for device in self.devices[:2]:
            device.in_another_process(lambda store, node, now, me=device.identity: self._relabel(store, node, now, me))

    def _relabel(self, store: SimStore, node: Node, now: Now, identity: Identity) -> None:
        def edit(draft: GroupManifest) -> GroupManifest:
            member = draft.member(identity.signing_public)
            return draft if member is None else draft.changing(replace(member, label=f"at {now.wall_us}"))

        with store.transaction():
            node.actions.change(self.group_id, lambda draft, _: edit(draft), now)
        self._changes += 1

    def _some_broker(self) -> Broker:
        return self.random.choice(self.brokers)

    def _cut(self) -> None:
        link = self.random.choice(self.random.choice(self.devices).links)
        if self.random.random() < self.plan.half_open:
            link.hang()
        else:
            link.cut("cut")

    def _restart_broker(self) -> None:
        self.trace("broker", "restarts from a snapshot")
        self._some_broker().restart_from_snapshot()

    def _fill_disk(self) -> None:
        device = self.random.choice(self.devices)
        device.disk_full = True
        device.reserved = self.random.random() < 0.5
        self.trace(device.name, f"disk full, {'with' if device.reserved else 'without'} ballast")

        def clear() -> None:
            device.disk_full = False
            self.trace(device.name, "disk has room")

        self.agenda.after(self.random.randint(1, 60) * SECOND, clear)

    def _jump_clock(self) -> None:
        device = self.random.choice(self.devices)
        device.jump_clock(self.random.choice((-20 * YEAR, -3_600 * SECOND, 0, 3_600 * SECOND, 30 * YEAR)))

    def _back_up(self) -> None:
        self.random.choice(self.devices[:2]).back_up()

    def _restore(self) -> None:
        self.random.choice(self.devices[:2]).restore(noticed=not self.plan.unnoticed)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _check_end(self) -> None:
        self.ledger.check_complete()
        self.objects.check_everything_opens()
        self.former.check_unheard()
        possible = _LOST_EACH * (self._submitted + self._changes) + self.insider.acts**2
        for device in self.devices:
            check(not device.sends_what_is_gone(), "a device sends what its queue does not hold")
            lost = device.store.counters.values().get("lost_messages", 0)
            check(lost <= possible, "a device counts losses of what nobody can have sent")
            let_in = device.is_member() or not device.asked or self._outlasts_an_invite(self.devices[0])
            check(let_in, "a device that has asked was not let in")
            self.ledger.check_counted(device.identity.signing_public, lost)
            self._take(device, 1_000_000)
            me = device.identity.signing_public
            delivered = sorted(self.ledger.inboxes.get(me, []))
            read_or_erased = sorted(self.taken[device.name] + self.ledger.erased.get(me, []))
            check(read_or_erased == delivered, "an inbox does not hold what was delivered")

    def _outlasts_an_invite(self, inviter: Device) -> bool:
        """Say whether a relay that had lost the inviter's subscription kept from it what was asked of it."""
        deaf_us = max(broker.deaf_us(inviter.links[0].client) for broker in self.brokers)
        return deaf_us >= max(1, INVITE_US - self.plan.faults_us)


def run_seed(seed: int, trace: Callable[[str], None] | None = None) -> Summary:
    """Run one seed in a world of its own.

    Raises:
        ViolationError: an invariant does not hold; the seed replays it.
    """
    template()
    with Memory().applied(), _windows(seed):
        world = World(seed, trace)
        try:
            return world.run()
        except Exception as error:
            raise ViolationError(f"an agent fell over: {error!r}") from error
        finally:
            for device in world.devices:
                device.throw_away()


@contextmanager
def _windows(seed: int) -> Iterator[None]:
    narrow = _NARROW if seed % _NARROW_EACH == _IS_NARROW else {}
    a_backlog = narrow.get(Lane.LIVE, LINK_WINDOW_LIVE_MESSAGES)
    with patch.dict(queued._WINDOWS, narrow), patch.object(send_window, "LINK_WINDOW_LIVE_MESSAGES", a_backlog):
        yield
