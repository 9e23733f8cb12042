"""The devices of a fleet, some at a time: what the state here, and what was read of the vault, say of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from covey.adapters.sqlite.fleet_table import FoundDevice
from covey.app.fleet_documents import FleetDevice, FleetValue
from covey.app.newest_readings import SaidSummary
from covey.core.ids import device_name
from covey.core.presence.status import condition

if TYPE_CHECKING:
    from covey.adapters.sqlite.fleet_table import MemberRow
    from covey.app.device import Device
    from covey.app.newest_readings import LastValue
    from covey.core.ids import DeviceKey
    from covey.core.link.records import QueueSummary

HERE, SELF = "online", "itself"


class FleetDevices:
    """What is known of a fleet's devices at one look."""

    def __init__(self, device: Device, now_us: int, shown: dict[DeviceKey, int], *, listens: bool) -> None:
        """Begin a look.

        Args:
            device: this one.
            now_us: its clock.
            shown: by device what earlier looks have made its row of, hashed; it is kept up.
            listens: whether an agent runs here, and reaches a relay.
        """
        self._store, self._own = device.store, device.node.identity.signing_public
        self._now_us, self._listens, self._shown = now_us, listens, shown
        self._queues = {each.recipient: each for each in self._store.outbox.queues() if each.queued}
        self._carriers, self._missing = self._store.carriers.all(), self._store.received.missing()

    def changed(self, members: list[MemberRow]) -> list[FoundDevice]:
        """Return those of some devices, which come in the order of their keys, that are not as they were shown."""
        between = members[0].device, members[-1].device
        seen, presences = self._store.presence.last_seen(between), self._store.presence.of_peers(between)
        found = []
        for member in members:
            key = member.device
            seen_us, queue = seen.get(key), self._queues.get(key)
            presence = condition(presences.get(key), seen_us, self._now_us) if key != self._own else (SELF, None)
            made_of = (member, seen_us, presence, queue, self._missing.get(key), self._carriers.get(key), self._listens)
            if self._shown.get(key) != (shown := hash(made_of)):
                self._shown[key] = shown
                found.append(self._row(member, seen_us, presence, queue))
        return found

    def _row(
        self, member: MemberRow, seen_us: int | None, presence: tuple[str, int | None], queue: QueueSummary | None
    ) -> FoundDevice:
        said = SaidSummary.from_text(member.summary)
        newest_us = said.newest_at_us or None
        rest = (
            seen_us,
            newest_us,
            said.received_at_us or None,
            None if newest_us is None else max(0, said.received_at_us - newest_us) // 1_000_000,
            queue.oldest_at_us if queue else None,
            said.lost,
            said.lost_at_us or None,
            said.series,
            bool(said.left_out),
            self._why(presence[0]) if queue else "",
        )
        return FoundDevice(
            member.device,
            member.label,
            member.label.casefold(),
            member.is_board,
            member.groups,
            presence[0] in {HERE, SELF},
            *presence,
            sum(said.lost.values()),
            queue.queued if queue else 0,
            self._missing.get(member.device, 0),
            said.clock,
            self._carriers.get(member.device) or b"",
            member.board_version or said.version,
            json.dumps(rest),
        )

    def _why(self, presence: str) -> str:
        """Return why messages for a device are still here."""
        if not self._listens:
            return "no relay is reached"
        return "not acknowledged yet" if presence == HERE else f"it is {presence}"


def shown_device(row: FoundDevice, values: tuple[FleetValue, ...] = ()) -> FleetDevice:
    """Return a device as the fleet shows it."""
    seen_us, newest_us, landed_us, lag, since_us, lost, lost_at_us, series, left_out, why = json.loads(row.rest)
    return FleetDevice(
        device_name(row.device),
        row.device.hex(),
        row.label,
        bool(row.is_board),
        tuple(row.groups.split(",")),
        row.presence,
        row.since_us,
        seen_us,
        newest_us,
        landed_us,
        lag,
        row.waiting,
        since_us,
        lost,
        lost_at_us,
        series,
        left_out,
        values,
        gateway=row.gateway.hex(),
        waits_because=why,
        missing=row.missing,
        version=row.version,
        clock=row.clock,
    )


def value_of(last: LastValue) -> FleetValue:
    """Return a last value as the fleet shows it."""
    return FleetValue(last.name, last.unit, last.value, last.at_us, last.clock.name.lower())
