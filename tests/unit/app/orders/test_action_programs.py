"""`covey.app.orders.action_programs`: which words are programs, which Covey's own, and which the agent's."""

from __future__ import annotations

import os
import pwd
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.unit_programs import UnitProgram, UnitPrograms
from covey.app.orders.action_programs import ActionPrograms, agent_actions
from covey.app.telemetry.sensor_roles import Sensors
from covey.core.actions.definition import Invocation, ProgramBounds, UnitRights
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


@pytest.mark.processes
def test_covey_is_this_covey_on_this_state(tmp_path: Path) -> None:
    end = _ended(_start(ActionPrograms(tmp_path / "none", {}), "covey", "status"))
    assert end.code != 0
    assert str(tmp_path / "none").encode() in end.output


@pytest.mark.processes
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


class _Units(UnitPrograms):
    """Units of their own, as a test has them."""

    def __init__(self, *, there: bool) -> None:
        super().__init__(Path("/nowhere"))
        self.there = there
        self.started: list[tuple[str, ...]] = []

    def answer(self) -> bool:
        return self.there

    def start(self, invocation: Invocation, now_us: int) -> UnitProgram:
        self.started.append(invocation.argv)
        return UnitProgram(socket.socket(), now_us)


@pytest.mark.processes
def test_the_owners_programs_have_units_of_their_own_where_these_are(tmp_path: Path) -> None:
    units = _Units(there=True)
    programs = ActionPrograms(tmp_path, agent_actions(lambda: None, []), units)
    for argv in (("/bin/echo", "a"), ("covey", "status"), ("agent", "restart")):
        _start(programs, *argv).stop()
    assert units.started == [("/bin/echo", "a")]
    units.there = False
    assert _ended(_start(programs, "/bin/echo", "a b")).output == b"a b\n"


@pytest.mark.processes
def test_another_users_rights_are_not_the_agents_to_give(tmp_path: Path) -> None:
    programs = ActionPrograms(tmp_path, {}, _Units(there=False))
    own = pwd.getpwuid(os.geteuid()).pw_name
    echo = Invocation("test", {}, ("/bin/echo", "a"), _BOUNDS, UnitRights(user=own))
    assert _ended(programs.start(echo, 0)).code == 0
    with pytest.raises(ActionError, match=r"covey-action\.socket") as caught:
        programs.start(replace(echo, rights=UnitRights(user="nobody-knows")), 0)
    assert caught.value.code == NOT_STARTED
