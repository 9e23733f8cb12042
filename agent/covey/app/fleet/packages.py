"""Which devices have a package: `covey fleet --has`, from the lists that this collector keeps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.ids import device_name
from covey.core.telemetry.packages import PackageQuery, unpacked
from covey.errors import MalformedError, RemoteError, UsageError

if TYPE_CHECKING:
    from covey.app.device.device import Device


@dataclass(frozen=True, slots=True)
class PackageOfDevice:
    """One package on one device."""

    device: str
    label: str
    name: str
    version: str
    reported_seconds: int
    """How long ago the device reported its packages."""


@dataclass(frozen=True, slots=True)
class FoundPackages:
    """The packages that a query finds, and the devices that have sent no list."""

    query: str
    packages: tuple[PackageOfDevice, ...]
    devices: int
    """How many devices have reported their packages."""
    unknown: tuple[str, ...]
    """Labels, or names, of devices that have reported none."""


def find_packages(device: Device, text: str) -> FoundPackages:
    """Look for a package on all members of this device's groups.

    Raises:
        UsageError: the text is no query.
    """
    try:
        query = PackageQuery.parse(text)
    except MalformedError as error:
        raise UsageError(f"--has: {error}", hint="covey fleet --has 'openssl<3.0.17'") from error
    members = {
        member.keys.signing_public: member.label
        for group in device.node.groups.joined()
        for member in group.members
        if not member.is_board
    }
    known, now_us = device.store.inventories.all(), device.clock.wall_us()
    found, reported = list[PackageOfDevice](), set[bytes]()
    for key, label in sorted(members.items(), key=lambda each: (each[1], each[0])):
        if key not in known:
            continue
        at_us, content = known[key]
        with suppress(RemoteError):
            packages = unpacked(content)
            reported.add(key)
            age = max(0, now_us - at_us) // 1_000_000
            found += [PackageOfDevice(device_name(key), label, *each, age) for each in query.of(packages)]
    unknown = tuple(label or device_name(key) for key, label in sorted(members.items()) if key not in reported)
    return FoundPackages(text, tuple(found), len(reported), unknown)
