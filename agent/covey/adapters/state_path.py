"""Where a device's state is, by this machine's conventions."""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM_STATE = Path("/var/lib/covey")
"""The state of the machine's own agent, as the packaged units run it."""


def default_state() -> Path:
    """Return the folder that is meant where none is named: $COVEY_STATE, or the system's for root and who owns it."""
    if "COVEY_STATE" in os.environ:
        return Path(os.environ["COVEY_STATE"])
    if os.geteuid() in {0, _owner(SYSTEM_STATE)}:
        return SYSTEM_STATE
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "covey"


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None
