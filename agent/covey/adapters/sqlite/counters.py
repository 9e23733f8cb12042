"""The tables of counters and conditions, which status and metrics read."""

from __future__ import annotations

from covey.adapters.sqlite.database import Database


class Counters:
    """Numbers that only grow, by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter."""
        self._database.run(
            "INSERT INTO counter VALUES (?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
            (counter, amount),
        )

    def values(self) -> dict[str, int]:
        """Return every counter by name."""
        return dict(self._database.run("SELECT name, value FROM counter ORDER BY name"))


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
