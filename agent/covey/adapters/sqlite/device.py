"""What the device's own row and its history of salvages say."""

from __future__ import annotations

import json
from typing import Any

from covey.adapters.sqlite.database import Database


class DeviceRow:
    """The mark that a restored copy shows by, and what earlier salvages reported."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def mark(self) -> bytes | None:
        """Return what stands beside the file, too, unless one of both was restored (`state_file.py`)."""
        row = self._database.first("SELECT copy_mark FROM device")
        return None if row is None or row[0] is None else bytes(row[0])

    def set_mark(self, mark: bytes) -> None:
        """Remember it."""
        self._database.run("UPDATE device SET copy_mark = ?", (mark,))

    def salvages(self) -> list[tuple[int, dict[str, Any]]]:
        """Return (when, report) of the times that this state was saved from a damaged file, oldest first."""
        rows = self._database.run("SELECT salvaged_at, report FROM salvage ORDER BY id")
        return [(row[0], json.loads(row[1])) for row in rows]
