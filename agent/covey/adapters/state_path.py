"""Where a device's state is, by this machine's conventions."""

from __future__ import annotations

import os
from pathlib import Path

from covey.errors import ConfigurationError

SYSTEM_STATE = Path("/var/lib/covey")
"""The state of the machine's own agent, as the packaged units run it."""
SYSTEM_RUN = Path("/run/covey")
"""Where the machine's own agent has its socket while it runs, wherever its state is."""
_AS_ROOT = (
    "run the command with sudo; without sudo, members of the agent's group can use status, publish, message and "
    "history while the agent runs"
)


def default_state() -> Path:
    """Return the folder that is meant where none is named: $COVEY_STATE, or the system's for root and who owns it."""
    if "COVEY_STATE" in os.environ:
        return Path(os.environ["COVEY_STATE"])
    if os.geteuid() in {0, _owner(SYSTEM_STATE)}:
        return SYSTEM_STATE
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "covey"


def check_holds_device(folder: Path, *names: str) -> None:
    """Check that this user may look into a state folder, and that one of some files of a device is in it.

    Raises:
        ConfigurationError: no device is there, or another user's; the hint says which command reaches the machine's.
    """
    try:
        if any((folder / each).exists() for each in names):
            return
    except PermissionError as error:
        raise ConfigurationError(f"{folder} belongs to another user", hint=_AS_ROOT) from error
    if folder != SYSTEM_STATE and os.path.lexists(SYSTEM_STATE):  # it may lead to where this user may not look
        raise ConfigurationError(
            f"there is no device in {folder}; the device of this machine is in {SYSTEM_STATE}", hint=_AS_ROOT
        )
    if os.path.lexists(SYSTEM_RUN):
        raise ConfigurationError(
            f"there is no device in {folder}; an agent of this machine has its state in another folder",
            hint=f"name that folder: --state DIR; {_AS_ROOT}",
        )
    raise ConfigurationError(
        f"there is no device in {folder}", hint="run 'covey init' or 'covey join' first, or name its folder: --state"
    )


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None
