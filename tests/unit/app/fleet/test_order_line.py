"""Orders and releases on a time line: waves, what came when, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from covey.app.device.device import Device, find_state, open_device
from covey.app.fleet.dashboard import Dashboard
from covey.app.fleet.order_line import GatheredLine, OrderLine, parts_of, results_of
from covey.app.orders.fleet import Scope, administered
from covey.app.orders.releases import PlannedPart, begin, go_on, plan_release, read_waves
from covey.core.actions.results import REPEATED, CommandState, OrderResult
from covey.core.ids import OperationId
from covey.errors import LocalError
from tests.operated_fleet import OperatedFleet
from tests.sealed import sealed

_HOUR_US = 3_600_000_000


@pytest.fixture
def fleet(tmp_path: Path) -> OperatedFleet:
    return OperatedFleet(tmp_path, groups=2, devices=4, phone=False)


@contextmanager
def _opened(fleet: OperatedFleet) -> Iterator[tuple[Device, Scope]]:
    with fleet.open(fleet.laptop) as opened:
        yield opened, Scope(administered(opened), fleet=True)


def _begin(fleet: OperatedFleet) -> str:
    with _opened(fleet) as (opened, scope):
        plans = plan_release(opened, scope.groups, "all", read_waves("1,100%"), 30, _HOUR_US, 0, 0)
        parts = [PlannedPart(group, plan, sealed(opened, group)) for group, plan in plans]
        return begin(opened, scope, "install", parts, "all").id


def _line(fleet: OperatedFleet, name: str, span: str = "all", from_us: int = 0, later_us: int = 0) -> OrderLine:
    with _opened(fleet) as (opened, scope):
        entry, parts = parts_of(opened, scope.groups, name)
        found = GatheredLine(entry, parts, opened.clock.wall_us() + later_us, span, from_us)
        for each in parts:
            found.add(each, results_of(opened, each))
        return found.line()


@pytest.mark.slow
def test_waves_of_all_groups_are_on_one_line_with_what_came_when(fleet: OperatedFleet) -> None:
    name = _begin(fleet)
    found = _line(fleet, name)
    assert [(each.number, each.devices, each.outcomes, each.last_at_us) for each in found.waves] == [(1, 1, {}, None)]
    fleet.report(fleet.laptop)
    [first] = _line(fleet, name).newest
    with _opened(fleet) as (opened, scope):
        go_on(opened, scope.groups, name)
    failing = next(each for each in fleet.devices[fleet.groups[1]] if each.hex() != first.device)
    reported = fleet.report(fleet.laptop, failing=[failing])
    found = _line(fleet, name)
    assert [(each.number, each.devices, sum(each.outcomes.values())) for each in found.waves] == [(1, 1, 1), (2, 7, 7)]
    assert (reported, found.devices, found.groups, found.reports, found.counts) == (7, 8, 2, True, True)
    assert (found.outcomes, [each.device for each in found.failures]) == ({"done": 7, "failed": 1}, [failing.hex()])
    assert (sum(found.good), sum(found.bad), found.before, len(found.good)) == (7, 1, 0, 60)
    assert len(found.newest) == 8
    assert found.newest[0].at_us == max(each.at_us for each in found.newest)


@pytest.mark.slow
def test_an_hour_a_day_and_a_week_begin_where_asked(fleet: OperatedFleet) -> None:
    name = _begin(fleet)
    fleet.report(fleet.laptop)
    given_us = _line(fleet, name).given_at_us
    for span, intervals, step_us in (
        ("hour", 60, _HOUR_US // 60),
        ("day", 48, _HOUR_US // 2),
        ("week", 56, 3 * _HOUR_US),
    ):
        found = _line(fleet, name, span)
        assert (len(found.good), found.step_us, found.since_us, sum(found.good)) == (intervals, step_us, given_us, 1)
    later = _line(fleet, name, "day", given_us + 24 * _HOUR_US)
    assert (sum(later.good), later.before, later.outcomes) == (0, 1, {"done": 1})
    assert _line(fleet, name, later_us=600 * _HOUR_US).step_us > 10 * _HOUR_US - 1


@pytest.mark.slow
def test_an_order_of_one_group_and_a_setting(fleet: OperatedFleet) -> None:
    group = fleet.groups[0].hex()
    setting = fleet.laptop.json("setting", "set", "telemetry.batch_seconds", "20", "--for", "all", "--group", group)[
        "id"
    ]
    found = _line(fleet, setting)
    assert (found.reports, found.devices, found.what) == (False, 0, "telemetry.batch_seconds = 20 for all")
    order = fleet.laptop.json("order", "run", "tidy", "--for", "all", "--group", group)["id"]
    key = fleet.devices[fleet.groups[0]][0]
    with fleet.open(fleet.laptop) as opened, opened.store.transaction():
        now_us = opened.now().wall_us
        refused = OrderResult(
            OperationId(bytes.fromhex(order)), CommandState.REFUSED, now_us, now_us, code=REPEATED, why="did it before"
        )
        opened.node.order_results.keep(fleet.groups[0], key, refused, opened.now())
    found = _line(fleet, order)
    assert (found.reports, found.outcomes, [each.why for each in found.failures]) == (
        True,
        {"refused": 1},
        ["did it before"],
    )
    assert found.devices > len(fleet.devices[fleet.groups[0]]) - 1


@pytest.mark.slow
def test_the_page_asks_for_it_by_its_whole_id(fleet: OperatedFleet) -> None:
    name = _begin(fleet)
    dashboard = Dashboard(lambda: open_device(find_state(str(fleet.laptop.state))), None, _HOUR_US, 0.2)
    dashboard.look()
    found = dashboard.order({"id": name, "span": "day", "from": "no number"})
    assert (found["id"], len(found["waves"]), found["acts"]) == (name, 1, True)
    for wrong in ("", name[:8], "0" * len(name), "0" * 64):
        with pytest.raises(LocalError):
            dashboard.order({"id": wrong})
