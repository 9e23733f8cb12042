"""`covey.core.settings.desired`: what its author has replaced does not come back, and what others have set does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from covey.adapters.sqlite.store import empty_history
from covey.core.history.operation import Operation, sign_operation
from covey.core.history.orders import Approval, Scalar, SettingOrder
from covey.core.ids import GroupId
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.settings.desired import GroupSettings, desired, read_order, reported
from covey.core.settings.ordered import OrderedSetting
from covey.core.settings.secrets import seal_value
from covey.core.settings.states import ReportedSetting, SettingState
from tests.vectors.makers.cast import ALICE, BOB, CAROL
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.orders import adds, as_they_may_come, removes, said

_PINS = Pins(frozenset({ALICE.signing_public}))
_CAROL = Selector(SelectorKind.DEVICES, devices=(CAROL.signing_public,))
_OPERATOR = said(ALICE, adds(BOB))


def _mode(value: Scalar | None, selector: Selector = EVERYBODY) -> SettingOrder:
    return SettingOrder(selector, "app.mode", value)


def _sealed() -> bytes:
    return seal_value("x", [BOB.noise_public], WITH_CAROL.group_id, ALICE.signing_public, "app.mode", EVERYBODY, bytes)


def _holds(operations: Iterable[Operation], pins: Pins = _PINS) -> Scalar | None:
    """Return what holds for Carol."""
    with empty_history() as tables:
        for operation in as_they_may_come(operations):
            tables.add(operation, 1, 0)
        member = WITH_CAROL.member(CAROL.signing_public)
        assert member is not None
        found = GroupSettings(tables, WITH_CAROL, pins, ()).of([member])[CAROL.signing_public]
    return found["app.mode"].order.value if found else None


@pytest.mark.parametrize("selector", [EVERYBODY, _CAROL], ids=["all", "one"])
def test_a_value_that_its_author_replaced_stays_replaced(selector: Selector) -> None:
    by_alice = said(ALICE, _mode("eco"), _OPERATOR)
    first = said(BOB, _mode("full", selector), by_alice)
    later = said(BOB, _mode("off", selector), first)
    history = [_OPERATOR, by_alice, first]
    assert _holds(history) == "full"
    assert _holds([*history, later]) == "off"
    removal = said(ALICE, removes(BOB), first)
    assert _holds([*history, removal]) == "full", "who removed its author knew of it"
    assert _holds([*history, later, removal]) == "eco", "nor that beside the removal, nor what that replaced"


def test_a_setting_of_another_key_replaces_nothing() -> None:
    first = said(BOB, _mode("full"), _OPERATOR)
    assert _holds([_OPERATOR, first, said(BOB, SettingOrder(EVERYBODY, "app.limit", 5), first)]) == "full"


def test_a_setting_for_others_does_not_apply() -> None:
    others = Selector(SelectorKind.DEVICES, devices=(BOB.signing_public,))
    first = said(ALICE, _mode("full", others))
    assert _holds([first]) is None
    for_all = said(ALICE, _mode("eco"), first)
    assert _holds([first, for_all, said(ALICE, _mode("off", others), for_all)]) == "eco"


@pytest.mark.parametrize("step", [1, -1])
def test_of_several_groups_what_was_given_at_the_same_time_holds_by_its_id(step: int) -> None:
    given = sorted((read_order(said(ALICE, _mode(each)).raw) for each in "abcd"), key=lambda each: each.operation.id)
    assert [each.operation for each in desired(given[::step])] == [given[-1].operation.id]


@pytest.mark.parametrize("step", [1, -1])
def test_of_several_groups_what_was_given_last_holds(step: int) -> None:
    given = [
        read_order(sign_operation(replace(said(ALICE, _mode(each)), made_at_us=at_us), ALICE).raw)
        for at_us, each in ((7, "eco"), (8, "full"))
    ]
    assert [each.value for each in desired(given[::step])] == ["full"]


@pytest.mark.parametrize(
    ("first", "later", "agrees"),
    [("eco", "eco", True), ("eco", "full", False), (1, True, False), (None, None, True), (None, "eco", False)],
)
def test_each_group_hears_of_its_own_order(first: Scalar | None, later: Scalar | None, agrees: bool) -> None:
    groups = GroupId(b"a" * 32), GroupId(b"b" * 32)
    given = [
        read_order(sign_operation(replace(said(ALICE, _mode(value)), group_id=group, made_at_us=at_us), ALICE).raw)
        for group, (at_us, value) in zip(groups, enumerate((first, later)), strict=True)
    ]
    wanted = desired(given)
    [holds] = wanted
    assert holds.operation == given[1].operation.id
    assert reported([], wanted) == {}, "it has yet to look"
    held = OrderedSetting("app.mode", groups[1], holds.operation, ALICE.signing_public, SettingState.REFUSED, None)
    state = replace(held, code="program", why="too cold")
    by_group = reported([state], wanted)
    assert by_group[groups[1]] == [state.reported]
    replaced = ReportedSetting("app.mode", given[0].operation.id, SettingState.REPLACED)
    same = replace(state.reported, operation=given[0].operation.id)
    assert by_group[groups[0]] == [same if agrees else replaced]


def test_sealed_values_are_never_the_same() -> None:
    sealed = SettingOrder(EVERYBODY, "app.mode", sealed=_sealed())
    given = [
        read_order(sign_operation(replace(said(ALICE, sealed), group_id=GroupId(each * 32)), ALICE).raw)
        for each in (b"a", b"b")
    ]
    [holds] = desired(given)
    assert [each.agrees for each in holds.outweighs] == [False]


def test_an_other_operators_value_comes_back() -> None:
    first = said(BOB, _mode("full", _CAROL), _OPERATOR)
    for_all = said(BOB, _mode("off"), first)
    removal = said(ALICE, removes(BOB), first)
    assert _holds([_OPERATOR, first, for_all, removal]) is None, "what is for all replaces what is for some"
    narrower = said(BOB, _mode("off", _CAROL), said(BOB, _mode("full"), _OPERATOR))
    before = said(BOB, _mode("full"), _OPERATOR)
    removal = said(ALICE, removes(BOB), before)
    assert _holds([_OPERATOR, before, narrower, removal]) == "full", "what is for some replaces nothing that is for all"


def test_an_author_that_knew_of_its_removal_replaces_nothing() -> None:
    first = said(BOB, _mode("full"), _OPERATOR)
    removal = said(ALICE, removes(BOB), first)
    later = said(BOB, _mode("off"), removal)
    assert _holds([_OPERATOR, first, removal, later]) == "full"


def test_one_operator_alone_replaces_nothing_where_several_agree() -> None:
    pins = Pins(frozenset({ALICE.signing_public, BOB.signing_public}), 2)
    first = said(BOB, _mode("full"))
    agreed = said(ALICE, Approval(first.id), first)
    later = said(BOB, _mode("off"), agreed)
    assert _holds([first, agreed, later], pins) == "full"
