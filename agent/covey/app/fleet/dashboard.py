"""The content of the fleet page: all browsers share one survey, and each reads the part that it requests.

1. Requests wait only for the first survey, which leaves the vault out; later ones show the last result. While that is
   older than an interval, and a browser asks, another survey runs. While the vault is read for the first time, partial
   results are shown after `_SHOWS_S`, and then at twice the time each: ten times, however busy the machine is.
   Of a large fleet the agent keeps the surveys (`keeping.py`): while it runs, the page reads them and makes none.
2. A browser gets summaries, of the whole and of each group, and the window of devices that it requests: its traffic
   does not grow with the fleet.
3. Details of devices are in a table (`FleetView`), and the device is opened once for all surveys (`KeptDevice`): memory
   hardly grows with the fleet.
4. `KeptDevice` has a thread of its own, because opening a large device takes seconds. Before each query it reads what
   other processes have written since. It opens the device again after a failed query; and every `_LOOKED_S` it checks
   whether the settings changed or the state was replaced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, TypeVar

from covey.adapters.c_library import return_freed_memory
from covey.adapters.sqlite.fleet_table import CONDITIONS, Wanted
from covey.app.documents import to_json
from covey.app.fleet.devices import shown_device
from covey.app.fleet.documents import Fleet, FleetDevice, FleetValue
from covey.app.fleet.fleet import FleetView, vault_of, wanted
from covey.app.fleet.keeping import SINCE_US
from covey.app.fleet.kept_fleet import KeptFleet, since_boot_s
from covey.app.fleet.silences import silenced
from covey.app.telemetry.curves import Curve, Interval, Window, curves
from covey.app.telemetry.human_units import reading_text, scale_of
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, DeviceKey, GroupId, from_hex
from covey.errors import CoveyError, LocalError, RemoteError
from covey.limits.vault import MAXIMUM_LOOK_BYTES, SHOWN_POINTS

if TYPE_CHECKING:
    from covey.adapters.sqlite.fleet_table import FoundDevice
    from covey.app.device.device import Device
    from covey.core.vault.reading import VaultReader


_LOOKED_S = 5.0
_Result = TypeVar("_Result")


class KeptDevice:
    """Safe to be called from several threads, which wait for one another."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Device]]) -> None:
        """Open nothing yet."""
        self._opened = opened
        self._asked: Queue[tuple[Callable[[Device], Any], Future[Any]]] = Queue()
        self._held = ExitStack()
        self._device: Device | None = None
        self._state_file: tuple[int, int] | None = None
        self._looked_at = 0.0
        threading.Thread(target=self._answer, name="device", daemon=True).start()

    def run(self, work: Callable[[Device], _Result]) -> _Result:
        """Return what the work returns for the device.

        Raises:
            CoveyError: what the work raises, or the device cannot be opened.
        """
        future: Future[_Result] = Future()
        self._asked.put((work, future))
        return future.result()

    def _answer(self) -> None:
        while True:
            try:
                work, future = self._asked.get(timeout=None if self._device is None else _HELD_S)
            except Empty:
                self._let_go()
                return_freed_memory()
                continue
            try:
                future.set_result(self._run(work))
            except BaseException as error:  # noqa: BLE001 - it is raised where the question was asked
                future.set_exception(error)
            del work, future  # what was returned is not held until the next question

    def _run(self, work: Callable[[Device], _Result]) -> _Result:
        device = self._current()
        try:
            return work(device)
        except LocalError:
            raise
        except BaseException:
            self._let_go()
            raise

    def _current(self) -> Device:
        if self._device is not None and time.monotonic() - self._looked_at >= _LOOKED_S:
            self._looked_at = time.monotonic()
            if not self._is_as_opened(self._device):
                self._let_go()
        if self._device is None:
            self._device = self._held.enter_context(self._opened())
            self._looked_at, self._state_file = time.monotonic(), _identity_of(self._device)
        elif self._device.store.changed_elsewhere():
            self._device.node.refresh()
        return self._device

    def _is_as_opened(self, device: Device) -> bool:
        try:
            return device.folder.configuration.config() == device.config and _identity_of(device) == self._state_file
        except CoveyError:  # which opening it tells
            return False

    def _let_go(self) -> None:
        self._device = None
        self._held.close()


def _identity_of(device: Device) -> tuple[int, int] | None:
    """Return what distinguishes a state's file from another of the same name; None without one."""
    try:
        found = device.folder.state_file.path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


