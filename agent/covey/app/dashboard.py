"""What the fleet's page shows: one look at the fleet for all browsers, each of which sees the part that it asks for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from covey.app.documents import to_json
from covey.app.fleet_documents import Fleet, FleetDevice
from covey.app.newest_readings import recent_points
from covey.app.operations.fleet import HERE, SELF, FleetView
from covey.app.operations.invitations import accept_invitation, waiting_invitations
from covey.core.ids import DeviceKey
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device import Device

_ROWS = 200
"""Devices that one page shows; a person who looks for another one searches."""
_TROUBLES = 20
_KEEPALIVE_S = 15.0
_STATES: Mapping[str, Callable[[FleetDevice], bool]] = {
    "all": lambda _: True,
    "here": lambda each: each.presence in {HERE, SELF},
    "away": lambda each: each.presence not in {HERE, SELF},
    "lost": lambda each: bool(each.lost),
    "waiting": lambda each: bool(each.waiting),
}


class Dashboard:
    """The fleet as its page asks for it. Safe to be called from several threads."""

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Device]],
        location: str | None,
        since_us: int,
        interval_s: float,
    ) -> None:
        """Look at the fleet at most once each `interval_s`; at the vault `location`, `since_us` back."""
        self._opened, self._location, self._since_us, self._interval_s = opened, location, since_us, interval_s
        self._view = FleetView()
        self._lock = threading.Lock()
        self._fleet: Fleet | None = None
        self._looked_at = 0.0

    def look(self) -> Fleet:
        """Return the fleet as it was seen at most one interval ago.

        Raises:
            CoveyError: the state or the vault cannot be read.
        """
        with self._lock:
            if self._fleet is None or time.monotonic() - self._looked_at >= self._interval_s:
                with self._opened() as device:
                    self._fleet = self._view.look(device, self._location, self._since_us, values=False)
                self._looked_at = time.monotonic()
            return self._fleet

    def overview(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the summary, what a person should see to, and the devices that the query asks for, as of now.

        Args:
            query: `find`: a part of the label, or the beginning of the key; `state`: a name of `_STATES`; `group`: a
                group's id.
        """
        return _overview(self.look(), query) | {"now_us": self._now_us()}

    def overviews(self, query: Mapping[str, str]) -> Iterator[dict[str, Any] | None]:
        """Yield the overview as it was last seen, then whenever something in it has changed, signs of life between."""
        found = _overview(self._fleet or self.look(), query)
        yield found | {"now_us": self._now_us()}
        spoke = time.monotonic()
        while True:
            before, found = found, _overview(self.look(), query)
            if found != before:
                spoke = time.monotonic()
                yield found | {"now_us": self._now_us()}
            elif time.monotonic() - spoke >= _KEEPALIVE_S:
                spoke = time.monotonic()
                yield None
            time.sleep(self._interval_s)

    def _now_us(self) -> int:
        """Return the device's clock; ages are reckoned by it, whatever a browser's shows."""
        fleet = self.look() if self._fleet is None else self._fleet
        return fleet.at_us + int(1_000_000 * (time.monotonic() - self._looked_at))

    def device(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return one device with its last values, and its recent numbers as [[time], [value]] of each series.

        Args:
            query: `key`: the device's signing key, in hex.

        Raises:
            LocalError: there is no such device.
        """
        from covey.app.operations.vault import vault_nodes, vault_reader

        fleet, found = self._one(query)
        key = DeviceKey(bytes.fromhex(found.key))
        values, points = self._view.values_of(key), dict[tuple[str, str], list[tuple[int, float]]]()
        if fleet.reads_vault:
            with self._opened() as device:
                reader, nodes = vault_reader(device, self._location), vault_nodes(device)
            points = recent_points(reader, nodes, key, fleet.at_us - self._since_us)
        return {
            "now_us": self._now_us(),
            "device": to_json(found),
            "groups": [to_json(each) for each in fleet.groups if each.group_id in found.groups],
            "values": [to_json(each) | {"points": _columns(points.get((each.name, each.unit), []))} for each in values],
        }

    def story(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return where one device's readings are, and what has become of it; `query` as for `device`.

        Raises:
            LocalError: there is no such device.
        """
        from covey.app.operations.device_story import custody, story

        _, found = self._one(query)
        key = DeviceKey(bytes.fromhex(found.key))
        with self._opened() as device:
            lines, held = story(device, key, self._view.said_by(key)), custody(device, key)
        return {"now_us": self._now_us(), "story": [to_json(each) for each in lines], "custody": to_json(held)}

    def accept(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Accept an invitation to a group, by its whole id: `group`.

        Raises:
            LocalError: none waits.
        """
        group = query.get("group", "")
        with self._lock, self._opened() as device:
            if not any(each.group_id == group for each in waiting_invitations(device)):
                raise LocalError("no such invitation waits")
            accepted = accept_invitation(device, group)
            self._fleet = None
        return {"accepted": accepted.hex()}

    def _one(self, query: Mapping[str, str]) -> tuple[Fleet, FleetDevice]:
        fleet = self.look()
        found = next((each for each in fleet.devices if each.key == query.get("key", "")), None)
        if found is None:
            raise LocalError("there is no such device")
        return fleet, found


def _overview(fleet: Fleet, query: Mapping[str, str]) -> dict[str, Any]:
    wanted = _wanted(fleet, query)
    return {
        "summary": fleet.summary,
        "reads_vault": fleet.reads_vault,
        "troubles": [to_json(each) for each in fleet.troubles[:_TROUBLES]],
        "more_troubles": max(0, len(fleet.troubles) - _TROUBLES),
        "groups": [to_json(each) for each in fleet.groups],
        "orders": [to_json(each) for each in fleet.orders],
        "invitations": [to_json(each) for each in fleet.invitations],
        "devices": [to_json(each) for each in wanted[:_ROWS]],
        "matching": len(wanted),
        "all": len(fleet.devices),
    }


def _columns(points: list[tuple[int, float]]) -> list[list[float]]:
    return [list(column) for column in zip(*points, strict=True)]


def _wanted(fleet: Fleet, query: Mapping[str, str]) -> list[FleetDevice]:
    find, is_wanted = query.get("find", "").casefold(), _STATES.get(query.get("state", ""), _STATES["all"])
    group = query.get("group", "")
    return [
        each
        for each in fleet.devices
        if is_wanted(each)
        and (not group or group in each.groups)
        and (not find or find in each.label.casefold() or each.key.startswith(find))
    ]
