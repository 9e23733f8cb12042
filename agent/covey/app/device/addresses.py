"""Addresses with ports, as settings name them."""

from __future__ import annotations

from covey.errors import ConfigurationError


def host_and_port(text: str, name: str) -> tuple[str, int]:
    """Return the address and the port of a setting `name`.

    Raises:
        ConfigurationError: it is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise ConfigurationError(
            f"{name}: {text[:80]} is no address and port", hint=f"covey config set {name} HOST:PORT"
        )
    return host.strip("[]"), int(port)
