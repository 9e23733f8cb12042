"""Reading what an agent keeps of a large fleet (`keeping.py`), in the processes of the page and of `covey fleet`."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covey.errors import CoveyError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.app.fleet.documents import Fleet
    from covey.app.fleet.fleet import FleetView

_ASKED_S = 1.0
_POLL_S = 0.02


class KeptLook(NamedTuple):
    """The last look of this device's agent, when it began, in seconds since boot, and its devices."""

    fleet: Fleet
    began_s: float
    view: FleetView


class KeptFleet:
    """Reads what this device's agent keeps of a large fleet. Safe to be called from several threads."""

    def __init__(self, folder: StateFolder) -> None:
        """Open nothing yet."""
        self._folder = folder
        self._lock = threading.Lock()
        self._last: KeptLook | None = None
        self._number = 0
        self._file: tuple[int, int] | None = None
        self._asked = 0.0

    def look(self) -> KeptLook | None:
        """Return the last look, and ask for a further one; None where no agent keeps the fleet.

        Nothing changes between two looks: then the same object is returned again.
        """
        with self._lock:
            if not self._folder.locks.fleet_is_kept():
                self._last = None
                return None
            self._ask()
            try:
                return self._newest()
            except (CoveyError, OSError):  # an agent has just ended, or begun
                self._last = None
                return None

    def fresh(self, patience_s: float) -> KeptLook | None:
        """Return a complete look that began after this call; after `patience_s` the last one that is complete.

        None where no agent keeps the fleet, or has no complete look yet.
        """
        began_s = since_boot_s()
        found = self.look()
        while found is not None and since_boot_s() - began_s < patience_s:
            if found.fleet.is_read and found.began_s >= began_s:
                return found
            time.sleep(_POLL_S)
            found = self.look()
        return found if found is not None and found.fleet.is_read else None

    def _ask(self) -> None:
        if time.monotonic() - self._asked >= _ASKED_S or not self._asked:
            self._asked = time.monotonic()
            with suppress(OSError):  # a read-only disk: the agent then looks at its own pace
                self._folder.fleet_wanted.touch(mode=0o600)

    def _newest(self) -> KeptLook | None:
        from covey.adapters.sqlite.fleet_table import FleetTable
        from covey.app.documents import from_json
        from covey.app.fleet.documents import Fleet
        from covey.app.fleet.fleet import FleetView

        found = self._folder.fleet_table.stat()
        view = None if self._last is None else self._last.view
        if view is None or self._file != (found.st_dev, found.st_ino):
            view, self._file, self._number = FleetView(FleetTable.read_at(self._folder.fleet_table)), None, 0
            self._file = found.st_dev, found.st_ino
        elif view.table.survey_number() == self._number:
            return self._last
        kept = view.table.kept_survey()
        if kept is None:
            return None
        self._number = kept.number
        self._last = KeptLook(from_json(Fleet, json.loads(kept.document)), kept.began_us / 1_000_000, view)
        return self._last


def since_boot_s() -> float:
    """Return seconds since boot, suspend included: of one clock in all processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