_ROWS = 200
"""Devices in a window; a person who looks for another one searches, or goes on to the next window."""
_TROUBLES = 20
_OUTBOX = 10
"""Messages that wait for a device, the oldest ones, which its page shows."""
_DIGITS = 9
_TIME_DIGITS = 17
_ORDER_DIGITS = {32, 64}
"""Of the ids of orders, plans and releases."""
_HOUR_US = 3_600_000_000
_SPANS_US = {"hour": _HOUR_US, "day": 24 * _HOUR_US, "week": 168 * _HOUR_US, "month": 744 * _HOUR_US}
_KEEPALIVE_S = 15.0
_LOOKING = 0.5
"""How much of the time may be spent with looking over all devices: an open page leaves half a processor to others."""
_LEAST_S = 0.02
_SHOWS_S = 0.5
_KEPT_S = 0.1
"""Between two looks at what the agent keeps, while nothing has changed there: a fraction of a millisecond each."""
_HELD_S = 60.0
"""How long a device that nobody asks stays open: one of a large fleet takes 100 MiB."""
_AT_ONCE = 5_000
"""Devices that are looked at while nobody else can ask: some tenths of a second. Of more that fall silent at once, as
when a relay ends, each look takes up so many: what others say is shown as soon as ever."""


class Dashboard:
    """The fleet as its page asks for it. Safe to be called from several threads."""

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Device]],
        location: str | None,
        since_us: int,
        interval_s: float,
        *,
        acts: bool = True,
        kept: KeptFleet | None = None,
    ) -> None:
        """Look at the fleet at most once each `interval_s`; at the vault `location`, `since_us` back.

        `acts`: whether the page offers to change something. `kept`: reads what this device's agent keeps.
        """
        self._acts = acts
        self._kept = kept if location is None and since_us == SINCE_US else None
        self._is_kept = False
        self._device, self._location = KeptDevice(opened), location
        self._since_us, self._interval_s = since_us, interval_s
        self._view = FleetView()
        self._changed = threading.Condition()
        self._fleet: Fleet | None = None
        self._failure: CoveyError | None = None
        self._seen_at = self._due_at = 0.0
        self._rest_s = interval_s
        self._looks = self._looks_at_once = False

    def look(self) -> Fleet:
        """Return the fleet as it was last seen; where that is an interval ago, a further look has begun (rule 1).

        Raises:
            CoveyError: at the last look the state or the vault could not be read.
        """
        with self._changed:
            if self._look_kept():
                assert self._fleet is not None, "kept"
                return self._fleet
            if self._fleet is None:
                self._see(reads=False)
            old = not self._fleet_is_read or time.monotonic() >= self._due_at
            if (old or self._looks_at_once) and not self._looks:
                self._looks, self._looks_at_once = True, False
                threading.Thread(target=self._take_another_look, name="look", daemon=True).start()
            if self._failure is not None:
                raise self._failure
            assert self._fleet is not None, "seen at the beginning"
            return self._fleet

    def _look_kept(self) -> bool:
        """Take up the agent's last survey; say whether there is one."""
        found = None if self._kept is None else self._kept.look()
        if found is None:
            if self._is_kept:  # the agent has ended
                self._is_kept, self._fleet, self._view = False, None, FleetView()
            return False
        if self._fleet is not found.fleet:
            self._is_kept, self._view = True, found.view
            self._fleet, self._failure = found.fleet, None
            self._seen_at = time.monotonic() - (since_boot_s() - found.began_s)
            self._changed.notify_all()
        self._due_at = time.monotonic() + _KEPT_S
        return True

    @property
    def _fleet_is_read(self) -> bool:
        return self._fleet is not None and self._fleet.is_read

    def _see(self, *, reads: bool) -> None:
        began = time.monotonic()
        vault = self._device.run(self._vault) if reads else None
        if vault is not None:
            rest_s = _SHOWS_S
            for _ in self._view.read(*vault, self._since_us):  # apart from the device, which others ask meanwhile
                if not self._fleet_is_read and time.monotonic() - began >= rest_s:
                    self._show(reads=False)
                    rest_s *= 2
        surveyed = time.monotonic()
        self._show(reads=reads)
        with self._changed:
            self._rest_s = max(self._interval_s, (time.monotonic() - surveyed) / _LOOKING)

    def _show(self, *, reads: bool) -> None:
        began = time.monotonic()
        fleet = self._device.run(lambda device: self._survey(device, reads=reads))
        with self._changed:
            self._fleet, self._failure, self._seen_at = fleet, None, began
            self._changed.notify_all()

    def _vault(self, device: Device) -> tuple[VaultReader, list[str], int] | None:
        self._view.take_members(device)
        if not device.folder.has_vault_key:
            return None
        return *vault_of(device, self._location), device.clock.wall_us()

    def _survey(self, device: Device, *, reads: bool) -> Fleet:
        self._view.take_members(device)
        return self._view.survey(device, reads=reads, overdue_most=_AT_ONCE)

    def _take_another_look(self) -> None:
        began = time.monotonic()
        try:
            self._see(reads=True)
        except CoveyError as error:
            self._failure = error
        finally:
            with self._changed:
                self._looks = False
                self._due_at = max(began + self._rest_s, time.monotonic())
                self._changed.notify_all()

    def overview(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the summary, what a person should see to, and the devices that the query asks for, as of now.

        Args:
            query: `find`: a part of the label, or the beginning of the key; `state`: a name of `CONDITIONS`; `group`: a
                group's id; `first`: how many devices stand before the window.
        """
        fleet = self.look()
        return self._overview(fleet, query) | {"now_us": self._now_us()}

    def overviews(
        self, query: Mapping[str, str], has_gone: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, Any] | None]:
        """Yield the latest overview, then each changed one, with signs of life in between.

        It ends when its reader is gone, even without news: each word of a search opens a new one.
        """
        seen, found, spoke = None, dict[str, Any](), 0.0
        while not has_gone():
            fleet = self.look()
            before, found = found, found if fleet is seen else self._overview(fleet, query)
            if found != before:
                spoke = time.monotonic()
                yield found | {"now_us": self._now_us()}
            elif time.monotonic() - spoke >= _KEEPALIVE_S:
                spoke = time.monotonic()
                yield None
            seen = fleet
            with self._changed:
                rest_s = max(_LEAST_S, self._due_at - time.monotonic())
                self._changed.wait_for(lambda seen=seen: self._fleet is not seen, rest_s)  # type: ignore[misc]

    def _now_us(self) -> int:
        """Return the device's time; ages use it, whatever clock a browser has."""
        with self._changed:
            assert self._fleet is not None, "seen at the beginning"
            return self._fleet.at_us + int(1_000_000 * (time.monotonic() - self._seen_at))

    def device(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return one device with its last values, and its recent numbers as [[time], [value]] of each series.

        Args:
            query: `key`: the device's signing key, in hex.

        Raises:
            LocalError: no such device.
        """
        fleet, found, key = self._one(query)
        values, points = self._view.values_of(key), dict[tuple[str, str], Curve]()
        if fleet.reads_vault:
            reader, nodes = self._device.run(lambda device: vault_of(device, self._location))
            ahead_us = fleet.at_us + self._since_us  # clocks of devices may be ahead of this one
            window = Window(fleet.at_us - self._since_us, ahead_us, 2 * SHOWN_POINTS)
            replaced = self._device.run(lambda device: device.store.replacements.replaced_by(key))
            points = curves(reader, nodes, key, window, replaced=replaced, most_bytes=MAXIMUM_LOOK_BYTES)
        return {
            "now_us": self._now_us(),
            "acts": self._acts,
            "silenced_until_us": self._device.run(silenced).get(key.hex()),
            "device": to_json(found),
            "gateway": self._named(found.gateway),
            "boards": [
                {"key": each.found.device.hex(), "label": each.found.label} for each in self._view.table.behind(key)
            ],
            "groups": [to_json(each) for each in fleet.groups if each.group_id in found.groups],
            "values": [_shown_value(each, points.get((each.name, each.unit), {})) for each in values],
        }

    def story(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return where one device's readings are, and their story; `query` as for `device`.

        Raises:
            LocalError: no such device.
        """
        from covey.app.fleet.device_story import custody, story, waiting_for

        _, _, key = self._one(query)
        said = self._view.said_by(key)
        lines, held, waiting = self._device.run(
            lambda device: (story(device, key, said), custody(device, key), waiting_for(device, key, _OUTBOX))
        )
        return {
            "now_us": self._now_us(),
            "story": [to_json(each) for each in lines],
            "custody": to_json(held),
            "outbox": [to_json(each) for each in waiting],
        }

    def series(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the course of one series: of each interval the time, the last, the lowest and the highest value.

        Args:
            query: `key` as for `device`; `name` and `unit` as the device sent them; `span`: a name of `_SPANS_US`.

        Raises:
            LocalError: no such device, or this device reads no vault.
        """
        fleet, _, key = self._one(query)
        if not fleet.reads_vault:
            raise LocalError("this device has no vault key")
        name, unit = query.get("name", ""), query.get("unit", "")
        span_us = _SPANS_US.get(query.get("span", ""), _SPANS_US["day"])
        reader, nodes = self._device.run(lambda device: vault_of(device, self._location))
        window = Window(fleet.at_us - span_us, fleet.at_us + span_us // SHOWN_POINTS, SHOWN_POINTS)
        read_from: list[int] = []
        found = curves(
            *(reader, nodes, key, window),
            replaced=self._device.run(lambda device: device.store.replacements.replaced_by(key)),
            series=name,
            most_bytes=MAXIMUM_LOOK_BYTES,
            stopped=read_from.append,
        )
        curve = found.get((name, unit), {})
        points = [curve[place] for place in sorted(curve)]
        scale = scale_of(unit, max((max(abs(each.lowest), abs(each.highest)) for each in points), default=0.0))
        return {
            "now_us": self._now_us(),
            "name": name,
            "shown_unit": scale.unit,
            "since_us": window.since_us,
            "read_from_us": max(read_from, default=window.since_us),
            "points": [
                [each.at_us for each in points],
                *([value * scale.factor for value in column] for column in _bounds(points)),
            ],
            "thinned": [each.thinned for each in points],
        }

    def order(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return an order or a release with its results on a time line.

        Args:
            query: `id`: of the order, plan or release; `span`: "hour", "day" or "week", else all of the time; `from`:
                when the span begins, in microseconds since 1970; by default when the order was given.

        Raises:
            LocalError: there is no such order.
        """
        from covey.app.fleet.order_line import GatheredLine, parts_of, results_of
        from covey.app.orders.fleet import shared_groups

        name, began = query.get("id", ""), query.get("from", "")
        if len(name) not in _ORDER_DIGITS:
            raise LocalError("no such order")
        entry, parts = self._device.run(lambda device: parts_of(device, shared_groups(device), name))
        from_us = int(began) if began.isascii() and began.isdecimal() and len(began) <= _TIME_DIGITS else 0
        line = GatheredLine(
            entry, parts, self._device.run(lambda device: device.clock.wall_us()), query.get("span", ""), from_us
        )
        for part in parts:  # apart from one another: others ask the device meanwhile
            line.add(part, self._device.run(lambda device, part=part: results_of(device, part)))  # type: ignore[misc]
        return {"now_us": self._now_us(), "acts": self._acts, **to_json(line.line())}

    def act(self, action: Callable[[Device, Mapping[str, str]], dict[str, Any]], query: Mapping[str, str]) -> Any:
        """Let an action of `page_actions` change something; the page shows it at once.

        Raises:
            LocalError: this device may not do that, or there is nothing of that name.
        """
        found = self._device.run(lambda device: action(device, query))
        with self._changed:
            self._looks_at_once = True
        return found

    def _one(self, query: Mapping[str, str]) -> tuple[Fleet, FleetDevice, DeviceKey]:
        fleet, key = self.look(), DeviceKey(_octets(query.get("key", ""), KEY_BYTES))
        row = self._view.table.device(key)
        if row is None:
            raise LocalError("no such device")
        return fleet, shown_device(row), key

    def _named(self, key: str) -> dict[str, str]:
        row = self._view.table.device(DeviceKey(bytes.fromhex(key)))
        return {"key": key, "label": ""} if row is None else _link(row.found)

    def _overview(self, fleet: Fleet, query: Mapping[str, str]) -> dict[str, Any]:
        asked, table = _wanted(query), self._view.table
        matching = table.count(asked)
        first = query.get("first", "")
        number = int(first) if first.isascii() and first.isdecimal() and len(first) < _DIGITS else 0
        number = min(number, max(0, matching - 1)) // _ROWS * _ROWS
        lists = ("relays", "groups", "orders", "releases", "rollbacks", "files", "versions", "invitations")
        return {
            "summary": fleet.summary,
            "acts": self._acts,
            "reads_vault": fleet.reads_vault,
            "is_read": fleet.is_read,
            "troubles": [to_json(each) for each in fleet.troubles[:_TROUBLES]],
            "more_troubles": max(0, len(fleet.troubles) - _TROUBLES),
            **{name: [to_json(each) for each in getattr(fleet, name)] for name in lists},
            "devices": [to_json(shown_device(each)) for each in table.window(asked, number, _ROWS)],
            "first": number,
            "matching": matching,
            "all": table.count(Wanted()),
        }


def _wanted(query: Mapping[str, str]) -> Wanted:
    state, group_id = query.get("state", ""), query.get("group", "")
    return wanted(
        state if state in CONDITIONS else "all",
        query.get("find", ""),
        GroupId(_octets(group_id, GROUP_ID_BYTES) if group_id else b""),
    )


def _bounds(points: Sequence[Interval]) -> tuple[list[float], ...]:
    return [each.last for each in points], [each.lowest for each in points], [each.highest for each in points]


def _shown_value(value: FleetValue, curve: Curve) -> dict[str, Any]:
    points = _columns(curve)
    scale = scale_of(value.unit, max(map(abs, points[1]), default=0.0) if points else 0.0)
    shown = {"shown": reading_text(value.value, value.unit), "factor": scale.factor, "shown_unit": scale.unit}
    return {**to_json(value), **shown, "points": points}


def _link(device: FoundDevice) -> dict[str, str]:
    return {"key": device.device.hex(), "label": device.label}


def _octets(text: str, size: int) -> bytes:
    try:
        return from_hex(text, size)
    except RemoteError:
        return bytes(size)


def _columns(curve: Curve) -> list[list[float]]:
    points = [curve[place] for place in sorted(curve)]
    return [[each.at_us for each in points], [each.last for each in points]] if points else []
