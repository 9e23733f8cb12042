"""The devices of a fleet, some at a time: what the state here, and what was read of the vault, say about each.

1. A look rebuilds only rows that changed since the last one: by membership (which the table notes), stored messages,
   new arrivals, or silence that has become too long.
2. Arrivals are selected by time. An agent writes them a while later, so each look goes back by `_LATE_US`, and the
   table compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from covey.adapters.sqlite.fleet_table import FoundDevice
from covey.app.fleet.documents import FleetCost, FleetDevice, FleetValue
from covey.app.loop.link_costs import last_cost
from covey.core.ids import DeviceKey, device_name
from covey.core.link.budget import link_budget
from covey.core.link.reported_cost import ReportedCost, known_cost
from covey.core.presence.status import asleep_until, condition, silent_at
from covey.limits.relay import PRESENCE_WRITE_US

if TYPE_CHECKING:
    from covey.adapters.sqlite.fleet_table import FleetTable, MemberRow, ShownDevice
    from covey.app.device.device import Device
    from covey.app.telemetry.newest_readings import LastValue
    from covey.core.link.queued import QueueSummary
    from covey.core.link.reported_cost import KnownCost

HERE, ASLEEP, SELF = "online", "asleep", "itself"
_LATE_US = 2 * PRESENCE_WRITE_US
"""What was heard may be written so much later: an agent lets half of that pass, and a commit may fail once."""
_AT_ONCE = 500
"""Devices whose presence is compared at once."""
_NOBODY = DeviceKey(b"")


class FleetDevices:
    """Keeps the rows of a fleet's devices as the state here, and what was read of the vault, say that they are."""

    def __init__(self, table: FleetTable) -> None:
        """Begin before the first look, at which all rows are to be made."""
        self._table = table
        self._before = _Here()

    def look(self, device: Device, now_us: int, *, listens: bool, overdue_most: int, most: int | None = None) -> None:
        """Rebuild the rows that changed since the last look.

        Args:
            device: this one.
            now_us: its clock.
            listens: whether an agent runs here, and reaches a relay.
            overdue_most: how many devices that have become silent are updated.
            most: how many rows are made, about; the next look makes further ones. None for all.
        """
        here = _Here(
            now_us,
            listens,
            {each.recipient: each for each in device.store.outbox.queues(waiting=True)},
            device.store.received.missing(),
            device.store.carriers.all(),
            device.node.identity.signing_public,
            *last_cost(device.store, link_budget(device.config.link.budget)),
        )
        if self._before.now_us:
            self._note_stale(device, here, overdue_most)
        self._before = here
        made = 0
        for members in self._table.stale():
            self._make(device, members, here)
            made += len(members)
            if most is not None and made >= most:
                break

    def _make(self, device: Device, members: list[MemberRow], here: _Here) -> None:
        found = _presences(device, [each.device for each in members], here.now_us)
        found[here.own] = _LastSeen(SELF, None, None, None, None, known_cost(*here.own_cost_at, here.now_us))
        self._table.put([_row(each, found[each.device], here) for each in members])

    def _note_stale(self, device: Device, here: _Here, overdue_most: int) -> None:
        before, records = self._before, device.store.presence
        if here.now_us < before.now_us:  # the clock was set back: what was silent then may not be so now
            self._table.note_all_stale()
        self._table.note_overdue(here.now_us, overdue_most)
        self._table.note_stale(here.differing(before))
        changed = records.changed_since(before.now_us - _LATE_US)
        for first in range(0, len(changed), _AT_ONCE):
            found = _presences(device, changed[first : first + _AT_ONCE], here.now_us)
            self._table.note_presences([(key, each.state, each.since_us, each.seen_us) for key, each in found.items()])


class _LastSeen(NamedTuple):
    """A device's presence and since when, when it was last seen, and until when it remains so without news."""

    state: str
    since_us: int | None
    seen_us: int | None
    until_us: int | None
    next_us: int | None = None
    """When it connects again, if it is asleep."""
    cost: KnownCost | None = None
    """Of its link."""


