"""How far each door has sent readings on, in a file of its own: no door waits for the agent, and no agent for a door.

1. A batch is planned in one commit, and left behind in another, after it was taken.
2. A door that is new begins in one commit at the places that it is given; nodes that come later begin at their first.
3. What cannot be sent on is noted in the commit that leaves it behind.
4. What a batch adds to hours of series (`door_hours.py`) is added in that commit, too.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from covey.adapters.files import remove_durably
from covey.adapters.sqlite.database import Database, translated
from covey.adapters.sqlite.door_hours import TABLES, DoorHours
from covey.core import crypto
from covey.core.telemetry.door_hours import MessageHours
from covey.core.telemetry.doors import DoorGap, LandedPosition, Plan
from covey.core.telemetry.drops import Drop
from covey.errors import ConfigurationError, DamagedStateError
from covey.limits.doors import DOOR_LOSSES_KEPT

_VERSION = 1
_BUSY_S = 10.0
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
_TABLES = """
CREATE TABLE IF NOT EXISTS door (
    name TEXT PRIMARY KEY,
    begun_at_us INTEGER NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0,
    readings INTEGER NOT NULL DEFAULT 0,
    taken_at_us INTEGER NOT NULL DEFAULT 0,
    gaps INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    failing_since_us INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '',
    behind INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS place (
    door TEXT NOT NULL, node TEXT NOT NULL, number INTEGER NOT NULL, within INTEGER NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (door, node)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plan (
    door TEXT PRIMARY KEY, node TEXT NOT NULL, first INTEGER NOT NULL, first_within INTEGER NOT NULL,
    "end" INTEGER NOT NULL, end_within INTEGER NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS gap (
    id INTEGER PRIMARY KEY, door TEXT NOT NULL, node TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    reason TEXT NOT NULL, noted_at_us INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS gap_by_door ON gap (door, id);
CREATE TABLE IF NOT EXISTS dropped (
    door TEXT NOT NULL, reason TEXT NOT NULL, readings INTEGER NOT NULL, PRIMARY KEY (door, reason)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class DoorState:
    """What is known of a door. Times are microseconds since 1970, 0 for never; `behind` counts segments."""

    begun_at_us: int
    messages: int
    readings: int
    taken_at_us: int
    gaps: int
    attempts: int
    failing_since_us: int
    error: str
    behind: int


@dataclass(frozen=True, slots=True)
class NotedGap:
    """What was passed over, and when that was noted."""

    gap: DoorGap
    noted_at_us: int


class DoorFile:
    """The file, for as long as it is open; one for each thread.

    Raises (all methods): as `Database`.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, made where there is none.

        Raises:
            ConfigurationError: a newer Covey wrote it.
        """
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with translated():
            connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S, check_same_thread=False)
            self._database = Database(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            version = self._database.one("PRAGMA user_version")
            if version > _VERSION:
                self.close()
                raise ConfigurationError(f"a newer Covey wrote {path}", hint="upgrade Covey")
            connection.executescript(f"{_TABLES} {TABLES} PRAGMA user_version = {_VERSION};")
        self.hours = DoorHours(self._database)

    def close(self) -> None:
        """Close it."""
        self._database.connection.close()

    def is_sound(self) -> bool:
        """Say whether it is what was written, as far as SQLite can tell, and all places and plans without a doubt."""
        if self._database.run("PRAGMA quick_check(1)") != [("ok",)] or self._database.run(_SCHEMA) != _sound_schema():
            return False
        rows = [*self._database.run("SELECT * FROM place"), *self._database.run("SELECT * FROM plan")]
        return all(_digest(*row) == digest for *row, digest in rows)

    def state(self, door: str) -> DoorState | None:
        """Return what is known of a door; None for one that has not begun."""
        row = self._database.first(
            "SELECT begun_at_us, messages, readings, taken_at_us, gaps, attempts, failing_since_us, error, behind"
            " FROM door WHERE name = ?",
            (door,),
        )
        return None if row is None else DoorState(*row)

    def begin(self, door: str, places: Mapping[str, int], now_us: int) -> None:
        """Begin at these positions of nodes, by the newest one that is not to be sent."""
        with self._database.transaction():
            self._database.run("INSERT INTO door (name, begun_at_us) VALUES (?, ?)", (door, now_us))
            for node, last in places.items():
                self._move(door, node, LandedPosition(last + 1))

    def place(self, door: str, node: str) -> LandedPosition:
        """Return where the first message of a node stands that was not left behind."""
        row = self._database.first("SELECT number, within FROM place WHERE door = ? AND node = ?", (door, node))
        return LandedPosition(1) if row is None else LandedPosition(*row)

    def plan(self, door: str) -> Plan | None:
        """Return the batch that was planned and is not left behind."""
        row = self._database.first(
            'SELECT node, first, first_within, "end", end_within FROM plan WHERE door = ?', (door,)
        )
        return None if row is None else Plan(row[0], LandedPosition(*row[1:3]), LandedPosition(*row[3:]))

    def keep(self, door: str, plan: Plan) -> None:
        """Keep a plan, in place of the one before; what is under way stays what it is."""
        with self._database.transaction():
            self._database.run(
                "INSERT OR REPLACE INTO plan VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*(row := (door, plan.node, *plan.first, *plan.end)), _digest(*row)),
            )

    def taken(
        self,
        door: str,
        plan: Plan,
        passed: Iterable[DoorGap],
        messages: int,
        readings: int,
        now_us: int,
        dropped: Mapping[Drop, int] = MappingProxyType({}),
        hours: Iterable[MessageHours] = (),
    ) -> None:
        """Leave a batch behind that its receiver has taken, or that holds nothing to send; count what was dropped.

        `hours`: what its messages add to hours of series.
        """
        with self._database.transaction():
            self._note(door, passed, now_us)
            self._leave(door, plan.node, plan.end)
            self._count(door, dropped)
            if found := [*hours]:
                self._count(door, {Drop.LATE: self.hours.add(door, found, now_us)})
            if messages:
                self._database.run(
                    "UPDATE door SET messages = messages + ?, readings = readings + ?, taken_at_us = ?, attempts = 0,"
                    " failing_since_us = 0, error = '' WHERE name = ?",
                    (messages, readings, now_us, door),
                )

    def drop(self, door: str, dropped: Mapping[Drop, int]) -> None:
        """Count readings that were dropped after their batch was left behind."""
        with self._database.transaction():
            self._count(door, dropped)

    def _count(self, door: str, dropped: Mapping[Drop, int]) -> None:
        self._database.run_each(
            "INSERT INTO dropped VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET readings = readings + ?3",
            [(door, str(reason), number) for reason, number in dropped.items() if number],
        )

    def dropped(self, door: str) -> dict[str, int]:
        """Return how many readings a door has left out or cut, by reason."""
        return dict(self._database.run("SELECT reason, readings FROM dropped WHERE door = ? ORDER BY reason", (door,)))

    def passed(self, door: str, gap: DoorGap, end: LandedPosition, now_us: int) -> None:
        """Leave something behind that cannot be sent."""
        with self._database.transaction():
            self._note(door, [gap], now_us)
            self._leave(door, gap.node, end)

    def failed(self, door: str, why: str, now_us: int) -> None:
        """Note that something was not taken, or not read."""
        with self._database.transaction():
            self._database.run(
                "UPDATE door SET attempts = attempts + 1, error = ?,"
                " failing_since_us = CASE failing_since_us WHEN 0 THEN ? ELSE failing_since_us END WHERE name = ?",
                (why, now_us, door),
            )

    def note_behind(self, door: str, segments: int) -> None:
        """Note how many segments a door has before it."""
        with self._database.transaction():
            self._database.run("UPDATE door SET behind = ? WHERE name = ?", (segments, door))

    def gaps(self, door: str) -> list[NotedGap]:
        """Return what was passed over last, the oldest first."""
        rows = self._database.run(
            "SELECT node, first, last, reason, noted_at_us FROM gap WHERE door = ? ORDER BY id", (door,)
        )
        return [NotedGap(DoorGap(*row[:4]), row[4]) for row in rows]

    def _leave(self, door: str, node: str, end: LandedPosition) -> None:
        self._move(door, node, end)
        self._database.run("DELETE FROM plan WHERE door = ?", (door,))

    def _move(self, door: str, node: str, place: LandedPosition) -> None:
        row = door, node, *place
        self._database.run("INSERT OR REPLACE INTO place VALUES (?, ?, ?, ?, ?)", (*row, _digest(*row)))

    def _note(self, door: str, passed: Iterable[DoorGap], now_us: int) -> None:
        for gap in passed:
            last = self._database.first(
                "SELECT id, node, last, reason FROM gap WHERE door = ? ORDER BY id DESC LIMIT 1", (door,)
            )
            if last is not None and last[1:] == (gap.node, gap.first - 1, gap.reason):
                self._database.run("UPDATE gap SET last = ?, noted_at_us = ? WHERE id = ?", (gap.last, now_us, last[0]))
                continue
            self._database.run("UPDATE door SET gaps = gaps + 1 WHERE name = ?", (door,))
            self._database.run(
                "INSERT INTO gap (door, node, first, last, reason, noted_at_us) VALUES (?, ?, ?, ?, ?, ?)",
                (door, gap.node, gap.first, gap.last, gap.reason, now_us),
            )
        self._database.run(
            "DELETE FROM gap WHERE door = ?1 AND id <= (SELECT id FROM gap WHERE door = ?1"
            " ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            (door, DOOR_LOSSES_KEPT),
        )


def _is_openable(path: Path) -> bool:
    """Say whether SQLite would read and write a file of this header (https://www.sqlite.org/fileformat2.html)."""
    with path.open("rb") as file:
        head = file.read(48)
    return len(head) == 48 and {*head[18:20]} <= {1, 2} and int.from_bytes(head[44:48]) <= 4


@cache
def _sound_schema() -> list[tuple[str, ...]]:
    """Return the schema of a new file. With a damaged name in it, a table is missing, or a query for a column fails."""
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(f"{_TABLES} {TABLES}")
        return new.execute(_SCHEMA).fetchall()


def _digest(*row: str | int) -> bytes:
    """Return what shows that a row is what was written: SQLite does not notice another number."""
    return crypto.digest(b"covey/1 doorrow", json.dumps(row).encode())[:8]


def set_aside(path: Path) -> Path | None:
    """Set a file aside that is not what was written, and return where it is; None for one that is sound."""
    if not path.exists():
        return None
    try:
        has_log = path.with_name(f"{path.name}-wal").exists()
        if _is_openable(path) if path.stat().st_size else has_log:  # no agent leaves an empty one
            file = DoorFile(path)
            try:
                if file.is_sound():
                    return None
            finally:
                file.close()
    except DamagedStateError:
        pass
    aside = path.with_name(f"{path.name}.damaged")
    for suffix in ("-wal", "-shm"):
        remove_durably(path.with_name(f"{path.name}{suffix}"))
    path.replace(aside)
    return aside
