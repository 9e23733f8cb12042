"""Newcomers over a bad network: all have forgotten the beginning, and a member among them makes up another one.

A device joins, and a member loses its state, while everybody goes on and the newcomer is restarted. All end with the
same places of the same operations, and judge alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.checkpoints.forgetting import base_of, forgettable
from covey.core.checkpoints.graph import HistoryGraph, digest_of_parts, divided, part_digest
from covey.core.checkpoints.newcomers import Newcomers
from covey.core.checkpoints.state import CheckpointState
from covey.core.history import checkpoint as checkpoint_module
from covey.core.history.bodies import Note
from covey.core.history.checkpoint import CheckpointPart
from covey.core.history.history import History
from covey.core.history.kinds import OperationKind
from covey.core.history.messages import HistoryPull
from covey.core.history.operation import read_operation, sign_operation
from covey.core.ids import Incarnation, LinkSeq
from covey.core.orders.authority import Pins, weigh_orders
from covey.core.wire.message import Message, MessageType
from covey.errors import LocalError, RemoteError
from tests.elector import Elector
from tests.examples import parameters
from tests.fleet import Device
from tests.proof import a_world_notices
from tests.sim.test_checkpoints import body_of
from tests.sim.test_membership import World

_ROUND_S = 20
_ROUNDS = 500
_SEEDS_OF_MISTAKES = (1, 2, 3)


class Inventor:
    """A member that brings newcomers a past that was not."""

    def __init__(self, world: World, device: Device, chance: random.Random) -> None:
        self._world, self._device, self._chance = world, device, chance

    def lie(self, victim: Device) -> None:
        """Bring a device graphs in which something is otherwise, if this member may give one."""
        first = Incarnation(bytes(8)), 1, LinkSeq(1), 0
        group_id, own = self._world.group_id, self._device
        pull = HistoryPull({}).to_wire()
        asked = Message(MessageType.HISTORY_PULL, victim.key, own.key, group_id, *first, pull, b"")
        with own.store.transaction():
            for send in own.node.newcomers.answer(asked):
                for lie in self._chance.sample((self._withheld, self._unhashed, self._self_signed), 3):
                    body = lie(HistoryGraph.from_wire(send.body)).to_wire()
                    own.node._queue.queue(victim.key, MessageType.HISTORY_GRAPH, group_id, body, own.now)

    def _withheld(self, graph: HistoryGraph) -> HistoryGraph:
        return replace(graph, operations=())

    def _unhashed(self, graph: HistoryGraph) -> HistoryGraph:
        return replace(graph, remains=tuple(replace(each, length=each.length + 1) for each in graph.remains))

    def _self_signed(self, graph: HistoryGraph) -> HistoryGraph:
        graph = self._unhashed(graph)
        hashes = b"".join(map(part_digest, divided(graph.remains)))
        [last] = [each for each in map(read_operation, graph.proof) if each.kind == OperationKind.CHECKPOINT]
        state = CheckpointState.from_wire(CheckpointPart.from_wire(last.body).content)
        [part] = checkpoint_module.divided(replace(state, graph=digest_of_parts(hashes)).to_wire())
        forged = replace(last, log=replace(last.log, author=self._device.key), body=part.to_wire())
        return replace(graph, hashes=hashes, proof=(sign_operation(forged, self._device.identity).raw,))


def _forget(elector: Elector, world: World) -> int:
    node, operations = elector.device.node, elector.device.store.operations
    base = base_of(elector.of(node, world.group_id).newest_first())
    assert base is not None, "they have agreed"
    void = node.history.standing(world.group_id).void
    with elector.device.store.transaction():
        return operations.forgotten.take(forgettable(operations, world.group_id, base, void, 2**62))


def _run(folder: Path, seed: int) -> None:
    world, chance = World(folder, seed, 4), random.Random(seed)
    pins = Pins(frozenset(device.key for device in world.devices))
    electors = [Elector(device, pins) for device in world.devices]
    inventor = Inventor(world, world.devices[-1], chance)
    for _ in range(30):
        chance.choice(electors).say(world.group_id, Note("text/plain", chance.randbytes(20)))
        if chance.random() < 0.3:
            chance.choice(electors[:-1]).say(world.group_id, body_of(chance, world))
        world.network.step()
    world.run(lambda: _is_in_step(world))
    electors[0].propose(world.group_id)
    for _ in range(80):
        world.network.step()
        for each in electors[:-1]:
            each.turn()
    world.run(lambda: _is_in_step(world))
    assert min(_forget(each, world) for each in electors) > 10
    newcomer = world.device("newcomer")
    newcomer.nodes.pins = pins
    newcomer.now = world.network.now
    world.devices.append(newcomer)
    world.pair(world.devices[0], newcomer)
    _live(world, electors, newcomer, inventor, chance)
    _check(world, pins)
    lost = world.devices[1]
    lost.return_to(None)
    world.pair(world.devices[0], lost)
    _live(world, [electors[0], electors[2]], lost, inventor, chance)
    _check(world, pins)


def _live(world: World, electors: list[Elector], victim: Device, inventor: Inventor, chance: random.Random) -> None:
    for turn in range(_ROUNDS):
        if turn > 20 and _is_in_step(world):
            return
        world.network.step()
        for device in world.devices:
            device.wait(_ROUND_S)
        if chance.random() < 0.6 and world.group(victim) is not None:
            inventor.lie(victim)
        if turn < 20 and chance.random() < 0.2:
            chance.choice(electors).say(world.group_id, Note("text/plain", chance.randbytes(20)))
        if chance.random() < 0.02:
            victim.restart()
    raise AssertionError("they never came in step")


def _is_in_step(world: World) -> bool:
    if any(world.group(each) is None for each in world.devices):
        return False
    return len({each.node.history.digest(world.group_id) for each in world.devices}) == 1


def _check(world: World, pins: Pins) -> None:
    first, *others = (_judged(world, device, pins) for device in world.devices)
    for each in others:
        assert each == first, "who is new judges otherwise than who is not"


def _judged(world: World, device: Device, pins: Pins) -> tuple[object, ...]:
    operations, node = device.store.operations, device.node
    members = frozenset(each.key for each in world.devices)
    return (
        [replace(remains, judged=True) for _, remains, _ in operations.remains(world.group_id)],
        node.history.standing(world.group_id).void,
        weigh_orders(operations, world.group_id, pins, members),
        operations.logs(world.group_id),
        {
            each.author: operations.log_lengths(world.group_id, each.author)
            for each, _ in operations.logs(world.group_id)
        },
        node.history.profile(world.group_id),
        [each.code for each in Elector(device, pins).of(node, world.group_id).newest_first()],
    )


@pytest.mark.parametrize("seed", parameters(range(8), quick=0, plain=1))
def test_a_newcomer_agrees_with_all_others_despite_liars(tmp_path: Path, seed: int) -> None:
    _run(tmp_path, seed)


_MISTAKES: dict[str, tuple[object, str, Callable[..., object]]] = {
    "nobody is ever given a graph": (Newcomers, "_base", lambda *_: None),
    "what remains is of no log": (History, "remember", lambda *_: False),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_with_newcomers_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    a_world_notices(mistake, _run, tmp_path, _SEEDS_OF_MISTAKES, (AssertionError, LocalError, RemoteError))