@dataclass(frozen=True, slots=True)
class _Here:
    """What of a fleet is held here at a look."""

    now_us: int = 0
    listens: bool = False
    queues: Mapping[DeviceKey, QueueSummary] = field(default_factory=dict)
    missing: Mapping[DeviceKey, int] = field(default_factory=dict)
    carriers: Mapping[DeviceKey, DeviceKey] = field(default_factory=dict)
    own: DeviceKey = _NOBODY
    own_cost: ReportedCost | None = None
    own_cost_us: int = 0

    @property
    def own_cost_at(self) -> tuple[ReportedCost | None, int]:
        """What the link of this device had cost at a time."""
        return self.own_cost, self.own_cost_us

    def differing(self, before: _Here) -> set[DeviceKey]:
        """Return the devices of which something else is held than before."""
        found = {key for key, _ in self.queues.items() ^ before.queues.items()}
        found |= {key for key, _ in self.missing.items() ^ before.missing.items()}
        found |= {key for key, _ in self.carriers.items() ^ before.carriers.items()}
        found |= {self.own} if self.own_cost_at != before.own_cost_at else set()
        return found if self.listens == before.listens else found | self.queues.keys()

    def why(self, presence: str) -> str:
        """Return why messages for a device are still here."""
        if not self.listens:
            return "no relay connection"
        if presence == HERE:
            return "not acknowledged yet"
        return "it was never seen running" if presence == "unknown" else f"it is {presence}"


def _presences(device: Device, keys: list[DeviceKey], now_us: int) -> dict[DeviceKey, _LastSeen]:
    records = device.store.presence
    seen, peers = records.last_seen(keys), records.of_peers(keys)
    return {
        key: _LastSeen(
            *condition(peers.get(key), seen.get(key), now_us),
            seen.get(key),
            silent_at(peers.get(key), seen.get(key)),
            asleep_until(peers.get(key)),
            None if (peer := peers.get(key)) is None else known_cost(peer.cost, peer.cost_us, now_us),
        )
        for key in keys
    }


def _row(member: MemberRow, presence: _LastSeen, here: _Here) -> FoundDevice:
    queue, cost = here.queues.get(member.device), presence.cost
    looked_us = (presence.until_us if presence.state in {HERE, ASLEEP} else None, cost.until_us if cost else None)
    return FoundDevice(
        member.device,
        member.label,
        member.label.casefold(),
        member.is_board,
        member.groups,
        presence.state in {HERE, SELF},
        presence.state,
        presence.since_us,
        presence.seen_us,
        min((each for each in looked_us if each is not None), default=None),
        queue.queued if queue else 0,
        queue.oldest_at_us if queue else None,
        here.why(presence.state) if queue else "",
        here.missing.get(member.device, 0),
        here.carriers.get(member.device) or b"",
        member.features,
        presence.next_us if presence.state == ASLEEP else None,
        "" if cost is None else _cost_text(cost),
        "" if cost is None or cost.outlook is None else cost.outlook.value,
    )


def _cost_text(cost: KnownCost) -> str:
    """Return the fields of a `FleetCost` as JSON."""
    fields: list[object] = [cost.reported_us, cost.today, cost.month, cost.forecast]
    if cost.budget is not None:
        period = "month" if cost.budget.monthly else "day"
        fields += [cost.budget.bytes, period, "" if cost.outlook is None else cost.outlook.value]
    return json.dumps(fields)


def shown_device(row: ShownDevice, values: tuple[FleetValue, ...] = ()) -> FleetDevice:
    """Return a device as the fleet shows it."""
    found, said, version = row
    newest_us = said.newest_at_us or None
    return FleetDevice(
        device_name(found.device),
        found.device.hex(),
        found.label,
        bool(found.is_board),
        tuple(found.groups.split(",")),
        found.presence,
        found.since_us,
        found.seen_us,
        newest_us,
        said.received_at_us or None,
        None if newest_us is None else max(0, said.received_at_us - newest_us) // 1_000_000,
        found.waiting,
        found.waits_since_us,
        json.loads(said.lost_why or "{}"),
        said.lost_at_us or None,
        said.series,
        bool(said.left_out),
        values,
        gateway=found.gateway.hex(),
        waits_because=found.waits_because,
        missing=found.missing,
        version=version,
        clock=said.clock,
        features=tuple(found.features.split(",")) if found.features else (),
        next_at_us=found.next_us,
        cost=FleetCost(*json.loads(found.cost)) if found.cost else None,
        alarms=said.alarms,
        alarm_series=tuple(json.loads(said.alarm_names or "[]")),
    )


def value_of(last: LastValue) -> FleetValue:
    """Return a last value as the fleet shows it."""
    if last.alarm is None:
        return FleetValue(last.name, last.unit, last.value, last.at_us, last.clock.name.lower())
    alarm = last.alarm.name.lower(), last.alarm_at_us
    return FleetValue(last.name, last.unit, last.value, last.at_us, last.clock.name.lower(), *alarm)
