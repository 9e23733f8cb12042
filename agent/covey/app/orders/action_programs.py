"""How the words of an action become a program: the owner's, this Covey's own command line, or the agent itself.

The owner's runs in a systemd unit of its own where `covey-action.socket` is there, and as a child of the agent
elsewhere. Covey's own command line is a child always: it is the agent's own program, on the agent's own state. So is an
installer: what it reads is the agent's.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.programs import ChildPrograms, own_command
from covey.adapters.unit_programs import UnitPrograms
from covey.config.actions import AGENT, COVEY
from covey.core.actions.definition import Invocation, UnitRights
from covey.core.actions.results import NOT_STARTED
from covey.errors import ActionError
from covey.ports import ProgramEnd, RunningProgram

if TYPE_CHECKING:
    from covey.app.loop.runtime import AgentRole

UNIT = "covey-action.socket"


class ActionPrograms:
    """Has them run; implements `ports.Programs`."""

    def __init__(self, state: Path, agent: Mapping[str, Callable[[], None]], units: UnitPrograms | None = None) -> None:
        self._state = state
        self._agent = agent
        self._units = units
        self._children = ChildPrograms()

    def start(self, invocation: Invocation, now_us: int) -> RunningProgram:
        first, *words = invocation.argv
        if first == AGENT:
            act = self._agent.get(" ".join(words))
            if act is None:
                raise ActionError(f"this agent has no program to {' '.join(words)}", NOT_STARTED)
            act()
            return EndedProgram(ProgramEnd(0, b"", cut=False, timed_out=False))
        if first == COVEY:
            return self._children.start(replace(invocation, argv=own_command(words, self._state)), now_us)
        if self._units is not None and not invocation.step and self._units.answer():
            return self._units.start(invocation, now_us)
        if needs_unit(invocation.rights, os.geteuid()):
            why = f"it needs the rights of {invocation.rights.user}, which {UNIT} alone gives it"
            raise ActionError(f"{why}: that is not enabled here", NOT_STARTED, hint=f"systemctl enable --now {UNIT}")
        return self._children.start(invocation, now_us)


def needs_unit(rights: UnitRights, agent: int) -> bool:
    """Say whether an action cannot be a child of an agent that runs as a user: it is another user's."""
    if not rights.user:
        return False
    try:
        return pwd.getpwnam(rights.user).pw_uid != agent
    except KeyError:
        return True


@dataclass(frozen=True, slots=True)
class EndedProgram:
    """What the agent did itself; implements `ports.RunningProgram`."""

    end: ProgramEnd

    def look(self, now_us: int) -> ProgramEnd:  # noqa: ARG002 - it has ended at any time
        """Return that it is done."""
        return self.end

    def stop(self) -> ProgramEnd:
        """Return that it is done."""
        return self.end


def agent_actions(restart: Callable[[], None], roles: Sequence[AgentRole]) -> dict[str, Callable[[], None]]:
    """Return the agent's own actions: restart; and read its sensors, if it has any."""
    from covey.app.telemetry.sensor_roles import Sensors

    found: dict[str, Callable[[], None]] = {"restart": restart}
    for role in roles:
        if isinstance(role, Sensors):
            found["read"] = role.read_now
    return found
