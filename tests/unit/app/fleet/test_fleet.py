"""`FleetView`: a look makes anew what has changed since the last one, and shows what a first look would show."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.clock import SystemClock
from covey.adapters.sqlite.fleet_table import SaidSummary, Wanted
from covey.app.device.device import Device, find_state, open_device
from covey.app.fleet import fleet
from covey.app.fleet.devices import shown_device
from covey.app.fleet.documents import Fleet, FleetDevice
from covey.app.fleet.fleet import FleetView
from covey.core.group.manifest import GroupManifest, Member
from covey.core.ids import DeviceKey, EpochId, Incarnation
from covey.core.link.budget import Budget
from covey.core.link.reported_cost import ReportedCost
from covey.core.presence.status import PeerPresence, State
from covey.core.wire.sequences import SequenceSet
from tests.command import Here
from tests.examples import parameters
from tests.fleet import identity

_SECOND_US = 1_000_000
_PEERS = [identity(f"peer {number}") for number in range(4)]
_STEPS = 120


class _Clock(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 1_790_000_000_000_000

    def wall_us(self) -> int:
        return self.now_us


class _World:
    """A device whose state is changed at random, as agents and people change it."""

    def __init__(self, opened: Device, seed: int) -> None:
        self.chance, self.clock = random.Random(seed), _Clock()
        self.device = replace(opened, clock=self.clock)
        self.said: dict[DeviceKey, SaidSummary] = {}
        self.connections = 0

    def step(self) -> None:
        """Let something happen, and some time pass."""
        steps: list[Callable[[], None]] = [
            *(self._is_seen, self._reports, self._waits, self._lacks, self._hangs_on_another, self._says),
            *(self._comes_or_goes, self._relay, self._clock_is_set_back, *[lambda: None] * 6),
        ]
        with self.device.store.transaction():
            self.chance.choice(steps)()
        self.clock.now_us += self.chance.choice((0, _SECOND_US, 20 * _SECOND_US, 40 * _SECOND_US))

    def _peer(self) -> DeviceKey:
        return self.chance.choice(_PEERS).signing_public

    def _is_seen(self) -> None:
        self.device.store.presence.seen(self._peer(), self.clock.now_us)

    def _reports(self) -> None:
        at_us = self.clock.now_us - self.chance.choice((0, 59 * _SECOND_US))  # noted at once, or with others
        state = self.chance.choice([*State, State.HERE])
        before_us = at_us - self.chance.choice((0, 500 * _SECOND_US)) if state is State.HERE else at_us
        seen_us = at_us if state is State.HERE else at_us - 500 * _SECOND_US
        budget = self.chance.choice((None, Budget(20_000, monthly=False), Budget(3_000_000, monthly=True)))
        cost = ReportedCost(self.chance.randrange(25_000), self.chance.randrange(4_000_000), None, budget)
        presence = PeerPresence(1, state, 30, (0,), before_us, seen_us)
        if self.chance.random() < 0.5:
            presence = presence._replace(cost=cost, cost_us=at_us)
        self.device.store.presence.note(self._peer(), presence)

    def _waits(self) -> None:
        group, key = self.device.pick_group(None), self._peer()
        if group.member(key) is None:
            return
        if self.chance.random() < 0.5:
            self.device.node.send_blob(group.group_id, b"x", self.device.now(), key)
        else:
            self.device.store.outbox.forget(key)

    def _lacks(self) -> None:
        last = self.chance.randrange(4, 9)
        self.device.store.received.set(self._peer(), Incarnation(bytes(8)), SequenceSet(3, ((5, last),)))

    def _hangs_on_another(self) -> None:
        self.device.store.carriers.set(self._peer(), self._peer())

    def _says(self) -> None:
        lost = self.chance.randrange(3)
        clock = self.chance.choice(("synchronised", "unsynchronised"))
        version = self.chance.choice(("covey 1; a", "covey 1; b", "covey 2"))
        why = json.dumps({"expired": lost})
        self.said[self._peer()] = SaidSummary(5, clock, self.clock.now_us, lost, why, 4, 3, 0, version)

    def _comes_or_goes(self) -> None:
        one = self.chance.choice(_PEERS)

        def edit(draft: GroupManifest, epoch_id: EpochId) -> GroupManifest:
            if draft.member(one.signing_public) is not None:
                return draft.removing(one.signing_public, epoch_id)
            return draft.adding(Member(one.keys, f"label {self.chance.random()}", since=draft.version))

        self.device.node.actions.change(self.device.pick_group(None).group_id, edit, self.device.now())

    def _relay(self) -> None:
        self.device.store.conditions.set("relay 127.0.0.1:1", self.chance.choice(("up", "down")), self.clock.now_us)

    def _clock_is_set_back(self) -> None:
        self.clock.now_us -= self.chance.choice((5, 900)) * _SECOND_US


def _look(view: FleetView, world: _World) -> tuple[Fleet, list[FleetDevice]]:
    view.take_members(world.device)
    members = {each.keys.signing_public for each in world.device.pick_group(None).members}
    view.table.keep_said([(key, said, "[0, 0, 0, [], {}, {}]") for key, said in world.said.items() if key in members])
    return view.survey(world.device), list(view.devices(values=True))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Device]:
    """A hub in a group of its own, whose agent runs."""
    hub = Here(tmp_path, "hub")
    hub.ok("group", "create")
    hub.ok("config", "set", "relay.url", "mqtt://127.0.0.1:1")
    folder = find_state(str(hub.state))
    lock = folder.locks.agent()
    assert lock is not None
    with open_device(folder) as opened:
        yield opened
    os.close(lock)


@pytest.mark.parametrize("seed", parameters(range(4), quick=0, plain=1))
def test_each_look_shows_what_a_first_look_would(opened: Device, seed: int) -> None:
    world, view = _World(opened, seed), FleetView()
    for step in range(_STEPS):
        world.step()
        assert _look(view, world) == _look(FleetView(), world), step


def test_devices_come_some_at_a_time_each_once(opened: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_AT_ONCE", 2)
    world, view = _World(opened, 1), FleetView()
    for _ in range(_STEPS):
        world.step()
    _, listed = _look(view, world)
    assert len(listed) > 2
    assert len({each.key for each in listed}) == len(listed)
    assert list(view.devices(limit=3, values=True)) == listed[:3]
    assert len(view.keys) == len(listed)
    assert all(each.key in view.keys for each in listed)
    assert not any(each in view.keys for each in ("00" * 32, "no hex", ""))


def test_of_many_that_fall_silent_at_once_each_look_takes_up_some(opened: Device) -> None:  # as when a relay ends
    world, view = _World(opened, 0), FleetView()
    began_us = world.clock.now_us
    with opened.store.transaction():
        for one in _PEERS[:4]:
            member = Member(one.keys, "ben")
            group_id = opened.pick_group(None).group_id
            opened.node.actions.change(group_id, lambda draft, _, member=member: draft.adding(member), opened.now())
            seen = PeerPresence(1, State.HERE, 30, (0,), began_us, began_us)
            opened.store.presence.note(one.signing_public, seen)
    view.take_members(world.device)
    found = []
    for seconds in (1, 130, 136, 136, 136):
        world.clock.now_us = began_us + seconds * _SECOND_US
        found.append(view.survey(world.device, overdue_most=3).summary)
    begun = ("4 online,", "4 online,", "1 online, 3 silent", "0 online, 4 silent", "0 online, 4 silent")
    assert [each.startswith(one) for each, one in zip(found, begun, strict=True)] == [True] * 5, found


def test_readings_are_counted_without_another_look(opened: Device) -> None:  # of 100,000 that is seconds
    world, view = _World(opened, 0), FleetView()
    _look(view, world)
    why = json.dumps({"expired": 2})
    said = SaidSummary(5, "unsynchronised", world.clock.now_us, 2, why, 4, 3, 0, "covey 1")
    own = world.device.node.identity.signing_public
    view.table.keep_said([(own, said, "[0, 0, 0, [], {}, {}]")])
    assert not list(view.table.stale())
    assert view.table.totals() == (0, 2)
    [shown] = map(shown_device, view.table.window(Wanted("clock"), 0, 9))
    assert (shown.key, shown.lost, shown.newest_at_us) == (own.hex(), {"expired": 2}, 5)


def test_messages_for_a_device_never_seen_running_say_so(
    opened: Device,
) -> None:  # its summary counts it as not yet seen
    world, view, key = _World(opened, 0), FleetView(), _PEERS[0].signing_public
    with opened.store.transaction():
        group_id = opened.pick_group(None).group_id
        member = Member(_PEERS[0].keys, "ben")
        opened.node.actions.change(group_id, lambda draft, _: draft.adding(member), opened.now())
        opened.node.send_blob(group_id, b"x", opened.now(), key)
        opened.store.conditions.set("relay 127.0.0.1:1", "up", world.clock.now_us)
    found, devices = _look(view, world)
    [shown] = [each for each in devices if each.key == key.hex()]
    assert (shown.presence, shown.waits_because) == ("unknown", "it was never seen running")
    assert "1 never seen running" in found.summary


def test_a_device_that_falls_silent_is_shown_silent_at_the_next_look(opened: Device) -> None:
    world, view, key = _World(opened, 0), FleetView(), _PEERS[0].signing_public
    member = Member(_PEERS[0].keys, "ben")
    began_us = world.clock.now_us
    with opened.store.transaction():
        group_id = opened.pick_group(None).group_id
        opened.node.actions.change(group_id, lambda draft, _: draft.adding(member), opened.now())
        opened.store.presence.note(key, PeerPresence(1, State.HERE, 30, (0,), began_us, began_us))
    found = []
    for seconds in (1, 130, 134, 136):
        world.clock.now_us = began_us + seconds * _SECOND_US
        _, devices = _look(view, world)
        [shown] = [each for each in devices if each.key == key.hex()]
        found.append(shown.presence)
    assert found == ["online", "online", "online", "silent"]
