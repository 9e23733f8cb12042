"""The tables of this device itself: its own row, counters, conditions and the requests that named a key."""

from __future__ import annotations

import json
from typing import Any

from covey.adapters.sqlite.database import Database
from covey.limits.message import MAXIMUM_COUNTER
from covey.limits.storage import IDEMPOTENCY_KEYS


class Counters:
    """Numbers that only grow, by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter; at its largest value it stays."""
        self._database.run(
            "INSERT INTO counter VALUES (?1, ?2) "
            "ON CONFLICT DO UPDATE SET value = iif(value > ?3 - ?2, ?3, value + ?2)",
            (counter, min(amount, MAXIMUM_COUNTER), MAXIMUM_COUNTER),
        )

    def values(self) -> dict[str, int]:
        """Return every counter by name."""
        return dict(self._database.run("SELECT name, value FROM counter ORDER BY name"))


class SensorPositions:
    """How far sensors have come, by name: what is committed with the readings until there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> bytes:
        """Return a sensor's position; none is empty."""
        for (position,) in self._database.run("SELECT position FROM sensor_position WHERE name = ?", (name,)):
            return bytes(position)
        return b""

    def set(self, name: str, position: bytes) -> None:
        """Note a sensor's position."""
        self._database.run("INSERT OR REPLACE INTO sensor_position VALUES (?, ?)", (name, position))

    def names(self) -> list[str]:
        """Return which sensors have one."""
        return [str(name) for (name,) in self._database.run("SELECT name FROM sensor_position")]

    def forget(self, name: str) -> None:
        """Let a sensor start again."""
        self._database.run("DELETE FROM sensor_position WHERE name = ?", (name,))


class Conditions:
    """What the running agent knows of the world, by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, name: str, value: str, now_us: int) -> None:
        """Note what the running agent knows of the world."""
        self._database.run("INSERT OR REPLACE INTO condition VALUES (?, ?, ?)", (name, value, now_us))

    def values(self) -> dict[str, tuple[str, int]]:
        """Return every condition: name to (value, since when in microseconds)."""
        return {row[0]: (row[1], row[2]) for row in self._database.run("SELECT name, value, changed_at FROM condition")}


class DeviceRow:
    """The mark that a restored copy shows by, and what earlier salvages reported."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def mark(self) -> bytes | None:
        """Return the mark next to the file, unless one of both was restored (`state_file.py`)."""
        row = self._database.first("SELECT copy_mark FROM device")
        return None if row is None or row[0] is None else bytes(row[0])

    def set_mark(self, mark: bytes) -> None:
        """Remember it."""
        self._database.run("UPDATE device SET copy_mark = ?", (mark,))

    def salvages(self) -> list[tuple[int, dict[str, Any]]]:
        """Return (when, report) of the times that this state was saved from a damaged file, oldest first."""
        rows = self._database.run("SELECT salvaged_at, report FROM salvage ORDER BY id")
        return [(row[0], json.loads(row[1])) for row in rows]


class Idempotency:
    """The latest of these requests; a bounded number."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, key: str) -> tuple[bytes, int] | None:
        """Return (digest, result) of the request that named a key."""
        row = self._database.first("SELECT digest, result FROM idempotency WHERE key = ?", (key,))
        return None if row is None else (row[0], row[1])

    def keep(self, key: str, digest: bytes, result: int) -> None:
        """Keep a request's result; the oldest are dropped when there are too many."""
        self._database.run("INSERT INTO idempotency (key, digest, result) VALUES (?, ?, ?)", (key, digest, result))
        self._database.run(
            "DELETE FROM idempotency WHERE id <= (SELECT max(id) FROM idempotency) - ?", (IDEMPOTENCY_KEYS,)
        )
