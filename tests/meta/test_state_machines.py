"""The transition tables: nothing in them is out of reach or without an end, and docs/state-machines.md shows them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from docs.state_machines import MACHINES, PAGE, Machine, drawn


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
def test_each_state_gets_to_an_end(machine: Machine) -> None:
    for state in machine.table:
        assert _reached(state, machine.table) & set(machine.ends), state
