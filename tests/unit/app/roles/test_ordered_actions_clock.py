"""A deadline needs a clock that is right: how long an agent that has just started waits for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.actions import results
from covey.limits.actions import CLOCK_SETTLES_US
from tests.unit.app.roles.test_ordered_actions import Fleet


@pytest.mark.parametrize("comes_right", [True, False])
def test_a_deadline_waits_for_the_clock_as_long_as_one_takes_to_come_right_after_a_start(
    tmp_path: Path, *, comes_right: bool
) -> None:
    fleet = Fleet(tmp_path)
    fleet.obey()
    machine = fleet.machine
    machine.knows_the_time = False
    machine.restart()
    machine.turn(0)
    order = fleet.order(deadline_us=fleet.ben.now.wall_us + 3_600_000_000)
    machine.turn(CLOCK_SETTLES_US / 1_000_000 - 1)
    assert machine.result(order) == ("WAITING", "")
    machine.knows_the_time = comes_right
    machine.turn(1)
    assert machine.result(order) == (("BEGUN", "") if comes_right else ("REFUSED", results.CLOCK))
