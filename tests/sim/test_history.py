"""Histories over a bad network: split, restarted, with a liar among the members who is removed and goes on.

Whatever came first and to whom: the members end with the same operations that count, in one order.
No lie is kept, and nothing that an honest member wrote is lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.sqlite.history.operations import OperationTables
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.history import history as history_module
from covey.core.history.acceptance import Acceptance, Accepted
from covey.core.history.asking import HistoryAsking
from covey.core.history.bodies import GroupProfile, Note, Session
from covey.core.history.body import OperationBody
from covey.core.history.history import History
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.shares import HistoryShares
from covey.core.history.standing import Standing
from covey.core.ids import Incarnation, OperationId
from covey.core.wire.message import MessageType
from covey.errors import RemoteError, SignatureError
from covey.limits.history import FORKS_OF_ONE, LOGS_OF_ONE
from tests.examples import parameters
from tests.fleet import Device
from tests.proof import a_world_notices
from tests.sim.test_membership import World

_ROUNDS = 6
_SEEDS_OF_MISTAKES = (2, 15, 21)
"""Seeds of which each mistake fails one."""


class Liar:
    """A member that signs what no honest node would, and says it to whom it likes."""

    def __init__(self, world: World, device: Device, chance: random.Random) -> None:
        self._world, self._device, self._chance = world, device, chance
        self._logs = 0
        self.lies: list[Operation] = []
        self.rivals: list[list[Operation]] = []
        self.floods: list[Operation] = []

    def lie(self, victim: Device) -> None:
        """Tell a victim an operation that is in order, and one for each rule that breaks it."""
        held = self._world.group(victim)
        assert held is not None
        first = self._signed(held, parents=())
        unsigned = replace(self._signed(held), height=1)
        lies = [
            self._signed(held, parents=(first,), height=7),
            self._signed(held, kind=1, body=b"\x80"),
            self._signed(held, number=2, previous=self._signed(held).id, parents=(first,), log=first.log),
            self._signed(held, number=3, previous=first.id, parents=(first,), log=first.log),
            read_operation(_flipped(unsigned.raw), verify=False),
        ]
        self.lies += lies
        self._say(victim, first, *lies)

    def fork(self, *victims: Device) -> None:
        """Tell each of some victims four operations under one number, each in another order."""
        held = self._world.group(victims[0])
        assert held is not None
        log = self._log()
        rivals = [
            self._signed(held, log=log, body=Note("text/plain", bytes([number])).to_wire()) for number in range(4)
        ]
        self.rivals.append(rivals)
        for victim in victims:
            self._say(victim, *self._chance.sample(rivals, 4))

    def flood(self, victim: Device) -> None:
        """Tell a victim more logs than one author may begin, others than it tells anybody else."""
        held = self._world.group(victim)
        assert held is not None
        logs = [self._signed(held) for _ in range(LOGS_OF_ONE + 1)]
        self.floods += logs
        self._say(victim, *logs)

    def late(self, known: GroupManifest) -> Operation:
        """Return an operation from before the removal, as far as anybody can see."""
        return self._signed(known)

    def after(self, manifest: GroupManifest) -> Operation:
        """Return an operation under the manifest that removes its author."""
        self.lies.append(self._signed(manifest))
        return self.lies[-1]

    def _say(self, victim: Device, *operations: Operation) -> None:
        body = OperationBundle(tuple(each.raw for each in operations)).to_wire()
        with self._device.store.transaction():
            queue = self._device.node._queue
            queue.queue(victim.key, MessageType.OPERATIONS, self._world.group_id, body, self._device.now)

    def _log(self) -> Log:
        self._logs += 1
        return Log(self._device.key, Incarnation(self._logs.to_bytes(8)))

    def _signed(self, held: GroupManifest, parents: tuple[Operation, ...] = (), **other: Any) -> Operation:
        made = Operation(
            held.group_id,
            other.get("log") or self._log(),
            other.get("number", 1),
            other.get("previous"),
            tuple(sorted(each.id for each in parents)),
            other.get("height", 1 + max((each.height for each in parents), default=0)),
            held.hash,
            0,
            other.get("kind", 1),
            other.get("body", Note("text/plain", b"mine").to_wire()),
        )
        return sign_operation(made, self._device.identity)


def _flipped(raw: bytes) -> bytes:
    return raw[:10] + bytes([raw[10] ^ 1]) + raw[11:]


def _bodies(chance: random.Random) -> Iterator[OperationBody]:
    while True:
        yield chance.choice(
            [
                Note("text/plain", chance.randbytes(chance.choice((3, 3_000)))),
                GroupProfile(chance.randbytes(4).hex()),
                Session("the shed", chance.randrange(10**15)),
            ]
        )


def _run(folder: Path, seed: int, *, floods: bool = False) -> None:
    world, chance = World(folder, seed, 5), random.Random(seed)
    *legitimate, hostile = world.devices
    liar, bodies, group_id = Liar(world, hostile, chance), _bodies(chance), world.group_id
    written: list[OperationId] = []

    def write() -> None:
        author = chance.choice(legitimate)
        with author.store.transaction():
            written.append(author.node.history.write(group_id, next(bodies), author.now).id)

    world.network.apart = set(chance.sample(world.devices, 2))
    for _ in range(_ROUNDS):
        write()
        chance.choice((liar.lie, liar.fork))(chance.choice(legitimate))
        if floods:
            liar.flood(chance.choice(legitimate))
        for _ in range(chance.randint(0, 8)):
            world.network.step()
        chance.choice(legitimate).restart()
    liar.fork(*legitimate)
    liar.lie(legitimate[0])
    world.network.apart = set()
    for _ in range(20):
        world.network.step()
    known = world.group(hostile)
    assert known is not None
    remover, *others = chance.sample(legitimate, 4)
    assert world.change(remover, "remove", hostile)
    late, removal = liar.late(known), world.group(remover)
    assert removal is not None
    world.run(lambda: world.agreed(legitimate))
    for device in chance.sample(others, 2):
        _carry(device, late, liar.after(removal))
        write()
    world.run(lambda: _in_step(world, legitimate))
    _check(world, legitimate, liar, written, late)


def _carry(device: Device, *operations: Operation) -> None:
    """Bring operations by stick."""
    with device.store.transaction():
        device.node.history_import.take_operations(
            operations[0].group_id, tuple(each.raw for each in operations), device.now
        )


def _ids(world: World, device: Device) -> list[OperationId]:
    return [stored.id for stored in device.store.operations.in_order(world.group_id)]


def _in_step(world: World, devices: list[Device]) -> bool:
    return len({_counting(world, each) for each in devices}) == 1 and world.agreed(devices)


def _counting(world: World, device: Device) -> tuple[OperationId, ...]:
    void = device.node.history.standing(world.group_id).void
    return tuple(each for each in _ids(world, device) if each not in void)


def _check(world: World, legitimate: list[Device], liar: Liar, written: list[OperationId], late: Operation) -> None:
    for device in legitimate:
        device.restart()
        _check_one(world, device, liar, written, late)
    assert _in_step(world, legitimate), "they believe different things"
    assert len({device.node.history.profile(world.group_id) for device in legitimate}) == 1
    assert len({device.node.history.digest(world.group_id) for device in legitimate}) == 1, "they ask for ever"


def _check_one(world: World, device: Device, liar: Liar, written: list[OperationId], late: Operation) -> None:
    held = {each.id: each for each in _operations(world, device)}
    assert held.keys() >= set(written), "what an honest member wrote is lost"
    assert not held.keys() & {each.id for each in liar.lies}, "a lie is kept"
    wanted = {parent for each in held.values() for parent in each.parents if each.author != late.author}
    unfollowed = {each.log for each in liar.floods if each.id in held and each.id not in wanted}
    assert len(unfollowed) <= LOGS_OF_ONE, "more logs of one than are bounded"
    for rivals in liar.rivals:
        kept = [each for each in rivals if each.id in held]
        assert len([each for each in kept if each.id not in wanted]) <= FORKS_OF_ONE, "more rivals than prove a fork"
    void = device.node.history.standing(world.group_id).void
    assert void == _void(device, world, held), "it believes other than it should"
    assert late.id in void or late.id not in held, "what came late counts"


def _operations(world: World, device: Device) -> list[Operation]:
    return [read_operation(stored.raw) for stored in device.store.operations.in_order(world.group_id)]


def _void(device: Device, world: World, held: dict[OperationId, Operation]) -> set[OperationId]:
    """Return what the rule voids, found in another way: by following everything down from what knows the removal."""
    group = world.group(device)
    assert group is not None
    manifests = [read_manifest(raw) for raw in device.store.groups.manifests_from(world.group_id, 1)]
    listed = {each.hash: {member.keys.signing_public for member in each.members} for each in manifests}
    former = {each.author for each in held.values()} - {member.keys.signing_public for member in group.members}
    void = set()
    for author in former:
        knowing = {each.id for each in held.values() if author not in listed[each.manifest]}
        followed, row = set[OperationId](), knowing
        while row:
            row = {parent for each in row for parent in held[each].parents} - followed
            followed |= row
        void |= {each.id for each in held.values() if each.author == author and each.id not in followed and knowing}
    return void


@pytest.mark.parametrize("seed", parameters(range(12), plain=2))
def test_members_agree_on_one_history_despite_liars(tmp_path: Path, seed: int) -> None:  # accepts: 003.22
    _run(tmp_path, seed)


@pytest.mark.parametrize("seed", parameters(range(6), quick=0, plain=1))
def test_members_agree_when_one_floods_them_with_logs(tmp_path: Path, seed: int) -> None:
    """One member shows each other one more logs than it may begin, and different ones."""
    _run(tmp_path, seed, floods=True)


def _forgiving(what: str) -> Callable[..., object]:
    """Return rules that pass over what one of them says."""
    judge = Acceptance.judge

    def judged(acceptance: Acceptance, operation: Operation, *payers: Any, **how: Any) -> object:
        try:
            return judge(acceptance, operation, *payers, **how)
        except RemoteError as error:
            named = acceptance.named(operation.group_id, operation.manifest)
            if what not in str(error) or named is None:
                raise
            return Accepted(named.version)

    return judged


_shapes = OperationTables.shapes
_MISTAKES = {
    "heights are not looked at": (Acceptance, "judge", _forgiving("one above its highest parent")),
    "who is not listed may write": (Acceptance, "judge", _forgiving("does not allow its author to write")),
    "any operation may be the one before": (Acceptance, "judge", _forgiving("does not name its predecessor")),
    "bodies of another shape are taken": (Acceptance, "judge", _forgiving("note: ")),
    "every rival is kept": (HistoryShares, "has_number", lambda *_: True),
    "signatures are not looked at": (
        history_module,
        "read_operation",
        lambda raw, **_: read_operation(raw, verify=False),
    ),
    "nothing is ever void": (
        history_module,
        "weigh",
        lambda operations, group_id, *_: Standing(frozenset(), tuple(operations.heads(group_id))),
    ),
    "what is void is followed": (
        History,
        "_heads_to_follow",
        lambda history, group_id, *_: history._records.operations.heads(group_id),
    ),
    "nobody requests what is missing": (HistoryAsking, "ask", lambda *_, **__: []),
    "what came late is followed": (
        OperationTables,
        "shapes",
        lambda *arguments: (replace(each, late=False) for each in _shapes(*arguments)),
    ),
    "what is void is compared": (
        history_module,
        "heads_of",
        lambda operations, group_id, _: set(operations.heads(group_id)),
    ),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_in_a_history_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    a_world_notices(mistake, _run, tmp_path, _SEEDS_OF_MISTAKES, (AssertionError, KeyError, SignatureError))
