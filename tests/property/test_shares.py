"""Whatever a coalition shows to whom: honest members keep each other's operations, agree, and store a bounded part.

Two hostile members begin logs without end, fork them, and follow each other's. Each honest member is shown some of it,
in some order, and writes meanwhile. Then the honest ones exchange what they have. The limits are small here, so that
a few dozen operations exceed all of them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from covey.core.history.operation import Operation, read_operation
from covey.core.ids import GroupId, OperationId
from covey.limits.history import AWAITED_US
from tests.examples import parameters
from tests.fleet import Device, settled
from tests.unit.core.history.conduct import forge, write_note

_LOGS, _BEHIND = 3, 8
_EVENTS = 60


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.history.shares.LOGS_OF_ONE", _LOGS)
    monkeypatch.setattr("covey.core.history.history.LOGS_OF_ONE", _LOGS)
    monkeypatch.setattr("covey.core.history.shares.LOGS_BEHIND", _BEHIND)


class _World:
    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.legitimate = [Device(name, folder) for name in ("ann", "ben", "cem")]
        self.hostile = [Device(name, folder) for name in ("mallory", "eve")]
        self.group_id = GroupId(settled(*self.legitimate, *self.hostile))
        self.said: list[Operation] = []
        """What anybody has written, each after what it follows."""
        self.written: list[OperationId] = []
        """What honest members have."""

    def ids(self, device: Device) -> set[OperationId]:
        return {each.id for each in device.store.operations.in_order(self.group_id)}

    def write(self) -> None:
        author = self.chance.choice(self.legitimate)
        operation = write_note(author, self.group_id, f"note {len(self.said)}")
        self.written.append(operation.id)
        held = {each.id for each in self.said}
        for stored in author.store.operations.in_order(self.group_id):  # with the merges before it
            if stored.id not in held:
                self.said.append(read_operation(stored.raw))
                self.written.append(stored.id)

    def lie(self) -> None:
        """Begin a log, continue one or fork one, after anything that anybody has written."""
        liar = self.chance.choice(self.hostile)
        parents = self.chance.sample(self.said, min(len(self.said), self.chance.choice((0, 0, 1, 2, 4))))
        own = [each for each in self.said if each.author == liar.key]
        incarnation, number = self.chance.randrange(40), 1
        before = self.chance.choice(own) if own and self.chance.random() < 0.5 else None
        if before is not None:
            incarnation, number = before.log.incarnation[0], before.number + 1
            parents = list({each.id: each for each in (before, *parents)}.values())
        self.said.append(forge(liar, self.group_id, number, f"lie {len(self.said)}", *parents, life=incarnation))

    def show(self) -> None:
        """Show an honest member some of all that, with what it follows or without, in some order."""
        device = self.chance.choice(self.legitimate)
        some = self.chance.sample(self.said, min(len(self.said), self.chance.randint(1, 12)))
        if self.chance.random() < 0.7:
            some = self.with_past(some)
        self.take(device, some)

    def with_past(self, some: list[Operation]) -> list[Operation]:
        by_id, found, left = {each.id: each for each in self.said}, dict[OperationId, Operation](), list(some)
        while left:
            each = left.pop()
            if each.id not in found:
                found[each.id] = each
                before = () if each.previous is None else (each.previous,)
                left += [by_id[parent] for parent in (*each.parents, *before)]
        return list(found.values())

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


@pytest.mark.parametrize("seed", parameters(range(60), quick=0, plain=8))
def test_honest_members_agree_and_keep_what_honest_members_write(tmp_path: Path, seed: int) -> None:
    world = _World(tmp_path, random.Random(seed))
    world.lie()
    for _ in range(_EVENTS):
        world.chance.choice((world.write, world.lie, world.lie, world.lie, world.show, world.show))()
        if world.chance.random() < 0.1:
            world.exchange()
    world.exchange()
    one, *others = (world.ids(each) for each in world.legitimate)
    assert all(each == one for each in others), "honest members with the same operations agree"
    assert one >= set(world.written), "what an honest member wrote is everywhere"
    assert len({each.node.history.digest(world.group_id) for each in world.legitimate}) == 1
    _check_bounds(world, one)


def _check_bounds(world: _World, held: set[OperationId]) -> None:
    operations = {each.id: each for each in world.said if each.id in held}
    legitimate = {each.key for each in world.legitimate}
    children: dict[OperationId, list[Operation]] = {}
    for each in operations.values():
        before = () if each.previous is None else (each.previous,)
        for parent in {*each.parents, *before}:
            children.setdefault(parent, []).append(each)
    for liar in world.hostile:
        ends = [each for each in operations.values() if each.author == liar.key and each.id not in children]
        assert len({each.log for each in ends}) <= _LOGS, "unfollowed logs are those of its share"
        for each in operations.values():
            if each.author in legitimate:
                behind = {one.log for one in world.with_past([each]) if one.author == liar.key}
                assert len(behind) <= _BEHIND, "no honest operation follows more than others take"
