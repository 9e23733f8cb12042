"""Run root's commands on the machine's state as the user who owns it, then start the service."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
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
        code = ended_as_owner(self._folder.path, partial(_read_keys, self._folder))
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
    return ended_as_owner(folder.path, partial(_read_keys, folder)) if folder.path == SYSTEM_STATE else None


def done_as_owner_of_seal(folder: StateFolder, seal: str | None) -> int | None:
    """As `done_as_owner`, for keeping the key another way: root makes and removes systemd's credential.

    Raises:
        TransientError: systemd, or the TPM, refuses to make it.
        StorageError: it cannot be removed.
    """
    from covey.adapters.keys import systemd_seal

    if os.geteuid() == 0 and seal == "systemd":
        systemd_seal.prepare()
    elif os.geteuid() == 0 and seal == "best" and folder.path == SYSTEM_STATE:
        systemd_seal.prepare_if_bound()
    code = done_as_owner(folder)
    if code == 0 and seal not in {None, "best", "systemd"}:
        systemd_seal.forget()
    return code


def _read_keys(folder: StateFolder) -> None:
    """As root, read the key that systemd opens for root only; a new device may be sealed by it."""
    from covey.adapters.keys import systemd_seal

    if folder.is_new:
        systemd_seal.prepare_if_bound()
    else:
        systemd_seal.hold()
