"""What needs a clock: a deadline one that is right, and a program that runs looks in good time."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.actions import results
from covey.limits.actions import CLOCK_SETTLES_US
from tests.unit.app.orders.test_ordered_actions import Fleet


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


def test_a_program_is_looked_at_soon_after_its_begin_and_ever_less_often(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.obey()
    machine, ben = fleet.machine, fleet.ben
    fleet.order()
    machine.turn(0)
    rests: list[float] = []
    while sum(rests) < 3:
        due_us = machine.role.turn(ben.node, ben.now)
        assert due_us is not None
        rests.append((due_us - ben.now.monotonic_us) / 1_000_000)
        ben.wait(rests[-1])
    assert (rests[0], rests[-1]) == (0.01, 0.2)
    assert rests == sorted(rests)
    assert all(rest <= 0.01 + sum(rests[:index]) / 8 for index, rest in enumerate(rests))
    assert len(rests) < 50
