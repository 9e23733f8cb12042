"""Where the agent of a state answers its local API; and addresses with ports, as settings name them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.state_path import SYSTEM_STATE
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.config.schema import Config


def host_and_port(text: str, name: str) -> tuple[str, int]:
    """Return the address and the port of a setting `name`.

    Raises:
        ConfigurationError: it is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not {*"/@ "}.isdisjoint(host) or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise ConfigurationError(f"{name}: {text[:80]} is not HOST:PORT", hint=f"covey config set {name} HOST:PORT")
    return host.strip("[]"), int(port)


def socket_path(folder: StateFolder, config: Config) -> Path | None:
    """Return where this state's agent answers; None where the configuration names no socket."""
    if config.api.socket:
        return folder.path / config.api.socket
    if folder.path != SYSTEM_STATE:
        return None
    from covey.client_calls import SYSTEM_SOCKET  # an agent is spared what asks one: 1 MiB with an HTTP client

    return Path(SYSTEM_SOCKET)
