"""Where the agent of a state answers its local API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.state_path import SYSTEM_STATE
from covey.client import SYSTEM_SOCKET

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.config.schema import Config


def socket_path(folder: StateFolder, config: Config) -> Path | None:
    """Return where this state's agent answers; None where the configuration names no socket."""
    if config.api.socket:
        return folder.path / config.api.socket
    return Path(SYSTEM_SOCKET) if folder.path == SYSTEM_STATE else None
