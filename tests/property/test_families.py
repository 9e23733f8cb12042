"""However many devices hostile members let in and remove: what honest members keep is bounded, and nobody is silenced.

Two hostile members and all that they let in say anything to anybody, follow each other, and come and go. Honest members
write and let in devices of their own. The limits are small here, so that a few dozen
operations exceed all of them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from covey.core.crypto import Identity
from covey.core.group.manifest import Member
from covey.core.history.bodies import Note
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.ids import DeviceKey, Incarnation, OperationId
from covey.limits.history import AWAITED_US
from tests.examples import parameters
from tests.fleet import Device, carry, found, identity
from tests.unit.core.history.conduct import let_in, remove, write_note

_EVENTS = 70
_LONG = 600
"""About the length of a hostile operation, in bytes; each is shorter."""
_SHARE, _LOWEST, _FAMILY, _GROUP = 6 * _LONG, 6 * _LONG, 12 * _LONG, 60 * _LONG


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"BYTES_BEHIND": _LOWEST, "FAMILY_BYTES_BEHIND": _FAMILY, "GROUP_BYTES_BEHIND": _GROUP}
    for name, value in limits.items():
        monkeypatch.setattr(f"covey.core.history.shares.{name}", value)


class _World:
    """Three honest members, of which the first one has founded the group, and two hostile ones with their guests."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.legitimate = [Device(name, folder) for name in ("ann", "ben", "cem")]
        self.hostile = [Device(name, folder) for name in ("mallory", "eve")]
        self.group_id = found(*self.legitimate, *self.hostile)
        self.sponsors: dict[DeviceKey, DeviceKey] = {}
        """Who let in a hostile guest."""
        self.guests: list[Identity] = []
        self.said: list[Operation] = []
        """What anybody has written, each after what it follows."""
        self.written: set[OperationId] = set()
        """What honest members have."""

    def ids(self, device: Device) -> set[OperationId]:
        return {each.id for each in device.store.operations.in_order(self.group_id)}

    def spread_manifests(self) -> None:
        carry(*self.legitimate, *self.hostile)

    def write(self, author: Device | None = None) -> None:
        author = author or self.chance.choice(self.legitimate)
        known = {each.id for each in self.said}
        write_note(author, self.group_id, f"note {len(self.said)}")
        for stored in author.store.operations.in_order(self.group_id):  # with the merges before it
            if stored.id not in known:
                self.said.append(read_operation(stored.raw))
                self.written.add(stored.id)

    def admit(self) -> None:
        sponsor = self.chance.choice(self.hostile)
        guest = identity(f"guest {len(self.guests)}")
        let_in(sponsor, guest, self.group_id)
        self.guests.append(guest)
        self.sponsors[guest.signing_public] = sponsor.key
        self.spread_manifests()

    def dismiss(self) -> None:
        sponsor = self.chance.choice(self.hostile)
        listed = sponsor.node.groups.group(self.group_id)
        present = [each for each in self.guests if listed.member(each.signing_public) is not None]
        if present:
            known = {each.id for each in self.said}
            remove(sponsor, self.chance.choice(present), self.group_id)
            mine = (read_operation(each.raw) for each in sponsor.store.operations.in_order(self.group_id))
            self.said += [each for each in mine if each.id not in known]
            self.spread_manifests()

    def lie(self) -> None:
        """Have a hostile member, or a present guest, follow anything with a note of some length."""
        teller = self.chance.choice(self.hostile)
        listed = teller.node.groups.group(self.group_id)
        present = [each for each in self.guests if listed.member(each.signing_public) is not None]
        author = self.chance.choice([*present, *present, teller.identity])
        parents = self.chance.sample(self.said, min(len(self.said), self.chance.choice((0, 0, 1, 3))))
        incarnation = Incarnation(bytes([self.chance.randrange(8)] * 8))
        number, previous = 1, None
        own = [each for each in self.said if each.log == Log(author.signing_public, incarnation)]
        if own:
            last = max(own, key=lambda each: each.number)
            number, previous = last.number + 1, last.id
            parents = list({each.id: each for each in (last, *parents)}.values())
        ids, height = tuple(sorted(each.id for each in parents)), 1 + max((each.height for each in parents), default=0)
        body = Note("text/plain", bytes(self.chance.choice((1, 150)))).to_wire()
        log = Log(author.signing_public, incarnation)
        made = Operation(self.group_id, log, number, previous, ids, height, listed.hash, 0, 1, body)
        self.said.append(sign_operation(made, author))
        assert len(self.said[-1].raw) < _LONG

    def show(self) -> None:
        """Show an honest member some of all that, with what it follows or without, in some order."""
        some = self.chance.sample(self.said, min(len(self.said), self.chance.randint(1, 12)))
        if self.chance.random() < 0.7:
            some = self.with_past(some)
        self.take(self.chance.choice(self.legitimate), some)

    def with_past(self, some: list[Operation]) -> list[Operation]:
        by_id, past, left = {each.id: each for each in self.said}, dict[OperationId, Operation](), list(some)
        while left:
            each = left.pop()
            if each.id not in past:
                past[each.id] = each
                before = () if each.previous is None else (each.previous,)
                left += [by_id[parent] for parent in (*each.parents, *before)]
        return list(past.values())

    def take(self, device: Device, some: list[Operation]) -> None:
        shuffled = self.chance.sample(some, len(some))
        with device.store.transaction():
            device.node.history.take(self.group_id, [each.raw for each in shuffled], device.now)

    def exchange(self) -> None:
        """Have honest members give each other all that they have, until nothing changes."""
        before: list[set[OperationId]] = []
        for each in self.legitimate:
            each.wait(AWAITED_US / 1_000_000)  # what waits for operations that never come keeps nothing for ever
        while before != (held := [self.ids(each) for each in self.legitimate]):
            before = held
            for giver in self.legitimate:
                for taker in self.legitimate:
                    stored = giver.store.operations.in_order(self.group_id)
                    self.take(taker, [read_operation(each.raw) for each in stored])


