"""What the fleet's page shows: one look at the fleet for all browsers, each of which sees the part that it asks for.

1. Nobody waits for a look, but for the first one, which leaves the vault out: what was seen last is shown, and while it
   is older than an interval, and somebody asks, another look is under way.
2. A browser is sent summaries, of the whole and of each group, and a window of the devices that it asks for: what it is
   sent does not grow with the fleet.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from covey.app.documents import to_json
from covey.app.fleet_documents import Fleet, FleetDevice
from covey.app.newest_readings import recent_points
from covey.app.operations.fleet import FleetView
from covey.app.operations.fleet_devices import HERE, SELF
from covey.app.operations.invitations import accept_invitation, waiting_invitations
from covey.core.ids import DeviceKey
from covey.errors import CoveyError, LocalError

if TYPE_CHECKING:
    from covey.app.device import Device

_ROWS = 200
"""Devices in a window; a person who looks for another one searches, or goes on to the next window."""
_TROUBLES = 20
_OUTBOX = 10
"""Messages that wait for a device, the oldest ones, which its page shows."""
_DIGITS = 9
_KEEPALIVE_S = 15.0
_STATES: Mapping[str, Callable[[FleetDevice], bool]] = {
    "all": lambda _: True,
    "here": lambda each: each.presence in {HERE, SELF},
    "away": lambda each: each.presence not in {HERE, SELF},
    "lost": lambda each: bool(each.lost),
    "waiting": lambda each: bool(each.waiting),
    "missing": lambda each: bool(each.missing),
    "clock": lambda each: each.clock == "unsynchronised",
    "boards": lambda each: each.board,
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
        self._changed = threading.Condition()
        self._fleet: Fleet | None = None
        self._failure: CoveyError | None = None
        self._seen_at = self._looked_at = 0.0
        self._looks = self._looks_at_once = False

    def look(self) -> Fleet:
        """Return the fleet as it was last seen; where that is an interval ago, a further look has begun (rule 1).

        Raises:
            CoveyError: at the last look the state or the vault could not be read.
        """
        with self._changed:
            if self._fleet is None:
                self._see(reads=False)
            old = not self._fleet_is_read or time.monotonic() - self._looked_at >= self._interval_s
            if (old or self._looks_at_once) and not self._looks:
                self._looks, self._looks_at_once = True, False
                threading.Thread(target=self._take_another_look, name="look", daemon=True).start()
            if self._failure is not None:
                raise self._failure
            assert self._fleet is not None, "seen at the beginning"
            return self._fleet

    @property
    def _fleet_is_read(self) -> bool:
        return self._fleet is not None and self._fleet.is_read

    def _see(self, *, reads: bool) -> None:
        began = time.monotonic()
        with self._opened() as device:
            fleet = self._view.look(device, self._location, self._since_us, values=False, reads=reads)
        with self._changed:
            self._fleet, self._failure, self._seen_at = fleet, None, began

    def _take_another_look(self) -> None:
        try:
            self._see(reads=True)
        except CoveyError as error:
            self._failure = error
        finally:
            with self._changed:
                self._looks = False
                self._looked_at = time.monotonic()
                self._changed.notify_all()

    def overview(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the summary, what a person should see to, and the devices that the query asks for, as of now.

        Args:
            query: `find`: a part of the label, or the beginning of the key; `state`: a name of `_STATES`; `group`: a
                group's id; `first`: how many devices stand before the window.
        """
        fleet = self.look()
        return _overview(fleet, query) | {"now_us": self._now_us()}

    def overviews(self, query: Mapping[str, str]) -> Iterator[dict[str, Any] | None]:
        """Yield the overview as it was last seen, then whenever something in it has changed, signs of life between."""
        seen, found, spoke = None, dict[str, Any](), 0.0
        while True:
            fleet = self.look()
            before, found = found, found if fleet is seen else _overview(fleet, query)
            if found != before:
                spoke = time.monotonic()
                yield found | {"now_us": self._now_us()}
            elif time.monotonic() - spoke >= _KEEPALIVE_S:
                spoke = time.monotonic()
                yield None
            seen = fleet
            with self._changed:
                self._changed.wait_for(lambda seen=seen: self._fleet is not seen, self._interval_s)  # type: ignore[misc]

    def _now_us(self) -> int:
        """Return the device's clock; ages are reckoned by it, whatever a browser's shows."""
        with self._changed:
            assert self._fleet is not None, "seen at the beginning"
            return self._fleet.at_us + int(1_000_000 * (time.monotonic() - self._seen_at))

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
            "gateway": _named(fleet, found.gateway),
            "boards": [_named(fleet, each.key) for each in fleet.devices if each.gateway == found.key],
            "groups": [to_json(each) for each in fleet.groups if each.group_id in found.groups],
            "values": [to_json(each) | {"points": _columns(points.get((each.name, each.unit), []))} for each in values],
        }

    def story(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return where one device's readings are, and what has become of it; `query` as for `device`.

        Raises:
            LocalError: there is no such device.
        """
        from covey.app.operations.device_story import custody, story, waiting_for

        _, found = self._one(query)
        key = DeviceKey(bytes.fromhex(found.key))
        with self._opened() as device:
            lines, held = story(device, key, self._view.said_by(key)), custody(device, key)
            waiting = waiting_for(device, key, _OUTBOX)
        return {
            "now_us": self._now_us(),
            "story": [to_json(each) for each in lines],
            "custody": to_json(held),
            "outbox": [to_json(each) for each in waiting],
        }

    def accept(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Accept an invitation to a group, by its whole id: `group`.

        Raises:
            LocalError: none waits.
        """
        group = query.get("group", "")
        with self._opened() as device:
            if not any(each.group_id == group for each in waiting_invitations(device)):
                raise LocalError("no such invitation waits")
            accepted = accept_invitation(device, group)
        with self._changed:
            self._looks_at_once = True
        return {"accepted": accepted.hex()}

    def _one(self, query: Mapping[str, str]) -> tuple[Fleet, FleetDevice]:
        fleet = self.look()
        found = next((each for each in fleet.devices if each.key == query.get("key", "")), None)
        if found is None:
            raise LocalError("there is no such device")
        return fleet, found


def _overview(fleet: Fleet, query: Mapping[str, str]) -> dict[str, Any]:
    wanted = _wanted(fleet, query)
    first = int(query.get("first", "")) if query.get("first", "").isdecimal() and len(query["first"]) < _DIGITS else 0
    first = min(first, max(0, len(wanted) - 1)) // _ROWS * _ROWS
    lists = ("groups", "orders", "releases", "rollbacks", "files", "versions", "invitations")
    return {
        "summary": fleet.summary,
        "reads_vault": fleet.reads_vault,
        "is_read": fleet.is_read,
        "troubles": [to_json(each) for each in fleet.troubles[:_TROUBLES]],
        "more_troubles": max(0, len(fleet.troubles) - _TROUBLES),
        **{name: [to_json(each) for each in getattr(fleet, name)] for name in lists},
        "devices": [to_json(each) for each in wanted[first : first + _ROWS]],
        "first": first,
        "matching": len(wanted),
        "all": len(fleet.devices),
    }


def _named(fleet: Fleet, key: str) -> dict[str, str]:
    """Return a device's key and what it is called, as its page links to it."""
    return {"key": key, "label": next((each.label for each in fleet.devices if each.key == key), "")}


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
