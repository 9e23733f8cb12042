"""`covey.core.actions.given`: which commands are a device's to do, and of which it says that it does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from covey.adapters.sqlite.history.operations import OperationTables
from covey.adapters.sqlite.store import empty_history
from covey.core.actions import given as given_module
from covey.core.actions.commands import Moment, ObeyedSince
from covey.core.actions.given import GroupCommands
from covey.core.group.manifest import sign_manifest
from covey.core.history.operation import Operation, sign_operation
from covey.core.history.orders import Obeying
from covey.core.ids import GroupId, ManifestHash, OperationId
from covey.core.orders.authority import Pins
from covey.core.orders.nodes import OrderNode
from covey.core.orders.roll_out import RollOut, Wave
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from tests.vectors.makers.cast import ALICE, BOB, CAROL
from tests.vectors.makers.groups import WITH_BOB, WITH_CAROL
from tests.vectors.makers.orders import as_they_may_come, order, said

_PINS = Pins(frozenset({ALICE.signing_public}))
_OBEYS = said(CAROL, Obeying())
_CAROL = next(each for each in WITH_CAROL.members if each.keys.signing_public == CAROL.signing_public)
_CALLED = sign_manifest(WITH_CAROL.draft().changing(replace(_CAROL, label="pump")), ALICE)
_NOW = Moment(1_000, synchronised=True)


class _Manifests:
    """The versions of the group."""

    def manifest(self, _group_id: GroupId, wanted: ManifestHash) -> bytes | None:
        """Return one of them."""
        return next((each.raw for each in (WITH_BOB, WITH_CAROL, _CALLED) if each.hash == wanted), None)


def _new(
    operations: Iterable[Operation],
    since: Operation = _OBEYS,
    knows: Callable[[OperationId], bool] = lambda _: False,
    label: str = _CAROL.label,
    moment: Moment = _NOW,
) -> tuple[list[OperationId], list[OperationId]]:
    """Return what Carol, as she is called now, is to do, and what she may have done and cannot know."""
    member = replace(_CAROL, label=label)
    with empty_history() as tables:
        for operation in as_they_may_come(operations):
            tables.add(operation, 1, 0)
        commands = GroupCommands(tables, _Manifests().manifest, WITH_CAROL, _PINS, ())
        found = commands.new(member, ObeyedSince(since.id, since.height, since.log.incarnation), knows, moment)
        return [each.operation for each in found.given], [each.operation for each in found.lost]


def test_a_device_does_commands_given_after_its_consent_once() -> None:
    before, after = said(ALICE, order(1)), said(ALICE, order(2), _OBEYS)
    assert _new([before, _OBEYS, after]) == ([after.id], [])
    assert _new([before, _OBEYS, after], knows=lambda each: each == after.id) == ([], [])
    later = said(ALICE, order(3), after)
    assert _new([before, _OBEYS, after, later]) == ([after.id, later.id], []), "directly or not"


def test_a_device_reads_what_bears_on_orders_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a group with a thousand members that takes milliseconds, at each order and each start."""
    reads: list[GroupId] = []
    nodes = OperationTables.nodes

    def counted(tables: OperationTables, group_id: GroupId) -> Iterator[OrderNode]:
        reads.append(group_id)
        return nodes(tables, group_id)

    monkeypatch.setattr(OperationTables, "nodes", counted)
    after = said(ALICE, order(1), _OBEYS)
    assert _new([_OBEYS, after]) == ([after.id], [])
    assert len(reads) == 1


def test_commands_from_before_its_membership_are_not_for_it() -> None:
    named_before = said(ALICE, order(1), _OBEYS)
    named_before = sign_operation(replace(named_before, manifest=WITH_BOB.hash), ALICE)
    named_since = said(ALICE, order(2), _OBEYS)
    assert _new([_OBEYS, named_before, named_since]) == ([named_since.id], [])


def test_a_label_must_hold_when_ordered_and_now() -> None:
    ordered = said(ALICE, replace(order(1), selector=Selector(SelectorKind.LABEL, name="pump")), _OBEYS)
    ordered = sign_operation(replace(ordered, manifest=_CALLED.hash), ALICE)
    assert _new([_OBEYS, ordered], label="pump") == ([ordered.id], [])
    assert _new([_OBEYS, ordered]) == ([], [])


def test_a_wave_targets_only_devices_of_its_plan() -> None:
    for_bob = Selector(SelectorKind.DEVICES, devices=(BOB.signing_public,))
    plans = [RollOut(whom, (Wave(percent=100),), 2, 900_000_000, 0) for whom in (for_bob, EVERYBODY)]
    waves = [said(ALICE, replace(order(number), roll_out=plan), _OBEYS) for number, plan in enumerate(plans)]
    assert _new([_OBEYS, *waves]) == ([waves[1].id], [])


def test_an_overdue_command_is_reported_unknown_only_with_a_doubtful_clock() -> None:
    late = said(ALICE, replace(order(1), deadline_us=_NOW.wall_us - 1), _OBEYS)
    second = said(CAROL, Obeying(), late, log="another life")
    assert _new([_OBEYS, late, second], second) == ([], [])
    assert _new([_OBEYS, late, second], second, moment=replace(_NOW, synchronised=False)) == ([], [late.id])


def test_orders_from_before_a_device_obeyed_are_not_reported() -> None:
    before = said(ALICE, order(1))
    first = said(CAROL, Obeying(), before)
    after = said(ALICE, order(2), first)
    second = said(CAROL, Obeying(), after, log="another life")
    assert _new([before, first, after, second], second) == ([], [after.id])


def test_a_device_reports_deleted_commands_that_it_would_have_executed() -> None:
    for_bob = replace(order(3), selector=Selector(SelectorKind.DEVICES, devices=(BOB.signing_public,)))
    bodies = (order(1), order(2), for_bob, order(4))
    commands = [said(ALICE, bodies[0])]  # one log; the last one of it is never forgotten
    for number, body in enumerate(bodies[1:], 2):
        before = commands[-1]
        next_one = replace(said(ALICE, body, before, _OBEYS), log=before.log, number=number, previous=before.id)
        commands.append(sign_operation(next_one, ALICE))
    with empty_history() as tables:
        for operation in (_OBEYS, *commands):
            tables.add(operation, 1, 0)
        nodes = {each.id: each.arrival for each in tables.nodes(WITH_CAROL.group_id)}
        assert tables.forgotten.take([nodes[each.id] for each in commands[:-1]]) == 3
        second = said(CAROL, Obeying(), commands[-1], log="another life")
        tables.add(second, 1, 0)
        found = GroupCommands(tables, _Manifests().manifest, WITH_CAROL, _PINS, ())
        first, since = (ObeyedSince(each.id, each.height, each.log.incarnation) for each in (_OBEYS, second))
        new = found.new(_CAROL, first, lambda _: False, _NOW)
        assert [each.operation for each in new.given] == [commands[3].id]
        assert [each.operation for each in new.forgotten] == [commands[1].id], "not what it never obeyed, nor another's"
        assert list(found.new(_CAROL, since, lambda _: False, _NOW).forgotten) == [], "nor what it obeys no more"


def test_the_last_commands_of_lost_records_are_reported_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_module, "LOST_COMMANDS", 2)
    history = [_OBEYS]
    for number in range(3):
        history.append(said(ALICE, order(number), history[-1]))
    second = said(CAROL, Obeying(), history[-1], log="another life")
    assert _new([*history, second], second) == ([], [each.id for each in history[2:]])
