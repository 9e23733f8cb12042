"""The fleet as this device knows it: who is there, what each said last, what waits, what was lost.

What a collector does not hold in its state it reads from the newest part of its vault: looking costs the agent nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.newest_readings import NewestReadings
from covey.app.queries import status_of
from covey.app.wording import count
from covey.core.group.manifest import Member
from covey.core.ids import DeviceKey, device_name
from covey.core.presence.status import condition

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.documents import Status
    from covey.app.newest_readings import LastValue, NewestOfDevice

_ALWAYS_US = 3_600_000_000
"""So much of the vault is always looked at; what is older only as long as somebody is missing in it."""

HERE, SELF = "online", "itself"


@dataclass(frozen=True, slots=True)
class FleetValue:
    """The last reading of one series.

    `at_us`: its time in microseconds since 1970; `clock`: what that time is worth, "synchronised", "unsynchronised"
    or "asserted" by who measured. `seconds`: its age by this device's clock, 0 where it lies ahead.
    """

    name: str
    unit: str
    value: float | bool | str
    at_us: int
    seconds: int
    clock: str


@dataclass(frozen=True, slots=True)
class FleetDevice:
    """One device of the fleet. Seconds are ages by this device's clock; None: never.

    `presence` is one of `CONDITIONS`, or "itself". `landed_seconds`: since a collector took its newest readings;
    `lag_seconds`: how old its newest reading was by then. `waiting` counts messages that wait here for it, the oldest
    for `waiting_seconds`. `lost`: messages that it has admitted to be lost, by the reason, in what was looked at.
    `left_out`: whether it has more series than are shown.
    """

    device: str
    key: str
    label: str
    groups: tuple[str, ...]
    presence: str
    presence_seconds: int | None
    heard_seconds: int | None
    landed_seconds: int | None
    lag_seconds: int | None
    waiting: int
    waiting_seconds: int | None
    lost: dict[str, int]
    values: tuple[FleetValue, ...]
    left_out: bool


@dataclass(frozen=True, slots=True)
class FleetTrouble:
    """Something that a person should see to: what, and the command or the hint that helps."""

    what: str
    hint: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """All devices of this device's groups. `reads_vault`: whether last values and losses are known here at all."""

    summary: str
    devices: tuple[FleetDevice, ...]
    troubles: tuple[FleetTrouble, ...]
    reads_vault: bool


class FleetView:
    """The fleet, looked at once or again and again: what was read of the vault is not read a second time."""

    def __init__(self) -> None:
        self._newest = NewestReadings()

    def look(self, device: Device, location: str | None, since_us: int) -> Fleet:
        """Return the fleet as it is now.

        Args:
            device: whose groups are meant.
            location: of the vault; None for the configured one.
            since_us: how far back to look in the vault at most.

        Raises:
            StorageError: the vault cannot be read.
        """
        members, now_us = _members(device), device.clock.wall_us()
        reads_vault = device.folder.vault_key.exists()
        if reads_vault:
            _look(device, location, now_us - since_us, self._newest, set(members))
        status = status_of(device)
        devices = tuple(_devices(device, members, status, self._newest, now_us))
        troubles = tuple(_troubles(status, devices, self._newest))
        return Fleet(_summary(devices, reads_vault), devices, troubles, reads_vault)


def _members(device: Device) -> dict[DeviceKey, tuple[Member, list[str]]]:
    """Return each member of this device's groups, with the groups' ids."""
    found: dict[DeviceKey, tuple[Member, list[str]]] = {}
    for group in device.node.groups.joined():
        for member in group.members:
            found.setdefault(member.keys.signing_public, (member, []))[1].append(group.group_id.hex())
    return found


def _look(device: Device, location: str | None, since_us: int, newest: NewestReadings, members: set[DeviceKey]) -> None:
    from covey.app.operations.vault import vault_nodes, vault_reader

    reader = vault_reader(device, location)
    always_us = device.clock.wall_us() - _ALWAYS_US
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
) -> Iterator[FleetDevice]:
    """Yield the devices: those that are not well first, then by label."""
    seen, presences = device.store.presence.last_seen(), device.store.presence.of_peers()
    queues = {each.recipient: each for each in status.queues}
    own, found = device.node.identity.signing_public, []
    for key, (member, groups) in members.items():
        presence, since_us = condition(presences.get(key), seen.get(key), now_us) if key != own else (SELF, None)
        said, queue = newest.devices.get(key), queues.get(device_name(key))
        found.append(
            FleetDevice(
                device_name(key),
                key.hex(),
                member.label,
                tuple(groups),
                presence,
                _age(since_us, now_us),
                _age(seen.get(key), now_us),
                _age(said.received_at_us if said else None, now_us),
                _lag(said),
                queue.queued if queue else 0,
                queue.oldest_seconds if queue else None,
                said.lost() if said else {},
                tuple(_value(each, now_us) for each in _by_name(said)),
                bool(said and said.left_out),
            )
        )
    yield from sorted(found, key=lambda each: (each.presence in {HERE, SELF}, each.label, each.key))


def _by_name(said: NewestOfDevice | None) -> list[LastValue]:
    return sorted(said.values.values(), key=lambda each: (each.name, each.unit)) if said else []


def _value(last: LastValue, now_us: int) -> FleetValue:
    return FleetValue(
        last.name, last.unit, last.value, last.at_us, _age(last.at_us, now_us) or 0, last.clock.name.lower()
    )


def _lag(said: NewestOfDevice | None) -> int | None:
    """Return how old the newest reading was when its message was taken."""
    if said is None or not said.values:
        return None
    return max(0, said.received_at_us - max(each.at_us for each in said.values.values())) // 1_000_000


def _age(at_us: int | None, now_us: int) -> int | None:
    return None if not at_us else max(0, now_us - at_us) // 1_000_000


def _summary(devices: tuple[FleetDevice, ...], reads_vault: bool) -> str:
    """Return the one sentence: how many are here, who is not, what was lost."""
    others = [each for each in devices if each.presence != SELF]
    parts = [f"{sum(each.presence == HERE for each in others)} here"]
    for state, words in (("silent", "silent"), ("gone", "gone"), ("stopped", "stopped"), ("unknown", "never heard")):
        if number := sum(each.presence == state for each in others):
            parts.append(f"{number} {words}")
    if waiting := sum(each.waiting for each in devices):
        parts.append(f"{count(waiting, 'message')} waiting here")
    if reads_vault:
        lost = sum(sum(each.lost.values()) for each in devices)
        parts.append(f"{count(lost, 'message')} lost" if lost else "nothing lost")
    return ", ".join(parts)


def _troubles(status: Status, devices: tuple[FleetDevice, ...], newest: NewestReadings) -> Iterator[FleetTrouble]:
    """Yield what a person should see to."""
    for trouble in status.troubles:
        yield FleetTrouble(f"here: {trouble}", "covey check")
    silent = [each for each in devices if each.presence in {"silent", "gone"}]
    for each in silent:
        yield FleetTrouble(
            f"{_name(each)} is {each.presence}", "is it powered, and is its relay up? there: covey check"
        )
    for each in devices:
        if each.lost:
            yield FleetTrouble(f"{_name(each)} has lost {lost_in_words(each)}", "there: covey check")
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
