"""Configured web addresses: parse them, recognise this machine's own, and explain failures."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from covey.errors import ConfigurationError


def web_address(text: str, name: str, ports: Mapping[str, int]) -> SplitResult:
    """Return an address of one of these schemes.

    Raises:
        ConfigurationError: it is none, or has a password in it.
    """
    try:
        url = urlsplit(text)
        if url.scheme in ports and url.hostname and url.port != 0 and url.password is None and text.isprintable():
            return url
    except ValueError:
        pass
    raise ConfigurationError(
        f"{name} must be a {' or '.join(f'{each}://' for each in ports)} address without a password"
    )


def is_this_machine(url: SplitResult) -> bool:
    """Say whether what is sent there crosses no network."""
    try:
        return url.hostname == "localhost" or ipaddress.ip_address(url.hostname or "").is_loopback
    except ValueError:
        return False
