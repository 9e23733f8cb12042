"""Hours of series in the doors' file: what a door has sent on of each, and which of them its receiver is to have again.

1. What a batch adds is added in the commit that leaves the batch behind, and each message is added once.
2. An imported hour is no longer due, unless readings were added to it during the import (`changes`).
3. What is kept is bounded. The newest hour of a series is kept longest, as the next outage may have begun in it.
4. Of an hour that was deleted, or that was going on when keeping began, readings may be unknown here. Such an hour is
   a part (`is_part`), until the receiver is known to have nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.telemetry.door_hours import HOUR_US, DueHour, MessageHours, SeriesHour, SeriesUnit
from covey.limits.doors import (
    DOOR_HOURS,
    DOOR_HOURS_KEPT_US,
    DOOR_HOURS_PRUNED,
    DOOR_HOURS_PRUNED_EVERY_US,
    DOOR_SERIES,
    DOOR_SERIES_OF_DEVICE,
)

if TYPE_CHECKING:
    from covey.adapters.sqlite.database import Database

TABLES = """
CREATE TABLE IF NOT EXISTS history (
    door TEXT PRIMARY KEY, floor INTEGER NOT NULL, hours INTEGER NOT NULL DEFAULT 0,
    imported_at_us INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    failing_since_us INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '', pruned_at_us INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS hour_series (
    id INTEGER PRIMARY KEY, door TEXT NOT NULL, entity TEXT NOT NULL, device TEXT NOT NULL, unit TEXT NOT NULL,
    floor INTEGER NOT NULL, changed_at_us INTEGER NOT NULL, UNIQUE (door, entity)
) STRICT;
CREATE INDEX IF NOT EXISTS hour_series_of_device ON hour_series (door, device, changed_at_us);
CREATE TABLE IF NOT EXISTS hour (
    series INTEGER NOT NULL, hour INTEGER NOT NULL, readings REAL NOT NULL, total REAL NOT NULL, low REAL NOT NULL,
    high REAL NOT NULL, changes INTEGER NOT NULL DEFAULT 1, is_due INTEGER NOT NULL, is_part INTEGER NOT NULL,
    tried_at_us INTEGER NOT NULL DEFAULT 0, changed_at_us INTEGER NOT NULL, PRIMARY KEY (series, hour)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS hour_due ON hour (tried_at_us, hour) WHERE is_due;
CREATE INDEX IF NOT EXISTS hour_by_age ON hour (changed_at_us);
CREATE TABLE IF NOT EXISTS counted (
    door TEXT NOT NULL, source TEXT NOT NULL, page INTEGER NOT NULL, bits BLOB NOT NULL,
    changed_at_us INTEGER NOT NULL, PRIMARY KEY (door, source, page)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS counted_by_age ON counted (changed_at_us);
"""
_PAGE_BITS = 1_024


@dataclass(frozen=True, slots=True)
class HistoryState:
    """How a door's imports are. Times are microseconds since 1970, 0 for never; `waiting` counts hours to import."""

    hours: int
    imported_at_us: int
    waiting: int
    attempts: int
    failing_since_us: int
    error: str


class DoorHours:
    """The hours in a file of doors.

    Raises (all methods): as `Database`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, door: str, now_us: int) -> None:
        """Begin to keep hours, where that has not begun."""
        with self._database.transaction():
            self._database.run("INSERT OR IGNORE INTO history (door, floor) VALUES (?, ?)", (door, now_us // HOUR_US))

    def forget(self, door: str) -> None:
        """Delete what is kept for a door that imports nothing any more."""
        if self._database.first("SELECT 1 FROM history WHERE door = ?", (door,)) is None:
            return
        with self._database.transaction():
            self._database.run("DELETE FROM hour WHERE series IN (SELECT id FROM hour_series WHERE door = ?)", (door,))
            self._database.run("DELETE FROM hour_series WHERE door = ?", (door,))
            self._database.run("DELETE FROM counted WHERE door = ?", (door,))
            self._database.run("DELETE FROM history WHERE door = ?", (door,))

    def add(self, door: str, messages: Iterable[MessageHours], now_us: int) -> int:
        """Add what messages say, each once, within the caller's transaction.

        Returns:
            How many readings of hours that waited for the receiver were deleted, because there were too many.
        """
        found, units = dict[str, dict[int, SeriesHour]](), dict[str, SeriesUnit]()
        for message in messages:
            if not self._is_new(door, message, now_us):
                continue
            units |= message.series
            for (entity, hour), part in message.hours.items():
                hours = found.setdefault(entity, {})
                if hour in hours:
                    hours[hour].add(part)
                else:
                    hours[hour] = part
        for entity, hours in found.items():
            series, floor = self._series(door, entity, units[entity], now_us)
            self._database.run_each(
                "INSERT INTO hour (series, hour, readings, total, low, high, is_due, is_part, changed_at_us)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?2 <= ?8, ?9) ON CONFLICT DO UPDATE SET"
                " readings = readings + ?3, total = total + ?4, low = min(low, ?5), high = max(high, ?6),"
                " is_due = max(is_due, ?7), changes = changes + 1, changed_at_us = ?9",
                [
                    (series, hour, each.readings, each.total, each.low, each.high, each.is_due, floor, now_us)
                    for hour, each in hours.items()
                ],
            )
        return self._prune(door, now_us)

    def _is_new(self, door: str, message: MessageHours, now_us: int) -> bool:
        page, bit = divmod(message.number, _PAGE_BITS)
        place = (door, message.source, page)
        row = self._database.first("SELECT bits FROM counted WHERE door = ? AND source = ? AND page = ?", place)
        before = 0 if row is None else int.from_bytes(row[0], "big")
        after = before | 1 << bit
        self._database.run(
            "INSERT OR REPLACE INTO counted VALUES (?, ?, ?, ?, ?)",
            (*place, after.to_bytes(_PAGE_BITS // 8, "big"), now_us),
        )
        return after != before

    def _series(self, door: str, entity: str, of_series: SeriesUnit, now_us: int) -> tuple[int, int]:
        """Return a series' number here, and the newest of its hours that may be a part."""
        row = self._database.first("SELECT id, floor FROM hour_series WHERE door = ? AND entity = ?", (door, entity))
        if row is None:
            device = of_series.device
            if self._database.one("SELECT count(*) FROM hour_series WHERE door = ? AND device = ?", door, device) >= (
                DOOR_SERIES_OF_DEVICE
            ):
                self._delete_series(door, device)
            elif self._database.one("SELECT count(*) FROM hour_series WHERE door = ?", door) >= DOOR_SERIES:
                self._delete_series(door, None)
            self._database.run(
                "INSERT INTO hour_series (door, entity, device, unit, floor, changed_at_us)"
                " SELECT ?, ?, ?, ?, floor, ? FROM history WHERE door = ?",
                (door, entity, device, of_series.unit, now_us, door),
            )
            return self._series(door, entity, of_series, now_us)
        self._database.run("UPDATE hour_series SET changed_at_us = ? WHERE id = ?", (now_us, row[0]))
        return int(row[0]), int(row[1])

    def _delete_series(self, door: str, device: str | None) -> None:
        """Delete the series that has been silent longest; of what comes back, hours until now may be parts."""
        (number,) = self._database.first(
            "SELECT id FROM hour_series WHERE door = ?1 AND (?2 IS NULL OR device = ?2) ORDER BY changed_at_us LIMIT 1",
            (door, device),
        )
        newest = self._database.first("SELECT max(hour) FROM hour WHERE series = ?", (number,))[0]
        self._database.run("UPDATE history SET floor = max(floor, ?) WHERE door = ?", (newest or 0, door))
        self._database.run("DELETE FROM hour WHERE series = ?", (number,))
        self._database.run("DELETE FROM hour_series WHERE id = ?", (number,))

    def _prune(self, door: str, now_us: int) -> int:
        pruned_at_us = self._database.one("SELECT pruned_at_us FROM history WHERE door = ?", door)
        if abs(now_us - pruned_at_us) < DOOR_HOURS_PRUNED_EVERY_US:
            return 0
        old_us = now_us - DOOR_HOURS_KEPT_US
        rows = self._database.run(
            "SELECT series, hour, is_due * readings FROM hour WHERE changed_at_us < ? AND (NOT is_due OR tried_at_us)"
            " AND hour < (SELECT max(hour) FROM hour AS other WHERE other.series = hour.series) LIMIT ?",
            (old_us, DOOR_HOURS_PRUNED),
        )
        excess = self._database.one("SELECT count(*) FROM hour") - len(rows) - DOOR_HOURS
        if excess > 0:
            rows += self._database.run(
                "SELECT series, hour, is_due * readings FROM hour WHERE changed_at_us >= ?"
                " ORDER BY is_due, changed_at_us LIMIT ?",
                (old_us, excess),
            )
        self._database.run_each("DELETE FROM hour WHERE series = ? AND hour = ?", [row[:2] for row in rows])
        self._database.run_each(
            "UPDATE hour_series SET floor = max(floor, ?) WHERE id = ?", [(row[1], row[0]) for row in rows]
        )
        self._database.run(
            "DELETE FROM counted WHERE changed_at_us < ? AND page < (SELECT max(page) FROM counted AS other"
            " WHERE other.door = counted.door AND other.source = counted.source)",
            (old_us,),
        )
        if len(rows) < DOOR_HOURS_PRUNED:
            self._database.run("UPDATE history SET pruned_at_us = ? WHERE door = ?", (now_us, door))
        return sum(round(row[2]) for row in rows)

    def due(self, door: str, before_hour: int, limit: int) -> list[DueHour]:
        """Return hours before one that the receiver is to have, those that were never tried first."""
        rows = self._database.run(
            "SELECT series, entity, unit, hour, readings, total, low, high, changes, is_part FROM hour"
            " JOIN hour_series ON id = series WHERE is_due AND door = ? AND hour < ?"
            " ORDER BY tried_at_us, hour LIMIT ?",
            (door, before_hour, limit),
        )
        return [DueHour(*row) for row in rows]

    def claim(self, hours: Iterable[DueHour]) -> None:
        """Note that the receiver has nothing of these hours: what it gets from now on is all there is."""
        with self._database.transaction():
            self._database.run_each(
                "UPDATE hour SET is_part = 0 WHERE series = ? AND hour = ?",
                [(each.series, each.hour) for each in hours],
            )

    def done(self, door: str, hours: Iterable[DueHour], imported: int, now_us: int) -> None:
        """Note that the receiver needs nothing more of these hours; it has taken `imported` of them."""
        with self._database.transaction():
            self._database.run_each(
                "UPDATE hour SET is_due = 0, tried_at_us = 0 WHERE series = ? AND hour = ? AND changes = ?",
                [(each.series, each.hour, each.changes) for each in hours],
            )
            if imported:
                self._database.run(
                    "UPDATE history SET hours = hours + ?, imported_at_us = ? WHERE door = ?", (imported, now_us, door)
                )

    def tried(self, hours: Iterable[DueHour], now_us: int) -> None:
        """Note that the receiver did not take these hours, so that others go first."""
        with self._database.transaction():
            self._database.run_each(
                "UPDATE hour SET tried_at_us = ? WHERE series = ? AND hour = ?",
                [(now_us, each.series, each.hour) for each in hours],
            )

    def failed(self, door: str, why: str, now_us: int) -> None:
        """Note why something was not imported; an empty text: nothing failed."""
        with self._database.transaction():
            self._database.run(
                "UPDATE history SET error = ?1, attempts = CASE ?1 WHEN '' THEN 0 ELSE attempts + 1 END,"
                " failing_since_us = CASE WHEN ?1 = '' THEN 0 WHEN failing_since_us THEN failing_since_us ELSE ?2 END"
                " WHERE door = ?3",
                (why, now_us, door),
            )

    def state(self, door: str) -> HistoryState | None:
        """Return how the imports of a door are; None for one that imports nothing."""
        row = self._database.first(
            "SELECT hours, imported_at_us, (SELECT count(*) FROM hour JOIN hour_series ON id = series"
            " WHERE is_due AND hour_series.door = history.door), attempts, failing_since_us, error"
            " FROM history WHERE door = ?",
            (door,),
        )
        return None if row is None else HistoryState(*row)
