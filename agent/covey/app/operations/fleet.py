"""The fleet as this device knows it: who is there, what each said last, what waits, what was lost.

What a collector does not hold in its state it reads from the newest part of its vault: looking costs the agent nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from covey.app.fleet_documents import Fleet, FleetDevice, FleetGroup, FleetTrouble, FleetValue
from covey.app.newest_readings import NewestOfDevice, NewestReadings
from covey.app.operations.fleet_orders import RecentOrders
from covey.app.operations.invitations import waiting_invitations
from covey.app.queries import status_of
from covey.app.wording import count
from covey.core.group.manifest import Member
from covey.core.ids import DeviceKey, device_name
from covey.core.presence.status import condition

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.documents import Status
    from covey.app.newest_readings import LastValue

ALWAYS_US = 3_600_000_000
"""So much of the vault is always looked at; what is older only as long as somebody is missing in it."""

_LATELY_US = 20 * 3_600_000_000
HERE, SELF = "online", "itself"
_NOTHING = NewestOfDevice()


class FleetView:
    """The fleet, looked at once or again and again: what was read of the vault is not read a second time."""

    def __init__(self) -> None:
        self._newest = NewestReadings()
        self._orders = RecentOrders()

    def look(
        self,
        device: Device,
        location: str | None,
        since_us: int,
        *,
        values: bool = True,
        always_us: int = ALWAYS_US,
    ) -> Fleet:
        """Return the fleet as it is now; `values` asks for each device's last values, too.

        Args:
            device: whose groups are meant.
            location: of the vault; None for the configured one.
            since_us: how far back to look in the vault at most.
            values: whether the devices have their last values.
            always_us: how far back to look although something of every device is found.

        Raises:
            StorageError: the vault cannot be read.
        """
        members, now_us = _members(device), device.clock.wall_us()
        reads_vault = device.folder.vault_key.exists()
        if reads_vault:
            _look(device, location, now_us - since_us, now_us - always_us, self._newest, set(members))
        status = status_of(device)
        devices = tuple(_devices(device, members, status, self._newest, now_us, values=values))
        troubles = [*_troubles(status, devices, self._newest)]
        if reads_vault and self._newest.is_empty:
            troubles.append(FleetTrouble("nothing has landed in the vault yet", "covey vault status"))
        listens = status.running and any(each.up for each in status.relays)
        return Fleet(
            now_us,
            _summary(devices, reads_vault, now_us),
            devices,
            tuple(_groups(device, devices)),
            self._orders.look(device),
            tuple(waiting_invitations(device)) if status.waiting_invitations else (),
            tuple(troubles),
            reads_vault,
            listens,
        )

    def values_of(self, key: DeviceKey) -> tuple[FleetValue, ...]:
        """Return the last values of a device that the looks so far have found."""
        return tuple(map(_value, self.said_by(key).by_name()))

    def said_by(self, key: DeviceKey) -> NewestOfDevice:
        """Return what the looks so far have found of a device in the vault."""
        return self._newest.devices.get(key, _NOTHING)


def _members(device: Device) -> dict[DeviceKey, tuple[Member, list[str]]]:
    """Return each member of this device's groups, with the groups' ids."""
    found: dict[DeviceKey, tuple[Member, list[str]]] = {}
    for group in device.node.groups.joined():
        for member in group.members:
            found.setdefault(member.keys.signing_public, (member, []))[1].append(group.group_id.hex())
    return found


def _groups(device: Device, devices: tuple[FleetDevice, ...]) -> Iterator[FleetGroup]:
    here = Counter(group for each in devices if each.presence in {HERE, SELF} for group in each.groups)
    for group in device.node.groups.joined():
        name, title = group.group_id.hex(), device.node.history.profile(group.group_id).title
        yield FleetGroup(name, title, len(group.members), here[name])


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


def _devices(
    device: Device,
    members: dict[DeviceKey, tuple[Member, list[str]]],
    status: Status,
    newest: NewestReadings,
    now_us: int,
    *,
    values: bool,
) -> list[FleetDevice]:
    """Return the devices: those that are not well first, then by label."""
    seen, presences = device.store.presence.last_seen(), device.store.presence.of_peers()
    queues = {each.recipient: each for each in status.queues}
    own, found = device.node.identity.signing_public, []
    for key, (member, groups) in members.items():
        presence, since_us = condition(presences.get(key), seen.get(key), now_us) if key != own else (SELF, None)
        said, queue = newest.devices.get(key, _NOTHING), queues.get(device_name(key))
        waiting_s = queue.oldest_seconds if queue else None
        newest_us = max((each.at_us for each in said.values.values()), default=None)
        found.append(
            FleetDevice(
                device_name(key),
                key.hex(),
                member.label,
                member.is_board,
                tuple(groups),
                presence,
                since_us,
                seen.get(key),
                newest_us,
                said.received_at_us or None,
                None if newest_us is None else max(0, said.received_at_us - newest_us) // 1_000_000,
                queue.queued if queue else 0,
                None if waiting_s is None else now_us - waiting_s * 1_000_000,
                said.lost(),
                said.lost_at_us or None,
                len(said.values),
                bool(said.left_out),
                tuple(map(_value, said.by_name())) if values else (),
            )
        )
    return sorted(found, key=lambda each: (each.presence in {HERE, SELF}, each.label, each.key))


def _value(last: LastValue) -> FleetValue:
    return FleetValue(last.name, last.unit, last.value, last.at_us, last.clock.name.lower())


def _summary(devices: tuple[FleetDevice, ...], reads_vault: bool, now_us: int) -> str:
    """Return the one sentence: how many are here, who is not and since when, what was lost."""
    others = [each for each in devices if each.presence != SELF]
    parts = [f"{sum(each.presence == HERE for each in others)} here"]
    for state, words in (("silent", "silent"), ("gone", "gone"), ("stopped", "stopped"), ("unknown", "never heard")):
        if away := [each for each in others if each.presence == state]:
            since_us = min((each.presence_since_us for each in away if each.presence_since_us), default=None)
            parts.append(f"{len(away)} {words}{'' if since_us is None else f' since {local_time(since_us, now_us)}'}")
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


def _troubles(status: Status, devices: tuple[FleetDevice, ...], newest: NewestReadings) -> Iterator[FleetTrouble]:
    """Yield what a person should see to."""
    for trouble in status.troubles:
        yield FleetTrouble(f"here: {trouble}", "covey check")
    for each in devices:
        if each.presence in {"silent", "gone"}:
            yield FleetTrouble(
                f"{_name(each)} is {each.presence}", "has it power and a network? there: covey check", each.key
            )
    for each in devices:
        if each.lost:
            yield FleetTrouble(f"{_name(each)} has lost {lost_in_words(each)}", "there: covey check", each.key)
    for node, code in newest.not_followed.items():
        yield FleetTrouble(f"what node {node[:8]} has put into the vault is not followed: {code}", "covey vault verify")
    if newest.unreadable:
        yield FleetTrouble(f"{count(newest.unreadable, 'object')} of the vault cannot be read", "covey vault verify")
    if status.waiting_invitations:
        yield FleetTrouble(f"{count(status.waiting_invitations, 'invitation')} to answer", "covey requests")


def lost_in_words(device: FleetDevice) -> str:
    """Return what a device has lost, and why."""
    return ", ".join(
        f"{count(number, 'message')} ({reason.replace('_', ' ')})" for reason, number in device.lost.items()
    )


def _name(device: FleetDevice) -> str:
    return f"{device.label} ({device.device})" if device.label else device.device
