"""`covey.app.action_programs`: which words are programs, which Covey's own, and which the agent's."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.action_programs import ActionPrograms, agent_actions
from covey.app.roles.sensors import Sensors
from covey.core.actions.definition import Invocation, ProgramBounds
from covey.core.actions.results import NOT_STARTED
from covey.errors import ActionError
from covey.limits.units import MIB
from covey.ports import ProgramEnd, RunningProgram
from tests.waiting import wait_until

_BOUNDS = ProgramBounds(60_000_000, 1_024 * MIB)


def _start(programs: ActionPrograms, *argv: str) -> RunningProgram:
    return programs.start(Invocation("test", {}, argv, _BOUNDS), 0)


def _ended(running: RunningProgram) -> ProgramEnd:
    found: list[ProgramEnd] = []

    def ends() -> bool:
        end = running.look(0)
        found.extend([end] if end else [])
        return bool(found)

    wait_until(ends)
    return found[0]


def test_covey_is_this_covey_on_this_state(tmp_path: Path) -> None:
    end = _ended(_start(ActionPrograms(tmp_path / "none", {}), "covey", "status"))
    assert end.code != 0
    assert str(tmp_path / "none").encode() in end.output


def test_a_path_is_a_program(tmp_path: Path) -> None:
    assert _ended(_start(ActionPrograms(tmp_path, {}), "/bin/echo", "a b")).output == b"a b\n"


def test_the_agent_does_what_it_can_and_nothing_else(tmp_path: Path) -> None:
    done: list[str] = []
    programs = ActionPrograms(tmp_path, agent_actions(lambda: done.append("restart"), []))
    assert _start(programs, "agent", "restart").stop().code == 0
    assert done == ["restart"]
    with pytest.raises(ActionError) as caught:
        _start(programs, "agent", "read")
    assert caught.value.code == NOT_STARTED


def test_an_agent_with_sensors_can_read_them() -> None:
    sensors = Sensors(list, None, 1_000_000, lambda _level, _line: None)  # type: ignore[arg-type] # it publishes nothing
    assert {*agent_actions(lambda: None, [sensors])} == {"restart", "read"}
