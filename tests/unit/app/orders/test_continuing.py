"""`covey.app.orders.continuing`: what was given and deleted since is not given a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.actions.results import CommandState, OrderResult
from covey.core.history.kinds import OperationKind
from covey.core.ids import GroupId
from tests.command import Here
from tests.operated_fleet import OperatedFleet


@pytest.fixture(scope="module")
def made_fleet(tmp_path_factory: pytest.TempPathFactory) -> OperatedFleet:
    return OperatedFleet(tmp_path_factory.mktemp("fleet"), groups=3, devices=2)


@pytest.fixture
def fleet(made_fleet: OperatedFleet, tmp_path: Path) -> OperatedFleet:
    return made_fleet.copied(tmp_path)


def _report(fleet: OperatedFleet, own: Here, group_id: GroupId) -> None:
    """Have the first device of a group report that it has done all commands."""
    with fleet.open(own) as opened, opened.store.transaction():
        for stored in opened.store.operations.of_kind(group_id, OperationKind.COMMAND):
            result = OrderResult(stored.id, CommandState.DONE, 4, 7, 5, synchronised=True, exit=0)
            opened.node.order_results.keep(group_id, fleet.devices[group_id][0], result, opened.now())


@pytest.mark.slow
@pytest.mark.parametrize("by_key", [False, True])
def test_an_order_that_was_deleted_in_a_group_is_not_given_there_again(fleet: OperatedFleet, *, by_key: bool) -> None:
    keys = ",".join(fleet.devices[each][0].hex() for each in fleet.groups)
    plan = fleet.laptop.json("order", "run", "greet", "--fleet", "--for", keys if by_key else "label:device-0")["id"]
    first, *others = fleet.groups
    _report(fleet, fleet.laptop, first)
    fleet.delete_covered(fleet.laptop, first)
    assert fleet.laptop.json("order", "list", "--group", first.hex()) == []
    shown = fleet.laptop.ok("order", "show", plan)
    assert f"this device deleted its order in: {first.hex()[:8]}" in shown
    assert "covey order continue" not in shown
    assert fleet.laptop.json("order", "continue", plan[:8])["given"] == []
    for each in others:
        _report(fleet, fleet.laptop, each)
        fleet.delete_covered(fleet.laptop, each)
    for what in ("show", "approve"):
        assert "this device deleted the orders of plan" in fleet.laptop.fails("order", what, plan, code=1)
    assert fleet.laptop.json("order", "continue", plan[:8])["given"] == []


@pytest.mark.slow
def test_an_order_like_a_deleted_one_is_given_where_it_is_missing(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    words = ("order", "run", "greet", "--fleet", "--for", "label:device-0")
    earlier = fleet.laptop.json(*words)["id"]
    fleet.carry([fleet.personal, *fleet.groups])
    first, *_ = fleet.groups
    _report(fleet, fleet.phone, first)
    fleet.delete_covered(fleet.phone, first)
    later = fleet.laptop.json(*words)["id"]
    other = fleet.laptop.json("order", "run", "greet", "--fleet", "--for", "label:device-1")["id"]
    fleet.carry([fleet.personal])
    given = [fleet.phone.json("order", "continue", each[:8])["given"] for each in (earlier, later, other)]
    assert [len(each) for each in given] == [0, len(fleet.groups), len(fleet.groups)]


@pytest.mark.slow
def test_of_two_like_orders_the_one_that_never_came_is_given(fleet: OperatedFleet) -> None:
    """The laptop was lost before anybody heard of its second order, and a checkpoint was made since."""
    assert fleet.phone is not None
    words = ("order", "run", "greet", "--fleet", "--for", "label:device-0")
    earlier = fleet.laptop.json(*words)["id"]
    fleet.laptop.ok("history", "post", "the last of its log stays", "--fleet")
    fleet.carry(fleet.groups)
    later = fleet.laptop.json(*words)["id"]
    fleet.carry([fleet.personal])
    first, *_ = fleet.groups
    _report(fleet, fleet.phone, first)
    fleet.delete_covered(fleet.phone, first)
    assert fleet.phone.json("order", "list", "--group", first.hex()) == []
    given = [fleet.phone.json("order", "continue", each[:8])["given"] for each in (earlier, later)]
    assert [len(each) for each in given] == [0, len(fleet.groups)]


@pytest.mark.slow
def test_a_setting_that_was_replaced_and_deleted_is_not_missing(fleet: OperatedFleet) -> None:
    words = ("setting", "set", "app.mode")
    plan = fleet.laptop.json(*words, "eco", "--fleet", "--for", "label:device-0")["id"]
    first, *_ = fleet.groups
    fleet.laptop.ok(*words, "full", "--for", "label:device-0", "--group", first.hex())
    fleet.delete_covered(fleet.laptop, first)
    assert len(fleet.laptop.json("order", "list", "--group", first.hex())) == 1
    assert fleet.laptop.json("order", "show", plan)["missing"] == []
