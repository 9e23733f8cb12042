"""The table of a large fleet: the agent keeps it, so that `covey fleet` and the page need not open every manifest.

1. The agent of a fleet of `FLEET_KEPT_DEVICES` or more looks at it all the time: every `_IDLE_US`, and every `_BUSY_US`
   while somebody wants to see it. Looking takes at most a sixth of the agent's time (`_SHARE`), the first look a half.
2. A turn of the agent makes at most `_ROWS` rows and reads `_GROUPS` groups; the vault is read by a thread of its own.
   So nobody else waits for a look.
3. A process that wants to see the fleet touches a file and reads the table (`kept_fleet.py`). It never writes.
4. A look is complete when no row is stale and the vault was read. One that is not says so (`Fleet.is_read`).
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.errors import CoveyError
from covey.limits.vault import FLEET_KEPT_DEVICES

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.fleet.documents import Fleet
    from covey.app.fleet.fleet import FleetView
    from covey.core.node import Node
    from covey.core.now import Now

SINCE_US = 86_400_000_000
"""How far the agent looks back in the vault, as `covey fleet` and the page do where nothing else is asked for."""
_IDLE_US = 10_000_000
_BUSY_US = 500_000
_READS_US = 20_000
_WANTED_US = 15_000_000
_SHARE = 5
_ROWS = 4_000
_GROUPS = 8
_RETRY_US = 60_000_000


class FleetKeeper:
    """Keeps the table of a large fleet. Implements `runtime.AgentRole`."""

    def __init__(self, device: Device) -> None:
        """Begin with nothing: whether the fleet is large is seen at the first turn."""
        self._device = device
        self._generation = -1
        self._is_large = False
        self._lock: int | None = None
        self._view: FleetView | None = None
        self._reading: _Reading | None = None
        self._was_read = False
        self._number = 0
        self._due_us = self._retry_us = 0
        self._began_us = 0
        self._touched_ns = 0
        self._wanted_us: int | None = None
        self._failed = ""

    def turn(self, node: Node, now: Now) -> int | None:
        """Do a part of a look, if one is due."""
        if self._generation != node.groups.generation:
            self._generation = node.groups.generation
            self._is_large = sum(len(each.members) for each in node.groups.joined()) >= FLEET_KEPT_DEVICES
            if not self._is_large:
                self._end()
        if not self._is_large or now.monotonic_us < self._retry_us:
            return None
        touched_ns = self._last_touched()
        if touched_ns != self._touched_ns:
            self._touched_ns, self._wanted_us = touched_ns, now.monotonic_us
            self._due_us = min(self._due_us, now.monotonic_us)
        if now.monotonic_us < self._due_us:
            return self._due_us
        try:
            self._look(replace(self._device, node=node), now)
        except CoveyError as error:
            self._note_failure(str(error), now)
            return None
        self._failed = ""
        return self._due_us

    def stop(self, node: Node, now: Now) -> None:
        """Remove the table: the next agent makes its own."""
        del node, now
        self._end()

    def _look(self, device: Device, now: Now) -> None:
        began_us = device.clock.monotonic_us()
        view = self._view or self._begin()
        if view is None:
            self._due_us = now.monotonic_us + _IDLE_US
            return
        if self._reading is None:
            self._began_us = began_us
            has_all = view.take_members(device, most=_GROUPS)
            if has_all and device.folder.has_vault_key:
                self._reading = _Reading(view, device)
        else:
            has_all = True
        is_over = has_all and (self._reading is None or self._reading.is_over())
        if is_over and self._reading is not None:
            reading, self._reading = self._reading, None
            reading.check()
            self._was_read = True
        elif has_all and self._was_read and not is_over:  # mostly there is little to read: one survey is enough
            self._due_us = now.monotonic_us + _READS_US
            return
        fleet = view.survey(device, overdue_most=_ROWS, most=_ROWS)
        is_whole = has_all and self._is_read(device) and not view.table.has_stale()
        self._keep(view, replace(fleet, is_read=is_whole))
        took_us = device.clock.monotonic_us() - began_us
        is_wanted = self._wanted_us is not None and now.monotonic_us - self._wanted_us < _WANTED_US
        if is_whole:
            self._due_us = now.monotonic_us + max(_BUSY_US if is_wanted else _IDLE_US, _SHARE * took_us)
        else:
            self._due_us = now.monotonic_us + took_us

    def _is_read(self, device: Device) -> bool:
        return self._was_read or not device.folder.has_vault_key

    def _keep(self, view: FleetView, fleet: Fleet) -> None:
        from covey.app.documents import to_json

        self._number += 1
        view.table.keep_survey(self._number, self._began_us, json.dumps(to_json(fleet)))

    def _begin(self) -> FleetView | None:
        from covey.adapters.sqlite.fleet_table import FleetTable
        from covey.app.fleet.fleet import FleetView

        if self._lock is None:
            self._lock = self._device.folder.locks.fleet()
        if self._lock is not None:
            self._view = FleetView(FleetTable.kept_at(self._device.folder.fleet_table))
            self._was_read = False
        return self._view

    def _last_touched(self) -> int:
        try:
            return self._device.folder.fleet_wanted.stat().st_mtime_ns
        except OSError:
            return 0

    def _note_failure(self, why: str, now: Now) -> None:
        """Look again later; nothing else of the agent waits for it."""
        if why != self._failed:
            report("warning", f"the fleet was not looked at: {why}")
        self._failed, self._retry_us, self._reading = why, now.monotonic_us + _RETRY_US, None
        self._end()

    def _end(self) -> None:
        if self._reading is not None:
            self._reading.end()
            self._reading = None
        if self._view is not None:
            self._view.table.close()
            self._view = None
            with suppress(CoveyError):
                from covey.adapters.sqlite.fleet_table import remove_kept

                remove_kept(self._device.folder.fleet_table)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class _Reading:
    """One reading of the vault, by a thread that asks the device nothing."""

    def __init__(self, view: FleetView, device: Device) -> None:
        from covey.app.fleet.fleet import vault_of

        self._steps = view.read(*vault_of(device, None), device.clock.wall_us(), SINCE_US)
        self._failure: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        """Say whether the thread has ended."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise what the reading raised."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """End the reading after its segment."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for _ in self._steps:
                if self._ended.is_set():
                    return
        except Exception as error:  # noqa: BLE001 - raised again by `check`, in the agent's own thread
            self._failure = error
