"""The fleet as this device knows it: which devices are online, their last values, what waits, what was lost.

1. A collector reads what its state lacks from the newest part of its vault: looking costs the agent nothing.
2. Results are kept in a `FleetTable`, which counts and sorts them: memory does not grow with the fleet as objects
   would. Callers ask for the devices that they show, and get them some at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from covey.adapters.sqlite.fleet_table import CONDITIONS, FleetTable, GroupCounts, GroupMember, Wanted
from covey.app.checks.status import own_condition
from covey.app.fleet.devices import ASLEEP, HERE, SELF, FleetDevices, shown_device, value_of
from covey.app.fleet.documents import (
    SEVERITIES,
    Fleet,
    FleetDevice,
    FleetGroup,
    FleetRelay,
    FleetTrouble,
    FleetValue,
    FleetVersion,
)
from covey.app.fleet.orders import RecentOrders, RollOuts, newest_files
from covey.app.fleet.silences import silenced
from covey.app.fleet.troubles import troubles_of
from covey.app.groups.collectors import GroupCollector, group_collectors
from covey.app.groups.requests import waiting_invitations
from covey.app.telemetry.newest_readings import NewestOfDevice, NewestReadings
from covey.app.wording import count
from covey.core.group.features import feature_words
from covey.core.ids import DeviceKey, GroupId, ManifestHash, node_id

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.telemetry.vault import VaultWriter
    from covey.core.group.manifest import GroupManifest
    from covey.core.vault.reading import VaultReader

ALWAYS_US = 3_600_000_000
"""So much of the vault is always looked at; what is older only as long as somebody is missing in it."""

_LATELY_US = 20 * 3_600_000_000
_VERSIONS = 8
"""Versions that are named; of a fleet that runs more of them, those that most devices run."""
_ALL = 2**31
_AT_ONCE = 500
_NOTHING = NewestOfDevice()
_EVERYBODY = Wanted()
_ANY_GROUP = GroupId(b"")
KINDS = tuple(each for each in CONDITIONS if each not in {"all", "overdue"})
"""Selections of devices, in addition to all of them."""


def wanted(condition: str, find: str, group_id: GroupId = _ANY_GROUP) -> Wanted:
    """Return which devices are meant: of a name of `CONDITIONS`, with `find` in their label or first in their key."""
    return Wanted(condition, group_id, find.casefold(), find.casefold())


class OneDevice(NamedTuple):
    """What a look at one device finds: the device with its last values, and what is near it."""

    device: FleetDevice
    at_us: int
    reads_vault: bool
    groups: tuple[str, ...]
    """Names of the groups that it is in."""
    gateway: FleetDevice | None
    boards: tuple[FleetDevice, ...]


class FleetKeys:
    """The keys of a fleet's devices, in hex, as they are in a table: nothing is copied."""

    def __init__(self, table: FleetTable) -> None:
        self._table = table

    def __len__(self) -> int:
        """Return how many devices there are."""
        return self._table.count(Wanted())

    def __contains__(self, key: object) -> bool:
        """Say whether a device is in the fleet."""
        try:
            return self._table.device(DeviceKey(bytes.fromhex(str(key)))) is not None
        except ValueError:  # no hex: what a person, or a damaged disk, has made of a file
            return False


