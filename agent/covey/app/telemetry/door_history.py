"""Import hours with late readings for one door, next to its readings and never in their way (a thread of its own).

1. Hours wait in the doors' file, where the door's commits put them, until they are read back from the receiver.
2. What fails is tried again as late as a batch would be, and shown in `covey door status`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.wording import count
from covey.core.ids import printable
from covey.core.telemetry.door_hours import HOUR_US
from covey.core.telemetry.drops import Drop
from covey.errors import CoveyError
from covey.limits.doors import (
    DOOR_HOUR_SETTLES_US,
    DOOR_IMPORT_HOURS,
    DOOR_IMPORT_INTERVAL_SECONDS,
    DOOR_RETRY_MAXIMUM_SECONDS,
    DOOR_RETRY_SECONDS,
)

if TYPE_CHECKING:
    from covey.adapters.doors.kinds import LateImport
    from covey.adapters.sqlite.door_file import DoorFile


@dataclass(slots=True)
class HistoryRunner:
    """Imports for one door. `turn` does what is due, and is called again after the seconds that it returns."""

    door: str
    history: LateImport
    file: DoorFile
    log: Callable[[str], None]
    wall_us: Callable[[], int] = lambda: time.time_ns() // 1_000
    _attempts: int = 0
    _line: str = ""

    def turn(self) -> float:
        """Import hours, if some are due."""
        try:
            return self._turn()
        except CoveyError as error:
            return self._wait(str(error))

    def _turn(self) -> float:
        hours = self.file.hours
        ended = (self.wall_us() - DOOR_HOUR_SETTLES_US) // HOUR_US
        due = hours.due(self.door, ended, DOOR_IMPORT_HOURS)
        if not due:
            if self._attempts:
                self._recover()
            return DOOR_IMPORT_INTERVAL_SECONDS
        found = self.history.send(due, hours.claim)
        now_us = self.wall_us()
        hours.done(self.door, [*found.stored, *found.kept], len(found.stored), now_us)
        if found.kept:
            self.file.drop(self.door, {Drop.LATE: round(sum(each.readings for each in found.kept))})
        if found.stored:
            self.log(f"{self.door}: imported {count(len(found.stored), 'hour')} with late readings")
        if found.waiting:
            hours.tried(found.waiting, now_us)
            return self._wait("; ".join(found.failed))
        self._recover()
        return 0.0 if len(due) == DOOR_IMPORT_HOURS else DOOR_IMPORT_INTERVAL_SECONDS

    def _recover(self) -> None:
        if self._line:
            self.log(f"{self.door}: importing again")
        self._attempts, self._line = 0, ""
        self.file.hours.failed(self.door, "", self.wall_us())

    def _wait(self, why: str) -> float:
        wait_s = min(DOOR_RETRY_SECONDS * (1 << min(self._attempts, 20)), DOOR_RETRY_MAXIMUM_SECONDS)
        self._attempts += 1
        if why != self._line:
            self.log(f"{self.door}: late readings wait: {printable(why)}")
            self._line = why
        self.file.hours.failed(self.door, why, self.wall_us())
        return wait_s

    def close(self) -> None:
        """Release the file."""
        self.file.close()
