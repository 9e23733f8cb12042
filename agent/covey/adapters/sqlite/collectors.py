"""The table of collectors that do not answer."""

from __future__ import annotations

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey


class SilentCollectors:
    """The collectors that new telemetry does not go to, and since when."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def silent(self) -> set[DeviceKey]:
        return {row[0] for row in self._database.run("SELECT device FROM silent_collector")}

    def set_silent(self, device: DeviceKey, since_us: int | None) -> None:
        if since_us is None:
            self._database.run("DELETE FROM silent_collector WHERE device = ?", (device,))
        else:
            self._database.run("INSERT OR IGNORE INTO silent_collector VALUES (?, ?)", (device, since_us))
