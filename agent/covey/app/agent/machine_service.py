"""Run root's commands on the machine's state as the user who owns it, then start the service."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.adapters.services import enable, ended_as_owner, may_manage
from covey.adapters.state_path import SYSTEM_STATE

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder


class MachineService:
    """One service of the package; `managed` where this command may: root's, on the machine's own state."""

    def __init__(self, folder: StateFolder, unit: str, instead_of: str = "") -> None:
        """Look whether systemd runs here and knows the unit."""
        self._folder = folder
        self._unit = unit
        self._instead_of = instead_of
        self.managed = folder.path == SYSTEM_STATE and may_manage(unit)

    def after(self, act: Callable[[], int]) -> int:
        """Do something as the state's owner; if that succeeds, let the service continue. Return the exit code.

        Raises:
            TransientError: systemd does not start the service.
        """
        code = ended_as_owner(self._folder.path)
        if code is None:
            code = act()
        if code == 0 and self.managed and os.geteuid() == 0:  # and not in the process that has become the owner
            enable(self._unit, self._instead_of)
            report("notice", f"{self._unit} is running and starts at every boot")
        return code


def done_as_owner(folder: StateFolder) -> int | None:
    """Let a process of the state's user run root's command on the machine's own state; return its exit code.

    Otherwise new files would be root's, and unreadable for the agent. None: this process continues.
    """
    return ended_as_owner(folder.path) if folder.path == SYSTEM_STATE else None
