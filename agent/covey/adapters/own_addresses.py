"""The names and addresses by which others may reach this machine."""

from __future__ import annotations

import ipaddress
import socket

import psutil

_SOMEWHERE = ("192.0.2.1", 9)
"""RFC 5737: an address outside; nothing is sent there."""


def own_addresses() -> list[str]:
    """Return this machine's addresses, the one that it would use to go outside first; none of loopback or one link."""
    found = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in {socket.AF_INET, socket.AF_INET6} and _reachable(address.address)
    ]
    found.sort(key=lambda each: ":" in each)
    outside = _outside()
    return sorted(found, key=lambda each: each != outside)


def asking_addresses() -> list[str]:
    """Return the IPv4 addresses by whose interfaces this machine asks its networks, itself included.

    Where a sandbox hides the interfaces, it is the one that the system would choose.
    """
    try:
        found = [each for each in own_addresses() if ":" not in each]
    except OSError:
        found = ["0.0.0.0"]  # noqa: S104 - not to listen at: the interface of the default route
    return [*found, "127.0.0.1"]


def own_names() -> list[str]:
    """Return this machine's name, and how mDNS says it."""
    name = socket.gethostname()
    return [name] if "." in name else [name, f"{name}.local"]


def _reachable(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    return not (address.is_loopback or address.is_link_local)


def _outside() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
        except OSError:
            return ""
        return str(probe.getsockname()[0])
