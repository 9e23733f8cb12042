"""Every state can be reached and left, and docs/internals/state-machines.md shows the transition tables."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from docs.internals.state_machines import MACHINES, PAGE, Machine, drawn

GOES_ON = {"LINK": ["Up"]}
"""Machines without an end, and the states that each of their states must be able to get to."""


def _reached(start: str, table: Mapping[str, Mapping[str, str]]) -> set[str]:
    found, waiting = set(), [start]
    while waiting:
        state = waiting.pop()
        if state not in found:
            found.add(state)
            waiting += table[state].values()
    return found


def test_the_page_shows_every_table_as_it_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(page.count(f"<!-- drawn from {name} -->") == 1 for name in MACHINES)
    assert page == drawn(page), "./dev diagrams"


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_each_state_is_reached(machine: Machine) -> None:
    assert _reached(machine.start, machine.table) == set(machine.table)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_no_state_is_a_trap(machine: Machine) -> None:
    """Each state gets to an end, or, in a machine that goes on for good, back to the start of its work."""
    goals = set(machine.ends) or set(GOES_ON[machine.name])
    for state in machine.table:
        assert _reached(state, machine.table) & goals, state


def test_only_machines_that_run_forever_have_no_final_state() -> None:
    assert {name for name, machine in MACHINES.items() if not machine.ends} == set(GOES_ON)
