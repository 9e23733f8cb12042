"""Forgetting over a bad network: split, restarted in mid-flight, with an elector who proposes what is not so.

One device keeps everything, the others forget all that they may whenever they may. Whatever is forgotten where: all end
in step, find the same void, obey the same and come to the same checkpoint.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.sqlite.history import forgotten as forgotten_module
from covey.adapters.sqlite.history.forgotten import ForgottenOperations
from covey.core.checkpoints import covered as covered_module
from covey.core.checkpoints import forgetting as forgetting_module
from covey.core.checkpoints.checkpoints import Checkpoint
from covey.core.checkpoints.forgetting import count_uncovered, forgettable
from covey.core.history.bodies import Note, read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import Approval, CommandOrder, SettingOrder
from covey.core.ids import GroupId, OperationId
from covey.core.now import Now
from covey.core.orders.authority import Pins, weigh_orders
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.desired import GroupSettings
from covey.errors import LocalError
from tests.elector import Elector
from tests.examples import parameters
from tests.proof import a_world_notices
from tests.sim.test_checkpoints import body_of, false_state
from tests.sim.test_membership import World

_ROUNDS = 10
_SEEDS_OF_MISTAKES = (7, 1, 2, 3, 4, 6, 17)


class Forgetter(Elector):
    """A device that forgets all that a checkpoint lets it."""

    def order(self, group_id: GroupId, value: int) -> None:
        """Have all set something, and do something."""
        self.say(group_id, SettingOrder(EVERYBODY, "app.mode", value))
        self.say(group_id, CommandOrder(EVERYBODY, "flush", {}, bytes([value] * 16)))

    def approve(self, group_id: GroupId, chance: random.Random) -> None:
        """Agree with most of what others have ordered, where that is needed."""
        if self.pins.threshold == 1:
            return
        held = [read_operation(each.raw, verify=False) for each in self.device.store.operations.in_order(group_id)]
        approvals = (read_body(each) for each in held if each.author == self.device.key)
        agreed = {each.order for each in approvals if isinstance(each, Approval)}
        for each in held:
            is_order = each.kind in {OperationKind.SETTING, OperationKind.COMMAND, OperationKind.OPERATOR}
            if is_order and each.author != self.device.key and each.id not in agreed and chance.random() < 0.8:
                self.say(group_id, Approval(each.id))

    def forget(self, group_id: GroupId, chance: random.Random, odds: float = 0.1) -> int:
        """Forget in small transactions; return how much. `odds` are those that the power goes before one of them."""
        node, operations = self.device.node, self.device.store.operations
        base = forgetting_module.base_of(self.of(node, group_id).newest_first())
        if base is None:
            return 0
        void = node.history.standing(group_id).void
        arrivals, gone = forgettable(operations, group_id, base, void, 2**62, lambda _: True), 0
        for start in range(0, len(arrivals), 3):
            if chance.random() < odds:
                self.device.restart()
                self.start()
                break
            with self.device.store.transaction():
                gone += self.device.store.operations.forgotten.take(arrivals[start : start + 3])
        found = self.of(self.device.node, group_id).newest_first()
        assert count_uncovered(self.device.store.operations, group_id, found) == 0
        return gone

    def has_forgotten_settings(self, group_id: GroupId) -> bool:
        """Say so."""
        shapes = self.device.store.operations.shapes(group_id)
        return any(each.kind == OperationKind.SETTING and each.stored_at_us is None for each in shapes)


def _run(folder: Path, seed: int) -> int:
    world, chance = World(folder, seed, 4), random.Random(seed)
    pins = Pins(frozenset(device.key for device in world.devices), threshold=1 + seed % 2)
    electors = [Forgetter(device, pins) for device in world.devices]
    keeper, *forgetters = electors
    hostile, gone = electors[-1], 0

    def step() -> None:
        world.network.step()
        for each in electors[:-1]:
            each.turn()

    for turn in range(_ROUNDS):
        world.network.apart = set(chance.sample(world.devices, 2)) if turn % 2 else set()
        for _ in range(3):
            chance.choice(electors).say(world.group_id, Note("text/plain", chance.randbytes(20)))
        chance.choice(electors).say(world.group_id, body_of(chance, world))
        keeper.order(world.group_id, turn)
        chance.choice(electors).approve(world.group_id, chance)
        if chance.random() < 0.5:
            chance.choice(electors[:-1]).propose(world.group_id)
        if chance.random() < 0.4:
            hostile.propose(world.group_id, lie=lambda state: false_state(chance, state))
        for _ in range(chance.randint(0, 12)):
            step()
        for each in forgetters:
            gone += each.forget(world.group_id, chance)
    world.network.apart = set()
    world.run(lambda: _in_step(world, electors))
    keeper.propose(world.group_id)
    for _ in range(60):
        step()
    world.run(lambda: _in_step(world, electors))
    for each in forgetters:
        gone += each.forget(world.group_id, chance, odds=0)
    for each in electors:
        each.say(world.group_id, Note("text/plain", b"it goes on"))
    assert all(each.has_forgotten_settings(world.group_id) for each in forgetters), "settings were not forgotten"
    world.run(lambda: _in_step(world, electors))
    _check(world, electors)
    return gone


def _in_step(world: World, electors: list[Forgetter]) -> bool:
    return len({each.device.node.history.digest(world.group_id) for each in electors}) == 1


def _check(world: World, electors: list[Forgetter]) -> None:
    found = [_judged(world, each) for each in electors]
    for each in found[1:]:
        assert each == found[0], "who forgets judges otherwise than who keeps"
    assert electors[0].device.store.operations.forks(world.group_id) == {}, "a number was given twice"
    for elector in electors:
        now = Now(elector.device.now.monotonic_us, elector.device.now.wall_us)
        with elector.device.store.transaction():
            for raw in _everything(electors[0], world.group_id):
                taken = elector.device.node.history.take(world.group_id, [raw], now)
                assert not taken.accepted, "what is known was taken once more"
                assert not taken.waiting
    bases = [forgetting_module.base_of(each.of(each.device.node, world.group_id).newest_first()) for each in electors]
    assert all(base is not None for base in bases)
    assert len({_worth(base) for base in bases if base is not None}) == 1, "they hold different checkpoints"


def _everything(elector: Forgetter, group_id: GroupId) -> list[bytes]:
    return [each.raw for each in elector.device.store.operations.in_order(group_id)]


def _judged(world: World, elector: Forgetter) -> tuple[object, ...]:
    operations, node = elector.device.store.operations, elector.device.node
    ids = {each.id for each in operations.shapes(world.group_id)}
    members = frozenset(device.key for device in world.devices)
    kinds = OperationKind.SETTING, OperationKind.COMMAND
    orders = [weigh_orders(operations, world.group_id, elector.pins, members, (), kind) for kind in kinds]
    group = node.groups.group(world.group_id)
    wanted = GroupSettings(operations, group, elector.pins, ()).of(group.members)
    return ids, node.history.standing(world.group_id).void, orders, operations.logs(world.group_id), wanted


def _worth(found: Checkpoint) -> tuple[OperationId, str, bytes]:
    assert found.state is not None
    return found.id, found.code, found.state.to_wire()


@pytest.mark.parametrize("seed", parameters(range(10), quick=0, plain=1))
def test_members_agree_whether_or_not_they_deleted_history(tmp_path: Path, seed: int) -> None:
    assert _run(tmp_path, seed) > 0


class _Everything:
    """Takes every setting for one that was replaced."""

    def meets(self, *_: object) -> bool:
        return True


_shapes = ForgottenOperations.shapes
_MISTAKES = {
    "whatever is proposed lets things be forgotten": (
        forgetting_module,
        "base_of",
        lambda newest_first: next((each for each in newest_first if each.state is not None), None),
    ),
    "what is judged by is forgotten as well": (forgetting_module, "_may_go", lambda _: True),
    "what does not stand below a checkpoint is forgotten": (forgetting_module, "followed_by", lambda shapes, _: shapes),
    "what was forgotten is not known any more": (ForgottenOperations, "held", lambda *_: None),
    "what was forgotten follows nothing": (
        ForgottenOperations,
        "shapes",
        lambda *arguments: (replace(each, parents=()) for each in _shapes(*arguments)),
    ),
    "a setting that holds is forgotten": (covered_module, "ReplacedSettings", _Everything),
    "nobody knows any more what a forgotten order was for": (forgotten_module, "target_of", lambda _: b""),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_in_forgetting_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    a_world_notices(mistake, _run, tmp_path, _SEEDS_OF_MISTAKES, (AssertionError, LocalError, RuntimeError))
