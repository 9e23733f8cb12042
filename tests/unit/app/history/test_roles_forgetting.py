"""`covey.app.history.roles`: small transactions delete what a checkpoint covers, for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.file.salvage import salvage
from covey.adapters.sqlite.store import SqliteStore
from covey.app.history.roles import HistoryForgetting
from covey.core.checkpoints.forgetting import base_of, forgettable
from covey.core.group.manifest import GroupManifest
from covey.core.history.bodies import GroupProfile, Note
from covey.core.history.messages import HistoryPull
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.node import Node
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.core.wire.message import Message, MessageType
from covey.limits.history import ANNOUNCE_US, FORGET_LOOK_US, FORGOTTEN_AT_ONCE
from covey.limits.storage import OUTBOX_BYTES
from tests.elector import Elector
from tests.fleet import Device, carry, found, identity

_NOTES = FORGOTTEN_AT_ONCE + 20


def _deliver(*devices: Device) -> None:
    for _ in range(4):
        carry(*devices)
        for device in devices:
            device.wait(ANNOUNCE_US / 1_000_000)
            device.maintain()
    carry(*devices)


def _agreed(tmp_path: Path) -> tuple[Elector, Elector, GroupId]:
    """Return two devices that have agreed on a checkpoint over many notes of the first one."""
    devices = [Device(name, tmp_path) for name in ("ann", "ben")]
    group_id = found(*devices)
    pins = Pins(frozenset(device.key for device in devices))
    ann, ben = (Elector(device, pins) for device in devices)
    for number in range(_NOTES):
        ann.say(group_id, Note("text/plain", b"the secret of tank %d" % number))
    ann.say(group_id, GroupProfile("Pumps"))
    _deliver(*devices)
    ann.propose(group_id)
    _deliver(*devices)
    ben.turn()
    _deliver(*devices)
    assert ann.device.node.history.digest(group_id) == ben.device.node.history.digest(group_id)
    return ann, ben, group_id


def _role(elector: Elector, keep_us: int = 0) -> HistoryForgetting:
    operations = elector.device.store.operations

    def may_go(node: Node, group: GroupManifest, now: Now) -> Sequence[int]:
        base = base_of(elector.of(node, group.group_id).newest_first())
        assert base is not None
        return forgettable(operations, group.group_id, base, frozenset(), now.wall_us - keep_us)

    return HistoryForgetting(
        elector.device.store, may_go, operations.forgotten.take, lambda _, line: elector.reported.append(line)
    )


def _forget_all(elector: Elector) -> int:
    """Let the role take turns until it has nothing to do; return how many."""
    role, turns = _role(elector), 0
    now = Now(elector.device.now.monotonic_us, elector.device.now.wall_us + 1)
    while True:
        next_at_us = role.turn(elector.device.node, now)
        assert next_at_us is not None
        if next_at_us - now.monotonic_us > FORGET_LOOK_US // 2:
            return turns
        now, turns = Now(next_at_us, now.wall_us), turns + 1


@pytest.mark.slow
def test_it_forgets_in_portions_and_nothing_comes_again(tmp_path: Path) -> None:
    ann, ben, group_id = _agreed(tmp_path)
    operations = ben.device.store.operations
    everything = [each.raw for each in ann.device.store.operations.in_order(group_id)]
    size = sum(map(len, everything))
    assert _forget_all(ben) == 3, "two portions, and one look"
    assert operations.forgotten.count(group_id) == _NOTES
    assert ben.reported == [f"deleted {_NOTES} operations covered by a checkpoint"]
    assert sum(len(each.raw) for each in operations.in_order(group_id)) < size / 10
    assert not [each for each in operations.in_order(group_id) if b"the secret of tank" in each.raw]
    assert ann.device.node.history.digest(group_id) == ben.device.node.history.digest(group_id)
    with ben.device.store.transaction():
        taken = ben.device.node.history.take(group_id, everything, ben.device.now)
    assert (taken.accepted, taken.waiting, taken.refused) == ([], 0, [])
    ann.say(group_id, Note("text/plain", b"it goes on"))
    ben.say(group_id, Note("text/plain", b"so it does"))
    _deliver(ann.device, ben.device)
    assert ann.device.node.history.digest(group_id) == ben.device.node.history.digest(group_id)
    assert operations.forgotten.count(group_id) == _NOTES


@pytest.mark.slow
def test_recent_operations_are_kept(tmp_path: Path) -> None:
    _, ben, group_id = _agreed(tmp_path)
    role, now = _role(ben, keep_us=3_600_000_000), ben.device.now
    assert role.turn(ben.device.node, now) == now.monotonic_us + FORGET_LOOK_US
    assert ben.device.store.operations.forgotten.count(group_id) == 0


@pytest.mark.slow
def test_a_member_that_keeps_deleted_history_answers_one_that_lacks_it(tmp_path: Path) -> None:
    ann, ben, group_id = _agreed(tmp_path)
    _forget_all(ben)
    assert _answers(ann, group_id) == [MessageType.OPERATIONS]
    assert _answers(ben, group_id) == []
    assert ben.device.store.counters.values()["pulls_of_forgotten"] == 1


def _answers(elector: Elector, group_id: GroupId) -> list[MessageType]:
    answer, own = elector.device.node.history.exchange.answering.answer, elector.device.key
    members = [each.keys.signing_public for each in elector.device.node.groups.group(group_id).members]
    asker = next(each for each in members if each != own)
    nothing, first = HistoryPull({}).to_wire(), (Incarnation(bytes(8)), 1, LinkSeq(1), 0)
    message = Message(MessageType.HISTORY_PULL, asker, own, group_id, *first, nothing, b"")
    with elector.device.store.transaction():
        return [send.type for send in answer(message, HistoryPull({}))]


def _history_of(store: SqliteStore, group_id: GroupId) -> tuple[object, ...]:
    operations = store.operations
    lengths = [operations.log_lengths(group_id, log.author) for log, _ in operations.logs(group_id)]
    return list(operations.shapes(group_id)), lengths, operations.heads(group_id)


@pytest.mark.slow
def test_a_salvage_keeps_what_was_forgotten(tmp_path: Path) -> None:
    _, ben, group_id = _agreed(tmp_path)
    _forget_all(ben)
    before = _history_of(ben.device.store, group_id)
    ben.device.store.close()
    path = ben.device.path
    report = salvage(path, identity("ben"), Incarnation(bytes(range(8))), OUTBOX_BYTES, 1)
    assert report.saved["forgotten_operation"] == _NOTES
    store = SqliteStore(path, Incarnation(bytes(range(8))), StorageKey(bytes(32)))
    assert _history_of(store, group_id) == before
    store.close()