class FleetView:
    """The fleet, for one look or many: nothing of the vault is read twice.

    A caller with little memory looks in three steps: `take_members`, then `read` without the device, then `survey`; and
    asks `table` for devices.
    """

    def __init__(self, table: FleetTable | None = None) -> None:
        """Begin with nothing in a table of this process; or read what another one keeps in a table."""
        self.table = table or FleetTable()
        self._newest = NewestReadings(self.table)
        self._orders = RecentOrders()
        self._roll_outs = RollOuts()
        self._devices = FleetDevices(self.table)
        self._versions: dict[GroupId, ManifestHash] = {}
        self._collectors: dict[GroupId, tuple[object, tuple[GroupCollector, ...]]] = {}
        """The collectors of each group, and of which manifest and silent ones that was said."""
        self._own_node = ""

    def look(
        self,
        device: Device,
        location: str | None,
        since_us: int,
        *,
        always_us: int = ALWAYS_US,
    ) -> Fleet:
        """Return the fleet as it is now; `devices` then yields its devices.

        Args:
            device: whose groups are meant.
            location: of the vault; None for the configured one.
            since_us: how far back to look in the vault at most.
            always_us: how far back to look although something of every device is found.

        Raises:
            StorageError: the vault cannot be read.
        """
        self.take_members(device)
        if device.folder.has_vault_key:
            for _ in self.read(*vault_of(device, location), device.clock.wall_us(), since_us, always_us):
                pass
        return self.survey(device)

    def look_at(self, device: Device, location: str | None, since_us: int, key: DeviceKey) -> OneDevice:
        """Return one member as it is now, for a view that looks at no other: of its fleet nothing more is read.

        Args:
            device: whose groups are meant.
            location: of the vault; None for the configured one.
            since_us: how far back to look in the vault at most.
            key: of a member of the groups.

        Raises:
            StorageError: the vault cannot be read.
        """
        now_us, reads_vault = device.clock.wall_us(), device.folder.has_vault_key
        carriers = device.store.carriers.all()
        near = {key, carriers.get(key, key), *(board for board, gateway in carriers.items() if gateway == key)}
        self.take_members(device, near)
        if reads_vault:
            for _ in self.read(*vault_of(device, location), now_us, since_us, only=key):
                pass
        self._devices.look(device, now_us, listens=own_condition(device).listens, overdue_most=_ALL)
        found = self.device_with_values(key)
        assert found is not None, "the caller names a member"
        groups = [each for each in device.node.groups.joined() if each.group_id.hex() in found.groups]
        return OneDevice(
            found,
            now_us,
            reads_vault,
            tuple(device.node.history.profile(each.group_id).title or each.group_id.hex()[:8] for each in groups),
            self.device(DeviceKey(bytes.fromhex(found.gateway))),
            tuple(map(shown_device, self.table.behind(key))),
        )

    def take_members(self, device: Device, only: Collection[DeviceKey] | None = None, most: int = _ALL) -> bool:
        """Read the members of the device's groups, and the device's node in a vault; return whether all are read.

        `only`: the members that this view is about; None for all. `most`: groups that are read at once.
        """
        self._own_node = node_id(device.node.identity.signing_public).hex()
        manifests = device.node.groups.joined()
        versions = {each.group_id: each.hash for each in manifests}
        if versions == self._versions:
            return True
        changed = [each for each in manifests if self._versions.get(each.group_id) != each.hash]
        for each in changed[:most]:
            members = (
                GroupMember(one.keys.signing_public, one.label, one.is_board, ",".join(feature_words(one)))
                for one in each.members
                if only is None or one.keys.signing_public in only
            )
            self.table.set_members(each.group_id, members)
        unread = {each.group_id for each in changed[most:]}
        if not unread:
            self.table.forget_groups(set(versions))
            self.table.forget_devices()
        self._versions = {group_id: found for group_id, found in versions.items() if group_id not in unread}
        return not unread

    def read(
        self,
        reader: VaultReader,
        nodes: list[str],
        now_us: int,
        since_us: int,
        always_us: int = ALWAYS_US,
        only: DeviceKey | None = None,
    ) -> Iterator[None]:
        """Read what is new in the vault; yield after each segment, when its content is shown and counted.

        Raises:
            StorageError: the vault cannot be read.
        """
        unread: DeviceKey | None = DeviceKey(b"")

        def enough(at_us: int) -> bool:
            nonlocal unread
            if at_us >= now_us - always_us:
                return False
            if only is not None:
                return only in self._newest.devices
            unread = None if unread is None else self.table.first_unread(unread)
            return unread is None

        yield from self._newest.look(reader, nodes, now_us - since_us, enough, self._own_node, only)

    def survey(
        self,
        device: Device,
        *,
        reads: bool = True,
        overdue_most: int = _ALL,
        most: int | None = None,
    ) -> Fleet:
        """Return the fleet as it is now, as far as the vault was read.

        Args:
            device: whose groups are meant.
            reads: whether the vault was read, where there is one.
            overdue_most: of how many, not heard for too long since the last look, it is taken up; the rest is next.
            most: how many rows of devices are made, about; `table.has_stale` says whether some are left. None for all.
        """
        now_us, own, has_keys = device.clock.wall_us(), own_condition(device), device.folder.has_vault_key
        self._devices.look(device, now_us, listens=own.listens, overdue_most=overdue_most, most=most)
        releases, rollbacks = self._roll_outs.releases(device), self._roll_outs.rollbacks(device)
        writers = _writers(device, self._newest)
        troubles = [*troubles_of(own, self.table, releases, rollbacks, self._newest, writers)]
        if not self._versions:
            what = "here: this device is in no group"
            troubles.append(FleetTrouble(what, "covey join CODE, or covey group create", severity="notice"))
        if has_keys and reads and self._newest.is_empty:
            what = "nothing is stored in the vault yet"
            troubles.append(FleetTrouble(what, "covey vault status", severity="notice"))
        quiet = silenced(device)
        troubles = [_quieted(each, quiet, now_us) for each in troubles] if quiet else troubles
        troubles.sort(key=lambda each: SEVERITIES.index(each.severity))
        return Fleet(
            now_us,
            _summary(self.table, now_us, in_group=bool(self._versions), reads_vault=has_keys and reads),
            tuple(self._groups(device)),
            self._orders.look(device),
            tuple(waiting_invitations(device)) if own.waiting_invitations else (),
            tuple(troubles),
            has_keys,
            own.listens,
            is_read=reads or not has_keys,
            releases=releases,
            rollbacks=rollbacks,
            files=newest_files(device),
            versions=tuple(FleetVersion(*each) for each in self.table.versions(_VERSIONS)),
            relays=tuple(FleetRelay(each.url, each.state) for each in own.relays),
        )

    def _groups(self, device: Device) -> Iterator[FleetGroup]:
        counts, silent = self.table.groups(), frozenset(device.store.presence.silent_collectors())
        manifests = device.node.groups.joined()
        self._collectors = {each.group_id: self._collectors_of(each, silent) for each in manifests}
        for manifest in manifests:
            yield FleetGroup(
                manifest.group_id.hex(),
                device.node.history.profile(manifest.group_id).title,
                len(manifest.members),
                *counts.get(manifest.group_id, _NOBODY),
                self._collectors[manifest.group_id][1],
            )

    def _collectors_of(
        self, manifest: GroupManifest, silent: frozenset[DeviceKey]
    ) -> tuple[object, tuple[GroupCollector, ...]]:
        before, of = self._collectors.get(manifest.group_id), (manifest.hash, silent)
        return before if before is not None and before[0] == of else (of, group_collectors(manifest, silent))

    def devices(self, asked: Wanted = _EVERYBODY, limit: int | None = None, *, values: bool) -> Iterator[FleetDevice]:
        """Yield up to `limit` devices, with their last values if these are asked for; few are in memory at a time."""
        most = self.table.count(asked) if limit is None else limit
        for first in range(0, most, _AT_ONCE):
            rows = self.table.window(asked, first, min(_AT_ONCE, most - first))
            said = self._newest.devices.of([each.found.device for each in rows]) if values else {}
            for each in rows:
                yield shown_device(each, _values(said.get(each.found.device, _NOTHING)))

    @property
    def keys(self) -> FleetKeys:
        """Return the devices' keys."""
        return FleetKeys(self.table)

    def device_with_values(self, key: DeviceKey) -> FleetDevice | None:
        """Return one device with its last values."""
        row = self.table.device(key)
        return None if row is None else shown_device(row, self.values_of(key))

    def device(self, key: DeviceKey) -> FleetDevice | None:
        """Return one device."""
        row = self.table.device(key)
        return None if row is None else shown_device(row)

    def values_of(self, key: DeviceKey) -> tuple[FleetValue, ...]:
        """Return the last values of a device that the looks so far have found."""
        return _values(self.said_by(key))

    def said_by(self, key: DeviceKey) -> NewestOfDevice:
        """Return what the looks so far have found of a device in the vault."""
        return self._newest.devices.get(key, _NOTHING)


