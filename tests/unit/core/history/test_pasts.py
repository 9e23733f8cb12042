"""What operations follow is summed up rightly, and at a cost that does not grow with what came before."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from covey.adapters.sqlite.history.operations import OperationTables
from covey.core.history.operation import Log, Operation, OperationShape
from covey.core.history.pasts import Pasts
from covey.core.history.sponsors import STRANGERS
from covey.core.ids import GroupId, Incarnation, OperationId
from tests.fleet import Device, Make, settled
from tests.unit.core.history.conduct import forge, write_note


def _take(device: Device, group_id: GroupId, *operations: Operation) -> None:
    with device.store.transaction():
        taken = device.node.history.take(group_id, [each.raw for each in operations], device.now)
    assert not taken.refused


def _pasts(device: Device) -> Pasts:
    return Pasts(device.store.operations, lambda *_: True, lambda *_: (STRANGERS,))


def _behind(operations: dict[OperationId, Operation], ends: frozenset[OperationId]) -> set[OperationId]:
    found, left = set[OperationId](), list(ends)
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            named = operations[each]
            left += [*named.parents, *(() if named.previous is None else (named.previous,))]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_past_has_each_operation_once_whatever_was_asked_before(make: Make, seed: int) -> None:
    chance = random.Random(seed)
    ann, ben, cem = (make(name) for name in ("ann", "ben", "cem"))
    group_id = GroupId(settled(ann, ben, cem))
    pasts, operations, lasts = _pasts(ann), dict[OperationId, Operation](), dict[Log, Operation]()
    for turn in range(60):
        author, incarnation = chance.choice((ben, cem)), chance.randrange(8)
        last = lasts.get(Log(author.key, Incarnation(bytes([incarnation] * 8))))
        parents = chance.sample([*operations.values()], min(len(operations), chance.choice((0, 1, 2, 4))))
        parents = [each for each in parents if each != last] + ([] if last is None else [last])
        made = forge(author, group_id, 1 if last is None else last.number + 1, f"{turn}", *parents, life=incarnation)
        _take(ann, group_id, made)
        operations[made.id] = lasts[made.log] = made
        ends = frozenset(chance.sample(sorted(operations), min(len(operations), chance.choice((1, 1, 3)))))
        past, behind = pasts.of(group_id, ends), _behind(operations, ends)
        for writer in (ben.key, cem.key):
            written = [operations[each] for each in behind if operations[each].author == writer]
            assert past.lengths[writer, (STRANGERS,)] == sum(len(each.raw) for each in written)
            assert past.logs.get(writer, set()) == {each.log for each in written}


def test_a_past_that_was_dropped_is_not_used_a_second_time(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = GroupId(settled(ann, ben))
    first = forge(ben, group_id, 1, "first")
    second = forge(ben, group_id, 2, "second", first)
    _take(ann, group_id, first, second)
    pasts = _pasts(ann)
    pasts.of(group_id, frozenset({second.id}))
    for each in (second, first):
        ann.store.operations.drop(group_id, each.id)
    other = write_note(ann, group_id, "takes the places")
    _take(ann, group_id, first, second)
    second_sum = pasts.of(group_id, frozenset({second.id, other.id}))
    assert second_sum.lengths[ben.key, (STRANGERS,)] == len(first.raw) + len(second.raw)
    assert second_sum.lengths[ann.key, (STRANGERS,)] == len(other.raw)


@pytest.mark.parametrize("before", [40, 160])
def test_judging_reads_as_much_however_much_a_hostile_member_has_said(
    make: Make, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Each operation once read the whole history where any author had more here than one operation follows."""
    ann, mallory, eve = (make(name) for name in ("ann", "mallory", "eve"))
    group_id = GroupId(settled(ann, mallory, eve))
    spam = [forge(mallory, group_id, 1, "spam")]
    for number in range(2, before):
        spam.append(forge(mallory, group_id, number, "spam", spam[-1]))
    _take(ann, group_id, *spam)
    monkeypatch.setattr("covey.core.history.shares.BYTES_BEHIND", sum(len(each.raw) for each in spam) - 1)
    joined = [forge(eve, group_id, 1, "joined", spam[-2])]
    _take(ann, group_id, *joined)
    read: list[OperationId] = []
    monkeypatch.setattr(OperationTables, "shape", _counted(read))
    for number in range(2, 22):
        joined.append(forge(eve, group_id, number, "joined", joined[-1]))
    _take(ann, group_id, *joined[1:])
    assert len(read) < 10 * len(joined)


def _counted(
    read: list[OperationId],
) -> Callable[[OperationTables, GroupId, OperationId], OperationShape | None]:
    genuine = OperationTables.shape

    def shape(self: OperationTables, group_id: GroupId, operation_id: OperationId) -> OperationShape | None:
        read.append(operation_id)
        return genuine(self, group_id, operation_id)

    return shape
