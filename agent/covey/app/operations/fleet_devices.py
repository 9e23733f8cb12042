"""The devices of a fleet, one by one: what the state here, and what was read of the vault, say of each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covey.app.fleet_documents import FleetDevice, FleetValue
from covey.app.newest_readings import NewestOfDevice
from covey.core.ids import DeviceKey, device_name, printable
from covey.core.presence.status import condition

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.newest_readings import LastValue, NewestReadings
    from covey.core.group.manifest import Member

HERE, SELF = "online", "itself"
AWAY = frozenset({"silent", "gone"})
"""Of a device that should be here, and is not."""
NOTHING = NewestOfDevice()
_FIRMWARE = ("firmware", "")
_OF_BOARD = re.compile(r"board/([0-9a-f]{64})/firmware").fullmatch
_CHARACTERS = 120


class FleetDevices:
    """All that is known of a fleet's devices at one look."""

    def __init__(self, device: Device, newest: NewestReadings, now_us: int, *, listens: bool) -> None:
        store, self._own = device.store, device.node.identity.signing_public
        self._newest, self._now_us, self._listens = newest, now_us, listens
        self._seen, self._presences = store.presence.last_seen(), store.presence.of_peers()
        self._queues = {each.recipient: each for each in store.outbox.queues() if each.queued}
        self._carriers, self._missing = store.carriers.all(), store.received.missing()
        self._boards = _said_of_boards(newest)

    def of(self, members: dict[DeviceKey, tuple[Member, list[str]]], *, values: bool) -> list[FleetDevice]:
        """Return the devices: those that are not well first, then by label."""
        found = [self._device(key, member, groups, values=values) for key, (member, groups) in members.items()]
        return sorted(found, key=lambda each: (each.presence in {HERE, SELF}, each.label, each.key))

    def _device(self, key: DeviceKey, member: Member, groups: list[str], *, values: bool) -> FleetDevice:
        seen_us = self._seen.get(key)
        presence, since_us = condition(self._presences.get(key), seen_us, self._now_us)
        if key == self._own:
            presence, since_us = SELF, None
        said = self._newest.devices.get(key, NOTHING)
        last = max(said.values.values(), key=_measured_at, default=None)
        newest_us = None if last is None else last.at_us
        queue = self._queues.get(key)
        return FleetDevice(
            device_name(key),
            key.hex(),
            member.label,
            member.is_board,
            tuple(groups),
            presence,
            since_us,
            seen_us,
            newest_us,
            said.received_at_us or None,
            None if newest_us is None else max(0, said.received_at_us - newest_us) // 1_000_000,
            queue.queued if queue else 0,
            queue.oldest_at_us if queue else None,
            said.lost() if said.losses else {},
            said.lost_at_us or None,
            len(said.values),
            bool(said.left_out),
            tuple(map(value_of, said.by_name())) if values else (),
            gateway=carrier.hex() if (carrier := self._carriers.get(key)) is not None else "",
            waits_because=self._why(presence) if queue else "",
            missing=self._missing.get(key, 0),
            version=self._boards.get(key) or _text(said.values.get(_FIRMWARE)),
            clock="" if last is None else last.clock.name.lower(),
        )

    def _why(self, presence: str) -> str:
        """Return why messages for a device are still here."""
        if not self._listens:
            return "no relay is reached"
        return "not acknowledged yet" if presence == HERE else f"it is {presence}"


def _measured_at(last: LastValue) -> int:
    return last.at_us


def _text(said: LastValue | None) -> str:
    return printable(said.value, _CHARACTERS) if said is not None and isinstance(said.value, str) else ""


def _said_of_boards(newest: NewestReadings) -> dict[DeviceKey, str]:
    """Return what gateways say that their boards run."""
    found = {}
    for said in list(newest.devices.values()):
        for name, unit in list(said.values):
            board = _OF_BOARD(name) if name.startswith("board/") else None
            if board is not None:
                found[DeviceKey(bytes.fromhex(board[1]))] = _text(said.values[name, unit])
    return found


def value_of(last: LastValue) -> FleetValue:
    """Return a last value as the fleet shows it."""
    return FleetValue(last.name, last.unit, last.value, last.at_us, last.clock.name.lower())