def _quieted(trouble: FleetTrouble, quiet: Mapping[str, int], now_us: int) -> FleetTrouble:
    until_us = quiet.get(trouble.device)
    if until_us is None:
        return trouble
    return replace(trouble, what=f"{trouble.what} (silenced until {local_time(until_us, now_us)})", severity="notice")


def _values(said: NewestOfDevice) -> tuple[FleetValue, ...]:
    return tuple(map(value_of, said.by_name()))


def vault_of(device: Device, location: str | None) -> tuple[VaultReader, list[str]]:
    """Return what reads the vault of a device that has its keys, and the nodes to look at.

    Raises:
        StorageError: the vault cannot be read.
    """
    from covey.app.telemetry.vault import vault_nodes, vault_reader

    return vault_reader(device, location), vault_nodes(device)


def _writers(device: Device, newest: NewestReadings) -> dict[str, VaultWriter]:
    if not newest.not_followed:
        return {}
    from covey.app.telemetry.vault import vault_writers

    return vault_writers(device)


_NOBODY = GroupCounts(0, 0, 0, 0)
_AWAY = {
    "asleep": "asleep until their next window",
    "silent": "silent",
    "gone": "gone",
    "stopped": "stopped",
    "unknown": "never seen running",
}
"""The wording for a silent device. A device that only joined has sent messages, but its agent never announced itself.
"""


def _summary(table: FleetTable, now_us: int, *, in_group: bool, reads_vault: bool) -> str:
    """Return the one-sentence summary: how many are online, which are silent and since when, what was lost."""
    presences = {each.presence: each for each in table.presences() if each.presence != SELF}
    parts = [f"{presences[HERE].devices if HERE in presences else 0:,} online"]
    if not presences:
        parts = [f"no other device yet{' (add one: covey invite)' if in_group else ''}"]
    for state, words in _AWAY.items():
        if (away := presences.get(state)) is not None:
            since = "" if away.since_us is None or state == ASLEEP else f" since {local_time(away.since_us, now_us)}"
            parts.append(f"{away.devices:,} {words}{since}")
    waiting, lost = table.totals()
    if waiting:
        parts.append(f"{count(waiting, 'message')} waiting on this device")
    if reads_vault:
        parts.append(f"{count(lost, 'message')} lost" if lost else "nothing lost")
    return ", ".join(parts)


def local_time(at_us: int, now_us: int) -> str:
    """Return a time as a person here says it: of the last twenty hours the hour, of others the day."""
    local = datetime.fromtimestamp(at_us // 1_000_000).astimezone()
    return f"{local:%H:%M}" if abs(now_us - at_us) < _LATELY_US else f"{local:%Y-%m-%d}"
