"""Checkpoints over a bad network: split, restarted, with an operator among the electors who proposes what is not so.

Whatever came first and to whom: all honest devices end with the same checkpoints, signed by the same, worth the same.
What an honest one proposed last counts; what is not so is signed by nobody but its author, and counts for nobody.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.checkpoints import checkpoints as checkpoints_module
from covey.core.checkpoints.checkpoints import OPERATORS, STATE, Checkpoint, Checkpoints
from covey.core.checkpoints.state import CheckpointState
from covey.core.history.bodies import GroupProfile, Note
from covey.core.history.body import OperationBody
from covey.core.history.orders import OperatorChange, SettingOrder
from covey.core.ids import OperationId
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY
from tests.elector import Elector
from tests.examples import parameters
from tests.proof import a_world_notices
from tests.sim.test_membership import World

_ROUNDS = 8
_SEEDS_OF_MISTAKES = (1, 2, 3)


def _run(folder: Path, seed: int) -> None:
    world, chance = World(folder, seed, 4), random.Random(seed)
    pins = Pins(frozenset(device.key for device in world.devices))
    electors = [Elector(device, pins) for device in world.devices]
    *legitimate, hostile = electors
    last: dict[Elector, OperationId] = {}
    lies: dict[OperationId, str] = {}

    def step() -> None:
        world.network.step()
        for each in legitimate:
            each.turn()

    world.network.apart = set(chance.sample(world.devices, 2))
    for _ in range(_ROUNDS):
        chance.choice(electors).say(world.group_id, body_of(chance, world))
        if chance.random() < 0.4:
            proposer = chance.choice(legitimate)
            last[proposer] = proposer.propose(world.group_id)
        if chance.random() < 0.4:
            lies[hostile.propose(world.group_id, lie=lambda state: false_state(chance, state))] = STATE
        if chance.random() < 0.2:
            lies[hostile.propose(world.group_id, Pins(frozenset({hostile.device.key})))] = OPERATORS
        for _ in range(chance.randint(0, 8)):
            step()
        restarted = chance.choice(electors)
        restarted.device.restart()
        restarted.start()
    world.network.apart = set()
    last[legitimate[0]] = legitimate[0].propose(world.group_id)
    world.run(lambda: _in_step(world, legitimate))
    for _ in range(60):
        step()
    world.run(lambda: _in_step(world, legitimate))
    _check(world, legitimate, hostile, last, lies)


def body_of(chance: random.Random, world: World) -> OperationBody:
    """Return something to say that bears on checkpoints, or does not."""
    someone = chance.choice(world.devices)
    bodies: list[OperationBody] = [
        SettingOrder(EVERYBODY, f"app.{chance.randrange(4)}", chance.randrange(1_000)),
        SettingOrder(EVERYBODY, "app.token", sealed=chance.randbytes(8)),
        GroupProfile(chance.randbytes(4).hex()),
        Note("text/plain", chance.randbytes(chance.choice((3, 3_000)))),
        OperatorChange(someone.key, chance.randbytes(2).hex(), added=True),
    ]
    return chance.choice(bodies)


def false_state(chance: random.Random, state: CheckpointState) -> CheckpointState:
    """Return a state that is not so: with an operator that there is none."""
    return replace(state, operators={**state.operators, type(next(iter(state.operators)))(chance.randbytes(32)): ""})


def _held(world: World, elector: Elector) -> list[Checkpoint]:
    return list(elector.of(elector.device.node, world.group_id).newest_first())


def _worth(found: Checkpoint) -> tuple[object, ...]:
    state = b"" if found.state is None else found.state.to_wire()
    return found.id, found.code, found.signers, found.electors, state


def _in_step(world: World, legitimate: list[Elector]) -> bool:
    return len({each.device.node.history.digest(world.group_id) for each in legitimate}) == 1


def _check(
    world: World,
    legitimate: list[Elector],
    hostile: Elector,
    last: dict[Elector, OperationId],
    lies: dict[OperationId, str],
) -> None:
    held = [[_worth(each) for each in _held(world, elector)] for elector in legitimate]
    assert held[0] == held[1] == held[2], "they hold different checkpoints, or think otherwise of them"
    by_id = {each.id: each for each in _held(world, legitimate[0])}
    for proposed in last.values():
        assert by_id[proposed].code == "", "an honest checkpoint does not come to count"
        assert by_id[proposed].signers >= {each.device.key for each in legitimate}
    for lie, code in lies.items():
        assert by_id[lie].code == code
        assert by_id[lie].signers <= {hostile.device.key}, "somebody signed what is not so"


@pytest.mark.parametrize("seed", parameters(range(10), plain=2))
def test_devices_agree_on_checkpoints_despite_liars(tmp_path: Path, seed: int) -> None:  # accepts: 003.22
    _run(tmp_path, seed)


_judged = Checkpoints._judged
_MISTAKES = {
    "what others propose is signed unseen": (
        Checkpoints,
        "_judged",
        lambda *arguments: replace(_judged(*arguments), objection=""),
    ),
    "whatever is proposed counts": (Checkpoints, "_judged", lambda *arguments: replace(_judged(*arguments), code="")),
    "a state is made of all that is here": (checkpoints_module, "covered_by", lambda nodes, _: list(nodes)),
    "nothing is ever the last part": (Checkpoints, "_is_last", lambda *_: False),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_in_checkpoints_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    a_world_notices(mistake, _run, tmp_path, _SEEDS_OF_MISTAKES, (AssertionError, KeyError))
