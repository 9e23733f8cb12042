"""`covey.core.actions.given`: which commands are a device's to do, and of which it says that it does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from covey.adapters.sqlite.store import empty_history
from covey.core.actions import given as given_module
from covey.core.actions.given import GroupCommands
from covey.core.actions.records import Moment, ObeyedSince
from covey.core.group.manifest import sign_manifest
from covey.core.history.operation import Operation, sign_operation
from covey.core.history.orders import Obeying
from covey.core.ids import GroupId, ManifestHash, OperationId
from covey.core.orders.authority import Pins
from covey.core.orders.selector import Selector, SelectorKind
from tests.vectors.makers.cast import ALICE, CAROL
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
) -> tuple[list[OperationId], list[OperationId]]:
    """Return what Carol, as she is called now, is to do, and what she may have done and cannot know."""
    member = replace(_CAROL, label=label)
    with empty_history() as tables:
        for operation in as_they_may_come(operations):
            tables.add(operation, 1, 0)
        commands = GroupCommands(tables, _Manifests(), WITH_CAROL, _PINS, ())
        found = commands.new(member, ObeyedSince(since.id, since.height, since.log.incarnation), knows, _NOW)
        return [each.operation for each in found.given], [each.operation for each in found.lost]


def test_what_follows_its_word_is_a_devices_to_do_once() -> None:
    before, after = said(ALICE, order(1)), said(ALICE, order(2), _OBEYS)
    assert _new([before, _OBEYS, after]) == ([after.id], [])
    assert _new([before, _OBEYS, after], knows=lambda each: each == after.id) == ([], [])


def test_what_was_ordered_before_it_was_a_member_is_not_for_it() -> None:
    named_before = said(ALICE, order(1), _OBEYS)
    named_before = sign_operation(replace(named_before, manifest=WITH_BOB.hash), ALICE)
    named_since = said(ALICE, order(2), _OBEYS)
    assert _new([_OBEYS, named_before, named_since]) == ([named_since.id], [])


def test_what_is_for_a_label_is_for_who_has_it_when_it_was_ordered_and_now() -> None:
    ordered = said(ALICE, replace(order(1), selector=Selector(SelectorKind.LABEL, name="pump")), _OBEYS)
    ordered = sign_operation(replace(ordered, manifest=_CALLED.hash), ALICE)
    assert _new([_OBEYS, ordered], label="pump") == ([ordered.id], [])
    assert _new([_OBEYS, ordered]) == ([], [])


def test_of_what_it_may_have_done_in_lost_records_the_last_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_module, "LOST_COMMANDS", 2)
    history = [_OBEYS]
    for number in range(3):
        history.append(said(ALICE, order(number), history[-1]))
    second = said(CAROL, Obeying(), history[-1], log="another life")
    assert _new([*history, second], second) == ([], [each.id for each in history[2:]])
