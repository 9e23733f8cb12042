"""Next year's build lives for days beside today's, with orders, releases, removals and conflicts; then all upgrade.

Whatever comes: both builds hold the same manifests and operations and believe the same; an operation of an unknown kind
hides nothing that follows it; a message of an unknown type is not sent again, and its sender hears why; nobody takes a
newer device for a hostile one; and better judging rules hold from the manifest on by which everybody knows them.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.events import EnvelopeDropped, NotUnderstood
from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.bodies import Note, Opaque, read_body
from covey.core.history.orders import SettingOrder
from covey.core.history.releases import ReleaseChange, ReleaseState
from covey.core.membership.rotation import announce
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY
from tests.examples import parameters
from tests.fleet import Device, identity
from tests.sim.next_year import ANSWER, GREETING, POLL, Answered, NextYear, Said
from tests.split_network import SplitNetwork

_DAY_S = 86_400
_STEPS = 3_000


class TwoBuilds:
    """Two devices of today, two of next year, and two that come and go, one of each."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        pins = Pins(frozenset(identity(name).signing_public for name in ("ada", "nia")), 1)
        makes = {"ada": False, "ben": False, "nia": True, "noa": True, "eve": False, "ned": True}
        self.devices = [NextYear(name, folder, chance, pins, is_new=new) for name, new in makes.items()]
        self.ada, self.ben, self.nia, self.noa, self.eve, self.ned = self.devices
        self.network = SplitNetwork([*self.devices], chance, loss=0.1)
        self.group_id = self.ada.run(lambda: self.ada.node.membership.create("ada", (), self.now_us)).group_id
        self.greetings = 0
        for each in self.devices[1:]:
            self.let_in(self.ada, each)
        for each in self.devices:
            each.run(lambda each=each: each.node.actions.queue_sends(self.announcement(each), each.now))
            self.agree()

    @property
    def now_us(self) -> int:
        """The date, on which all agree."""
        return self.network.now.wall_us

    def announcement(self, device: NextYear) -> list[object]:
        """Return how a device announces its build, as with each rotation."""
        return announce(device.node.membership, device.identity, self.group_id, self.now_us)  # type: ignore[return-value]

    def group(self, device: Device) -> GroupManifest:
        """Return what a device believes of the group."""
        return device.node.groups.group(self.group_id)

    def let_in(self, inviter: NextYear, joiner: NextYear) -> None:
        """Let a device in, over the wire."""
        joining = inviter.node.joining
        invite = inviter.run(lambda: joining.invite(self.group_id, (), "mqtt://sim", self.now_us))
        joiner.run(lambda: joiner.node.actions.request_join(invite, joiner.name, joiner.now))
        self.network.run(lambda: self.is_in(joiner), _STEPS)
        self.agree()

    def is_in(self, device: Device) -> bool:
        """Say whether a device is a member, as it believes itself."""
        trust = device.node.groups.trust_of(self.group_id)
        current = None if trust is None else trust.current
        return current is not None and current.member(device.key) is not None

    def members(self) -> list[NextYear]:
        """Return the members, by what the first one believes."""
        listed = self.group(self.ada)
        return [each for each in self.devices if listed.member(each.key) is not None]

    def agree(self) -> None:
        """Go on until all members believe the same, hold the same history, and nothing waits."""

        def agreed() -> bool:
            members = self.members()
            if not all(map(self.is_in, members)):
                return False
            said = {(self.group(each).hash, bool(self.group(each).raw)) for each in members}
            held = {tuple(each.store.operations.heads(self.group_id)) for each in members}
            waiting = {each.key for each in members}
            return (
                len(said) == len(held) == 1
                and all(raw for _, raw in said)
                and not any(waiting.intersection(each.store.outbox.recipients()) for each in members)
            )

        self.network.run(agreed, _STEPS)

    def pass_a_day(self) -> None:
        """Let a day go by without anything."""
        for each in self.devices:
            each.wait(_DAY_S)

    def order(self, operator: NextYear, value: str) -> None:
        """Have an operator set something, and all obey."""
        operator.write_operation(self.group_id, SettingOrder(EVERYBODY, "a.x", value))
        self.agree()
        self.network.run(lambda: all(each.holds.get("a.x") == value for each in self.members()), _STEPS)

    def conflict(self, one: NextYear, other: NextYear) -> None:
        """Have two members change the group without knowing of each other."""
        self.network.apart = {one}
        for each in (one, other):
            listed = self.group(each).member(each.key)
            assert listed is not None
            label = f"{each.name.upper()} {self.chance.randrange(10_000)}"
            changed = replace(listed, label=label)
            each.edit(self.group_id, lambda draft, changed=changed: draft.changing(changed))
        for _ in range(20):
            self.network.step()
        self.network.apart = set()
        self.agree()

    def remove(self, remover: NextYear, removed: NextYear) -> None:
        """Have a member remove another one."""

        def without(draft: GroupManifest, _secret: object) -> GroupManifest:
            return draft.removing(removed.key, _secret)  # type: ignore[arg-type]

        remover.run(lambda: remover.node.actions.change(self.group_id, without, remover.now))
        self.network.run(lambda: not self.is_in(removed), _STEPS)
        self.agree()


