"""Which way a command takes to the device: through the agent that answers on its socket, or into its state (ADR 0010).

1. The state folder is the one that every command finds (`device.state_folder`), and its settings name the socket.
   Of /var/lib/covey it is the packaged units' where the settings name none.
2. Who may not read those settings, or has no device and names none, means the machine's agent: $COVEY_API_SOCKET,
   or else the packaged units' socket.
3. Through the agent where one answers there; into the state otherwise.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.state_folder import SYSTEM_STATE
from covey.app.daemon import wait_until
from covey.client import SYSTEM_SOCKET, Client

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.app.device import Device
    from covey.config.settings import Config

_LOOK_S = 0.25


def answering_agent(folder: StateFolder, *, named: bool) -> Client | None:
    """Return the agent to ask, or None where a command works on the state itself; `named`: a person named the state.

    Raises:
        AgentUnreachableError: this user may neither ask the agent nor read the state.
        ConfigurationError: the settings are wrong.
    """
    if not os.access(folder.config_path, os.R_OK):
        if (
            (named or "COVEY_STATE" in os.environ)
            and folder.path != SYSTEM_STATE
            and "COVEY_API_SOCKET" not in os.environ
        ):
            return None
        client = Client(os.environ.get("COVEY_API_SOCKET", SYSTEM_SOCKET))
        return client if client.answers() else None
    path = socket_path(folder, folder.config())
    if path is None or not folder.path.is_dir() or not folder.agent_runs():
        return None
    client = Client(path)
    return client if client.answers() else None


def socket_path(folder: StateFolder, config: Config) -> Path | None:
    """Return where this state's agent answers."""
    if config.api.socket:
        return folder.path / config.api.socket
    return Path(SYSTEM_SOCKET) if folder.path == SYSTEM_STATE else None


def waiting_at(agent: Client, seconds: float) -> int:
    """Give an agent so long to deliver all that waits; return how many messages still do."""
    deadline = time.monotonic() + seconds
    while (waiting := int(agent.status()["outbox"]["messages"])) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return waiting


def waiting_after(device: Device, seconds: float) -> int:
    """Do the same, with the relay itself where no agent runs."""
    wait_until(device, lambda: device.store.outbox.totals()[0] == 0, seconds)
    return device.store.outbox.totals()[0]