@pytest.mark.parametrize("seed", parameters(range(40), quick=0, plain=4))
def test_members_keep_a_bounded_part_of_hostile_families_and_agree(tmp_path: Path, seed: int) -> None:
    world = _World(tmp_path, random.Random(seed))
    world.admit()
    choices = (world.write, world.admit, world.dismiss, world.dismiss, *[world.lie] * 5, *[world.show] * 3)
    for _ in range(_EVENTS):
        world.chance.choice(choices)()
        if world.chance.random() < 0.1:
            world.exchange()
    world.exchange()
    one, *others = (world.ids(each) for each in world.legitimate)
    assert all(each == one for each in others), "honest members with the same operations agree"
    assert one >= world.written, "what an honest member wrote is everywhere"
    assert len({each.node.history.digest(world.group_id) for each in world.legitimate}) == 1
    _check_bounds(world, one)
    _check_newcomer(world)


def _check_bounds(world: _World, held: set[OperationId]) -> None:
    kept = [each for each in world.said if each.id in held]
    legitimate = {each.key for each in world.legitimate}
    listed = world.legitimate[0].node.groups.group(world.group_id)
    for sponsor in world.hostile:
        family = {sponsor.key} | {guest for guest, by in world.sponsors.items() if by == sponsor.key}
        for end in kept:
            behind = [each for each in world.with_past([end]) if each.id != end.id and each.author != end.author]
            of_family = sum(len(each.raw) for each in behind if each.author in family)
            assert of_family <= _FAMILY, "no operation follows more of a family"
            assert sum(len(each.raw) for each in behind) <= _GROUP, "nor of the group"
        followed = {each.id for end in kept if end.author in legitimate for each in world.with_past([end])}
        present = {each for each in family if listed.member(each) is not None}
        alone = [each for each in kept if each.author in family - present and each.id not in followed]
        by_present = {each.id for end in kept if end.author in present for each in world.with_past([end])}
        assert sum(len(each.raw) for each in alone if each.id not in by_present) <= _FAMILY


def _check_newcomer(world: _World) -> None:
    """A device that an honest member lets in after all that is followed by the others."""
    ann, ben, _ = world.legitimate
    newcomer = identity("newcomer")
    with ann.store.transaction():
        ann.node.actions.change(world.group_id, lambda draft, _: draft.adding(Member(newcomer.keys)), ann.now)
    world.spread_manifests()
    named = ben.node.groups.group(world.group_id)
    assert named.member(newcomer.signing_public) is not None
    log = Log(newcomer.signing_public, Incarnation(bytes(8)))
    hello = Operation(world.group_id, log, 1, None, (), 1, named.hash, 0, 1, Note("text/plain", b"hello").to_wire())
    said = sign_operation(hello, newcomer)
    world.take(ben, [said])
    write_note(ben, world.group_id, "hello, newcomer")
    assert said.id in world.ids(ben)
    assert said.id not in ben.store.operations.heads(world.group_id)
