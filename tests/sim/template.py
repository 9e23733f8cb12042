"""The group that every seed begins with: made once, by the real protocol over a perfect wire."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.fleet import Device, found

MEMBERS = ("ann", "ben", "collector")
JOINER = "joiner"


@dataclass(frozen=True, slots=True)
class Template:
    """Database files by device name, and the group that they are in."""

    group_id: bytes
    files: dict[str, bytes]


@cache
def template() -> Template:
    """Return the states of three members of one group, and of a fourth device that is in none."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        members = [Device(name, Path(folder), collects=name == "collector") for name in MEMBERS]
        group_id = found(*members)
        devices = [*members, Device(JOINER, Path(folder))]
        for device in devices:
            assert device.store.totals()[0] == 0
            device.store.close()
        assert all(len(device.node.membership.group(group_id).members) == len(MEMBERS) for device in members)
        return Template(group_id, {device.name: device.path.read_bytes() for device in devices})


def fast_folder() -> str | None:
    """Return a folder in memory, where the machine has one: power cuts are the simulation's, not the disk's."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
