"""Whether this machine is connected to any network at all, by its interfaces."""

from __future__ import annotations

from pathlib import Path

_INTERFACES = Path("/sys/class/net")


def is_unplugged(interfaces: Path = _INTERFACES) -> bool:
    """Say whether the machine has interfaces of its own, by cable or radio, and none of them has a link.

    Bridges, tunnels and what containers have are no interfaces of its own, and say nothing.
    """
    try:
        own = [each for each in interfaces.iterdir() if (each / "device").exists()]
    except OSError:
        return False
    return bool(own) and not any(_has_link(each) for each in own)


def _has_link(interface: Path) -> bool:
    try:
        return (interface / "carrier").read_text().strip() == "1"
    except OSError:  # one that is switched off does not say
        return False
