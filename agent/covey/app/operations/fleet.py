"""The fleet as this device knows it: who is there, what each said last, what waits, what was lost.

What a collector does not hold in its state it reads from the newest part of its vault: looking costs the agent nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from covey.app.fleet_documents import Fleet, FleetDevice, FleetGroup, FleetTrouble, FleetValue, FleetVersion
from covey.app.newest_readings import NewestOfDevice, NewestReadings
from covey.app.operations.fleet_devices import AWAY, HERE, NOTHING, SELF, FleetDevices, value_of
from covey.app.operations.fleet_orders import RecentOrders
from covey.app.operations.fleet_roll_outs import RollOuts, newest_files
from covey.app.operations.fleet_troubles import troubles_of
from covey.app.operations.invitations import waiting_invitations
from covey.app.queries import own_condition
from covey.app.wording import count
from covey.core.group.manifest import Member
from covey.core.ids import DeviceKey

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.operations.vault import VaultWriter

ALWAYS_US = 3_600_000_000
"""So much of the vault is always looked at; what is older only as long as somebody is missing in it."""

_LATELY_US = 20 * 3_600_000_000
_VERSIONS = 8
"""Versions that are named; of a fleet that runs more of them, those that most devices run."""


class FleetView:
    """The fleet, looked at once or again and again: what was read of the vault is not read a second time."""

    def __init__(self) -> None:
        self._newest = NewestReadings()
        self._orders = RecentOrders()
        self._roll_outs = RollOuts()

    def look(
        self,
        device: Device,
        location: str | None,
        since_us: int,
        *,
        values: bool = True,
        always_us: int = ALWAYS_US,
        reads: bool = True,
    ) -> Fleet:
        """Return the fleet as it is now.

        Args:
            device: whose groups are meant.
            location: of the vault; None for the configured one.
            since_us: how far back to look in the vault at most.
            values: whether the devices have their last values.
            always_us: how far back to look although something of every device is found.
            reads: whether to look at the vault; else what earlier looks have found there counts.

        Raises:
            StorageError: the vault cannot be read.
        """
        members, now_us = _members(device), device.clock.wall_us()
        has_keys = device.folder.vault_key.exists()
        if has_keys and reads:
            _look(device, location, now_us - since_us, now_us - always_us, self._newest, set(members))
        own = own_condition(device)
        devices = tuple(FleetDevices(device, self._newest, now_us, listens=own.listens).of(members, values=values))
        releases, rollbacks = self._roll_outs.releases(device), self._roll_outs.rollbacks(device)
        troubles = [*troubles_of(own, devices, releases, rollbacks, self._newest, _writers(device, self._newest))]
        if has_keys and reads and self._newest.is_empty:
            troubles.append(FleetTrouble("nothing has landed in the vault yet", "covey vault status"))
        versions = Counter(each.version.partition(";")[0] for each in devices if each.version)
        return Fleet(
            now_us,
            _summary(devices, has_keys and reads, now_us),
            devices,
            tuple(_groups(device, devices)),
            self._orders.look(device),
            tuple(waiting_invitations(device)) if own.waiting_invitations else (),
            tuple(troubles),
            has_keys,
            own.listens,
            is_read=reads or not has_keys,
            releases=releases,
            rollbacks=rollbacks,
            files=newest_files(device),
            versions=tuple(FleetVersion(*each) for each in versions.most_common(_VERSIONS)),
        )

    def values_of(self, key: DeviceKey) -> tuple[FleetValue, ...]:
        """Return the last values of a device that the looks so far have found."""
        return tuple(map(value_of, self.said_by(key).by_name()))

    def said_by(self, key: DeviceKey) -> NewestOfDevice:
        """Return what the looks so far have found of a device in the vault."""
        return self._newest.devices.get(key, NOTHING)


def _writers(device: Device, newest: NewestReadings) -> dict[str, VaultWriter]:
    """Return who writes as which node, where somebody's manifest is not followed."""
    if not newest.not_followed:
        return {}
    from covey.app.operations.vault import vault_writers

    return vault_writers(device)


def _members(device: Device) -> dict[DeviceKey, tuple[Member, list[str]]]:
    """Return each member of this device's groups, with the groups' ids."""
    found: dict[DeviceKey, tuple[Member, list[str]]] = {}
    for group in device.node.groups.joined():
        for member in group.members:
            found.setdefault(member.keys.signing_public, (member, []))[1].append(group.group_id.hex())
    return found


def _groups(device: Device, devices: tuple[FleetDevice, ...]) -> Iterator[FleetGroup]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in devices:
        is_here = each.presence in {HERE, SELF}
        for group in each.groups:
            found = counts[group]
            found["here"] += is_here
            found["silent"] += each.presence in AWAY
            found["lost"] += bool(each.lost)
            found["waiting"] += bool(each.waiting)
    for manifest in device.node.groups.joined():
        name, title = manifest.group_id.hex(), device.node.history.profile(manifest.group_id).title
        found = counts[name]
        yield FleetGroup(
            name, title, len(manifest.members), found["here"], found["silent"], found["lost"], found["waiting"]
        )


def _look(
    device: Device,
    location: str | None,
    since_us: int,
    always_us: int,
    newest: NewestReadings,
    members: set[DeviceKey],
) -> None:
    from covey.app.operations.vault import vault_nodes, vault_reader

    reader = vault_reader(device, location)
    newest.look(
        reader,
        vault_nodes(device),
        since_us,
        lambda at_us: at_us < always_us and members <= newest.devices.keys(),
    )


def _summary(devices: tuple[FleetDevice, ...], reads_vault: bool, now_us: int) -> str:
    """Return the one sentence: how many are here, who is not and since when, what was lost."""
    others = [each for each in devices if each.presence != SELF]
    parts = [f"{sum(each.presence == HERE for each in others):,} here"]
    for state, words in (("silent", "silent"), ("gone", "gone"), ("stopped", "stopped"), ("unknown", "never heard")):
        if away := [each for each in others if each.presence == state]:
            since_us = min((each.presence_since_us for each in away if each.presence_since_us), default=None)
            parts.append(f"{len(away):,} {words}{'' if since_us is None else f' since {local_time(since_us, now_us)}'}")
    if waiting := sum(each.waiting for each in devices):
        parts.append(f"{count(waiting, 'message')} waiting here")
    if reads_vault:
        lost = sum(sum(each.lost.values()) for each in devices)
        parts.append(f"{count(lost, 'message')} lost" if lost else "nothing lost")
    return ", ".join(parts)


def local_time(at_us: int, now_us: int) -> str:
    """Return a time as a person here says it: of the last twenty hours the hour, of others the day."""
    local = datetime.fromtimestamp(at_us // 1_000_000).astimezone()
    return f"{local:%H:%M}" if now_us - at_us < _LATELY_US else f"{local:%Y-%m-%d}"