def _check_no_blame(world: TwoBuilds) -> None:
    """Whatever a device has dropped or set aside is unsupported, and next year's builds have dropped nothing so."""
    for each in world.devices:
        codes = {entry.code for entry in each.store.quarantine.entries()}
        assert codes <= (set() if each.is_new else {"unsupported"}), (each.name, codes)
        dropped = {event.code for event in each.events() if isinstance(event, EnvelopeDropped)}
        assert dropped <= {"not_a_member", "unknown_group", "unsupported"}, (each.name, dropped)


@pytest.mark.parametrize("days", parameters([12, 30], quick=0, plain=1))
def test_days_of_two_builds(tmp_path: Path, days: int) -> None:
    world = TwoBuilds(tmp_path, seed=1)
    ada, ben, nia, noa = world.ada, world.ben, world.nia, world.noa
    polls = 0
    for day in range(days):
        world.pass_a_day()
        newer, older = world.chance.choice(((nia, ada), (noa, ben), (nia, ben)))
        newer.write_operation(world.group_id, Said(f"poll {day}"))
        newer.write_operation(world.group_id, Answered(f"answer {day}"))
        polls += 2
        world.agree()
        note = older.write_operation(world.group_id, Note("text/plain", f"day {day}".encode()))
        world.agree()
        assert note.id in noa.store.operations.heads(world.group_id), "it follows what its author does not understand"
        if day % 3 == 0:
            world.order(world.chance.choice((ada, nia)), f"value {day}")
        if day % 4 == 1:
            newer.greet(older.key, world.group_id, b"hello")
            nia.greet(noa.key, world.group_id, b"hello")
            world.greetings += 1
            world.agree()
        if day % 5 == 2:
            world.conflict(*world.chance.sample([ada, ben, nia, noa], 2))
        if day % 7 == 3:
            world.remove(*world.chance.choice(((nia, world.eve), (ada, world.ned))))
        if day % 7 == 5:
            for each in (world.eve, world.ned):
                if not world.is_in(each):
                    world.let_in(world.chance.choice((ada, nia)), each)
        if day % 10 == 6:
            nia.write_operation(world.group_id, ReleaseChange(bytes(16), ReleaseState.PAUSED, "too hot"))
            world.agree()
    _check_the_days(world, polls)
    _check_the_upgrade(world)


def _check_the_days(world: TwoBuilds, polls: int) -> None:
    for each in world.members():
        kinds = [operation.kind for operation in each.operations(world.group_id)]
        assert kinds.count(POLL) + kinds.count(ANSWER) == polls
    read = [read_body(each) for each in world.ada.operations(world.group_id) if each.kind in {POLL, ANSWER}]
    assert all(isinstance(each, Opaque) for each in read)
    reported = [event for each in (world.nia, world.noa) for event in each.events() if isinstance(event, NotUnderstood)]
    assert sum(each.messages for each in reported) == world.greetings
    assert len(world.noa.greeted) == world.greetings
    aside = [entry for each in world.devices for entry in each.store.quarantine.entries()]
    assert len(aside) == world.greetings
    assert world.nia.by_suite_2 > 0
    assert {world.group(each).rules for each in world.members()} == {1}, "some know no later ones"
    features = {member.keys.signing_public: member.features for member in world.group(world.ada).members}
    assert features[world.nia.key] == frozenset(range(1, 10))
    assert features[world.ada.key] == frozenset(range(1, 8))
    _check_no_blame(world)


def _check_the_upgrade(world: TwoBuilds) -> None:
    """Have all devices upgraded: with the first manifest after the last announcement, later rules hold."""
    for each in world.devices:
        if not each.is_new:
            each.upgrade()
        if world.is_in(each):
            each.run(lambda each=each: each.node.actions.queue_sends(world.announcement(each), each.now))
            world.agree()
    world.conflict(world.ada, world.noa)
    assert {world.group(each).rules for each in world.members()} == {2}
    world.conflict(world.ben, world.nia)
    labels = {member.label for each in world.members() for member in world.group(each).members}
    assert all(label == label.lower() for label in labels), "rules of version 2 write labels in small letters"
    for each in (world.ada, world.ben):
        each.run(lambda: None)
    world.nia.greet(world.ada.key, world.group_id, b"at last")
    world.agree()
    assert world.ada.greeted == [(world.nia.key, b"at last")]
    assert GREETING == 0x40
    today = Member(identity("old").keys, "of last year")
    with pytest.raises(Exception, match="does not know"):
        world.nia.edit(world.group_id, lambda draft: draft.adding(today))
