"""The tables of counters and conditions, which status and metrics read."""

from __future__ import annotations

from covey.adapters.sqlite.database import Database
from covey.limits.message import MAXIMUM_COUNTER


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
        """Have a sensor begin anew."""
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
