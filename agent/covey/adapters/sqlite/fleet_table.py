"""The results of fleet surveys in a temporary SQLite database, so that a large fleet needs little memory.

1. The file mostly has no name and disappears with the process. Beyond `_CACHE_KIB`, rows not in use are on the disk.
   The agent of a large fleet keeps a named one (`kept_at`), which other processes read (`read_at`) together with the
   document of the last survey. Only that agent writes it, and the next agent starts with an empty one.
2. A survey rebuilds only stale rows: of devices whose membership changed, that the caller names, or whose time is over.
   So it costs what has happened since the last one.
3. Only changed rows are written, so a survey of a quiet fleet writes nothing.
4. Readings of a device are stored next to its row, and joined for display: reading rebuilds no row. A trigger copies
   counted values into the row.
5. Counts come from an index of the counted rows; a group's counts follow each written row, and are rebuilt with its
   members.
6. Any thread may query at any time. Between two calls rows may be from two surveys, each row complete.

Nothing survives a restart of the process that writes: readings that were deleted from the vault are in no old table,
and neither a power cut nor a damaged disk leaves one that would be believed.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from covey.adapters.files import storage_errors
from covey.adapters.sqlite.database import translated
from covey.core.ids import DeviceKey, GroupId

if TYPE_CHECKING:
    from collections.abc import Mapping

_CACHE_KIB = 8_192
_BUSY_S = 10.0
_AT_ONCE = 500
"""Devices that one statement asks for, and one transaction writes."""
_SCHEMA = """
CREATE TABLE member (
    of_group BLOB NOT NULL, device BLOB NOT NULL, label TEXT NOT NULL, is_board INTEGER NOT NULL,
    features TEXT NOT NULL, PRIMARY KEY (device, of_group)
) WITHOUT ROWID;
CREATE INDEX member_of ON member (of_group);
CREATE TABLE device (
    device BLOB PRIMARY KEY, label TEXT NOT NULL, folded TEXT NOT NULL, is_board INTEGER NOT NULL,
    groups TEXT NOT NULL, is_well INTEGER NOT NULL, presence TEXT NOT NULL, since INTEGER, seen INTEGER, until INTEGER,
    waiting INTEGER NOT NULL, waits_since INTEGER, waits_because TEXT NOT NULL, missing INTEGER NOT NULL,
    gateway BLOB NOT NULL, features TEXT NOT NULL, next INTEGER, cost TEXT NOT NULL, outlook TEXT NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0, clock TEXT NOT NULL DEFAULT '', alarms INTEGER NOT NULL DEFAULT 0,
    version TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX device_all ON device (is_well, label, device, folded);
CREATE INDEX device_present ON device (presence, since);
CREATE INDEX device_until ON device (until) WHERE until IS NOT NULL;
CREATE INDEX device_version ON device (version) WHERE version <> '';
CREATE INDEX device_behind ON device (gateway) WHERE gateway <> x'';
CREATE TABLE said (
    device BLOB PRIMARY KEY, newest INTEGER NOT NULL, clock TEXT NOT NULL, received INTEGER NOT NULL,
    lost INTEGER NOT NULL, lost_why TEXT NOT NULL, lost_at INTEGER NOT NULL, series INTEGER NOT NULL,
    left_out INTEGER NOT NULL, version TEXT NOT NULL, alarms INTEGER NOT NULL, alarm_names TEXT NOT NULL,
    everything TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE board (device BLOB PRIMARY KEY, version TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE survey (number INTEGER PRIMARY KEY, began_us INTEGER NOT NULL, document TEXT NOT NULL);
CREATE TABLE stale (device BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE counted (
    of_group BLOB PRIMARY KEY, online INTEGER NOT NULL, overdue INTEGER NOT NULL, lost INTEGER NOT NULL,
    waiting INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER member_written AFTER INSERT ON member BEGIN INSERT OR IGNORE INTO stale VALUES (new.device); END;
CREATE TRIGGER member_dropped AFTER DELETE ON member BEGIN INSERT OR IGNORE INTO stale VALUES (old.device); END;
"""
_VERSION = "coalesce(nullif((SELECT version FROM board WHERE board.device = new.device), ''), {said}, '')"
_COPIES = f"""
CREATE TRIGGER said_copied AFTER INSERT ON said BEGIN
    UPDATE device SET (lost, clock, alarms, version) = (
        new.lost, new.clock, new.alarms, {_VERSION.format(said="new.version")}
    )
        WHERE device = new.device AND (lost, clock, alarms, version) IS NOT (
            new.lost, new.clock, new.alarms, {_VERSION.format(said="new.version")}
        );
END;
CREATE TRIGGER board_copied AFTER INSERT ON board BEGIN
    UPDATE device SET version = new.version WHERE device = new.device AND new.version NOT IN ('', version);
END;
CREATE TRIGGER device_copied AFTER INSERT ON device
    WHEN EXISTS (SELECT 1 FROM said WHERE device = new.device) OR EXISTS (SELECT 1 FROM board WHERE device = new.device)
BEGIN
    UPDATE device SET (lost, clock, alarms, version) = (
        SELECT coalesce(max(lost), 0), coalesce(max(clock), ''), coalesce(max(alarms), 0),
        {_VERSION.format(said="max(version)")}
        FROM said WHERE device = new.device
    ) WHERE device = new.device;
END;
"""  # noqa: S608 - our names
_COUNTS = """
CREATE TRIGGER device_{name} AFTER {change} ON device WHEN {differs} BEGIN
    UPDATE counted SET {sums} WHERE of_group IN (SELECT of_group FROM member WHERE device = new.device);
END;
"""


class MemberRow(NamedTuple):
    """A device of the fleet with the ids of its groups, in hex and with commas between."""

    device: DeviceKey
    label: str
    is_board: bool
    groups: str
    features: str = ""


class GroupMember(NamedTuple):
    """A member of one group; `features` are the names of what it announces, with commas between."""

    device: DeviceKey
    label: str
    is_board: bool
    features: str = ""


class FoundDevice(NamedTuple):
    """A device as a look has found it, and `until_us` when that is to be looked at again, though nothing happens."""

    device: DeviceKey
    label: str
    folded: str
    is_board: bool
    groups: str
    is_well: bool
    presence: str
    since_us: int | None
    seen_us: int | None
    until_us: int | None
    waiting: int
    waits_since_us: int | None
    waits_because: str
    missing: int
    gateway: bytes
    features: str = ""
    next_us: int | None = None
    """When a device that is asleep connects again."""
    cost: str = ""
    """Of its link, whatever the caller likes to say of it."""
    outlook: str = ""
    """Whether the budget of its link lasts: 'fine', 'low', 'early' or 'used up'; empty if unknown."""


class SaidSummary(NamedTuple):
    """What a look at the whole fleet needs of what a device has said. Times are microseconds since 1970, 0 for never.

    `newest_at_us`: of its newest reading, by the clock `clock`; `lost`: messages, and `lost_why` whatever the caller
    likes to say of it; `series`: how many; `alarms`: how many of them are in alarm, `alarm_names`: as `lost_why`.
    """

    newest_at_us: int = 0
    clock: str = ""
    received_at_us: int = 0
    lost: int = 0
    lost_why: str = ""
    lost_at_us: int = 0
    series: int = 0
    left_out: int = 0
    version: str = ""
    alarms: int = 0
    alarm_names: str = ""


class ShownDevice(NamedTuple):
    """A device as it was found, what was read of it, and the version that it or its gateway says that it runs."""

    found: FoundDevice
    said: SaidSummary
    version: str


class KeptSurvey(NamedTuple):
    """The last survey of a kept table: its number, when it began, in monotonic microseconds, and its document."""

    number: int
    began_us: int
    document: str


class GroupCounts(NamedTuple):
    """How many of a group's members are here, away, have lost something, and are waited for."""

    online: int
    away: int
    lost: int
    waiting: int


class PresenceCount(NamedTuple):
    """How many devices are in a condition, and since when the first of them."""

    presence: str
    devices: int
    since_us: int | None


class Wanted(NamedTuple):
    """Which devices are asked for: each of the texts may be empty; `beginning` is of a key in hex."""

    condition: str = "all"
    group_id: GroupId = GroupId(b"")
    folded: str = ""
    beginning: str = ""


CONDITIONS = {
    "all": "1",
    "online": "presence IN ('online', 'itself')",
    "offline": "presence NOT IN ('online', 'itself')",
    "overdue": "presence IN ('silent', 'gone')",
    "lost": "lost > 0",
    "waiting": "waiting > 0",
    "missing": "missing > 0",
    "clock": "clock = 'unsynchronised'",
    "alarm": "alarms > 0",
    "budget": "outlook IN ('low', 'early', 'used up')",
    "boards": "is_board",
}
"""What may be asked for by name."""
_RARE = ("lost", "waiting", "missing", "clock", "alarm", "budget", "boards")
"""Conditions of few devices, which have an index of their own; the others are found at either end of the whole list."""
_INDEXES = "".join(
    f"CREATE INDEX device_{name} ON device (is_well, label, device) WHERE {CONDITIONS[name]};\n" for name in _RARE
)

_COLUMNS = (
    "device, label, folded, is_board, groups, is_well, presence, since, seen, until, waiting, waits_since, "
    "waits_because, missing, gateway, features, next, cost, outlook"
)
_SAID = (
    *("newest", "clock", "received", "lost", "lost_why", "lost_at", "series", "left_out", "version", "alarms"),
    "alarm_names",
)
_SELECT = (
    f"SELECT {_COLUMNS.replace('device,', 'device.device,')}, {', '.join(f'said.{each}' for each in _SAID)}, "  # noqa: S608
    "device.version FROM device LEFT JOIN said ON said.device = device.device"
)
_OTHERS = _COLUMNS.partition(", ")[2]
_WRITTEN = ", ".join(f"excluded.{each}" for each in _OTHERS.split(", "))
_PUT = (
    f"INSERT INTO device ({_COLUMNS}) VALUES ({', '.join('?' * len(FoundDevice._fields))}) "  # noqa: S608 - our names
    f"ON CONFLICT DO UPDATE SET ({_OTHERS}) = ({_WRITTEN}) WHERE ({_OTHERS}) IS NOT ({_WRITTEN})"
)
_COUNTED = {
    "online": "{row}.presence IN ('online', 'itself')",
    "overdue": "{row}.presence IN ('silent', 'gone')",
    "lost": "{row}.lost > 0",
    "waiting": "{row}.waiting > 0",
}
"""What is counted of a group, in the order of `GroupCounts`; of whichever row is named."""


def _counting() -> str:
    """Return the triggers that keep the groups' counts (rule 5)."""
    new, old = ([each.format(row=row) for each in _COUNTED.values()] for row in ("new", "old"))
    added = ", ".join(f"{name} = {name} + ({one})" for name, one in zip(_COUNTED, new, strict=True))
    moved = ", ".join(
        f"{name} = {name} + ({one}) - ({before})" for name, one, before in zip(_COUNTED, new, old, strict=True)
    )
    differs = " OR ".join(f"({one}) <> ({before})" for one, before in zip(new, old, strict=True))
    inserted = _COUNTS.format(name="inserted", change="INSERT", differs="1", sums=added)
    return inserted + _COUNTS.format(
        name="updated", change="UPDATE OF presence, lost, waiting", differs=differs, sums=moved
    )


class FleetTable:
    """The tables of one process that looks at a fleet again and again, or once."""

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        """Use a temporary file, or an opened one; the tables are made where there are none."""
        self._connection = connection or sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._lock = threading.RLock()
        self._run(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if connection is None:
            self._run("PRAGMA synchronous = OFF")
            self._run("PRAGMA journal_mode = OFF")
        self._uncounted: set[GroupId] = set()
        """Groups whose members are others than when they were counted."""
        with self._lock, translated():
            if self._connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None:
                self._connection.executescript(_SCHEMA + _INDEXES + _COPIES + _counting())

    @classmethod
    def kept_at(cls, path: Path) -> FleetTable:
        """Return a new table in a file that other processes of this device may read, in place of an old one.

        It need not outlast a power cut, so nothing waits for the disk.

        Raises:
            StorageError: the disk refused.
        """
        remove_kept(path)
        with storage_errors("write", path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with translated():
            connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA secure_delete = FAST")
            return cls(connection)

    @classmethod
    def read_at(cls, path: Path) -> FleetTable:
        """Return a table that another process writes; its writing methods fail.

        Raises:
            StorageError: it is not there, or cannot be read.
        """
        with translated():
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro",
                timeout=_BUSY_S,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
            return cls(connection)

    def close(self) -> None:
        """Release the file; a temporary one is then deleted."""
        with self._lock:
            self._connection.close()

    # -- for the processes that read it (rule 1) ----------------------------------------------------------------------

    def keep_survey(self, number: int, began_us: int, document: str) -> None:
        """Keep the document of a survey in place of the last one."""
        with self._together():
            self._connection.execute("DELETE FROM survey")
            self._connection.execute("INSERT INTO survey VALUES (?, ?, ?)", (number, began_us, document))

    def survey_number(self) -> int:
        """Return the number of the last survey; 0 if there is none."""
        return self._number("SELECT coalesce(max(number), 0) FROM survey")

    def kept_survey(self) -> KeptSurvey | None:
        """Return the last survey."""
        rows = self._run("SELECT number, began_us, document FROM survey")
        return KeptSurvey(*rows[0]) if rows else None

    def has_stale(self) -> bool:
        """Say whether rows are out of date."""
        return bool(self._run("SELECT 1 FROM stale LIMIT 1"))

    # -- who belongs to the fleet --------------------------------------------------------------------------------------

    def set_members(self, group_id: GroupId, members: Iterable[tuple[DeviceKey, str, bool] | GroupMember]) -> None:
        """Take the members of a group in place of those that it had."""
        with self._together():
            self._uncounted.add(group_id)
            self._run("DELETE FROM member WHERE of_group = ?", (group_id,))
            self._connection.executemany(
                "INSERT INTO member VALUES (?, ?, ?, ?, ?)", ((group_id, *GroupMember(*each)) for each in members)
            )

    def forget_groups(self, others_than: set[GroupId]) -> None:
        """Drop the groups that are none of these any more."""
        for (group_id,) in self._run("SELECT DISTINCT of_group FROM member"):
            if group_id not in others_than:
                self._uncounted.discard(group_id)
                for table in ("member", "counted"):
                    self._run(f"DELETE FROM {table} WHERE of_group = ?", (group_id,))  # noqa: S608 - ours

    def forget_devices(self) -> None:
        """Drop the devices that are in no group any more, and what was read of them."""
        for table in ("device", "said", "board", "stale"):
            self._run(f"DELETE FROM {table} WHERE device NOT IN (SELECT device FROM member)")  # noqa: S608 - ours

    # -- whose rows are to be made anew (rule 2) -----------------------------------------------------------------------

    def note_stale(self, devices: Iterable[DeviceKey]) -> None:
        """Mark the rows of some devices as stale."""
        with self._together():
            self._connection.executemany("INSERT OR IGNORE INTO stale VALUES (?)", ((each,) for each in devices))

    def note_all_stale(self) -> None:
        """Mark all rows as stale."""
        self._run("INSERT OR IGNORE INTO stale SELECT device FROM member")

    def note_overdue(self, now_us: int, most: int) -> None:
        """Mark up to `most` rows as stale whose time is over."""
        self._run("INSERT OR IGNORE INTO stale SELECT device FROM device WHERE until < ? LIMIT ?", (now_us, most))

    def note_presences(self, found: Sequence[tuple[DeviceKey, str, int | None, int | None]]) -> None:
        """Mark rows as stale that differ from what was found: (device, presence, since when, when it was seen)."""
        with self._together():
            self._connection.executemany(
                "INSERT OR IGNORE INTO stale SELECT device FROM device "
                "WHERE device = ? AND (presence, since, seen) IS NOT (?, ?, ?)",
                found,
            )

    def stale(self) -> Iterator[list[MemberRow]]:
        """Yield the keys of devices with stale rows, some at a time, until they are `put`."""
        last = b""
        while rows := self._run(
            "SELECT device, max(label), max(is_board), group_concat(lower(hex(of_group))), max(features) "
            "FROM stale JOIN member USING (device) WHERE device > ? GROUP BY device ORDER BY device LIMIT ?",
            (last, _AT_ONCE),
        ):
            yield [MemberRow(DeviceKey(row[0]), row[1], bool(row[2]), row[3], row[4]) for row in rows]
            last = rows[-1][0]

    # -- what was read of the vault ------------------------------------------------------------------------------------

    def keep_said(self, said: Iterable[tuple[DeviceKey, SaidSummary, str]]) -> None:
        """Keep what was read of devices, the summary and everything, in place of what was kept before."""
        with self._together():
            self._connection.executemany(
                f"INSERT OR REPLACE INTO said VALUES (?{', ?' * len(_SAID)}, ?)",  # noqa: S608 - our names
                ((device, *summary, everything) for device, summary, everything in said),
            )

    def said(self, devices: Sequence[DeviceKey]) -> dict[DeviceKey, str]:
        """Return what was read of those of some devices of which something was."""
        found: dict[DeviceKey, str] = {}
        for first in range(0, len(devices), _AT_ONCE):
            asked = devices[first : first + _AT_ONCE]
            places = ", ".join("?" * len(asked))
            rows = self._run(f"SELECT device, everything FROM said WHERE device IN ({places})", asked)  # noqa: S608
            found |= {DeviceKey(device): everything for device, everything in rows}
        return found

    def forget_said(self) -> None:
        """Forget what was read of all devices."""
        with self._together():
            self._connection.execute("DELETE FROM said")
            self._connection.execute("DELETE FROM board")
            self._connection.execute("UPDATE device SET lost = 0, clock = '', alarms = 0, version = ''")

    def said_of(self) -> list[DeviceKey]:
        """Return of which devices something was read."""
        return [DeviceKey(row[0]) for row in self._run("SELECT device FROM said ORDER BY device")]

    def keep_board(self, device: DeviceKey, version: str) -> None:
        """Keep what a gateway says that a board of its runs."""
        self._run("INSERT OR REPLACE INTO board VALUES (?, ?)", (device, version))

    def first_unread(self, beginning: DeviceKey) -> DeviceKey | None:
        """Return the first device, from a key on, of which nothing was read yet."""
        rows = self._run(
            "SELECT device FROM member WHERE device >= ? AND NOT EXISTS "
            "(SELECT 1 FROM said WHERE said.device = member.device) ORDER BY device LIMIT 1",
            (beginning,),
        )
        return DeviceKey(rows[0][0]) if rows else None

    # -- what a look has found -----------------------------------------------------------------------------------------

    def put(self, rows: Sequence[FoundDevice]) -> None:
        """Take what a look has found (rule 3)."""
        with self._together():
            self._connection.executemany(_PUT, rows)
            self._connection.executemany("DELETE FROM stale WHERE device = ?", ((each.device,) for each in rows))

    def changes(self) -> int:
        """Return how many rows were written since the beginning."""
        with self._lock:
            return self._connection.total_changes

    def device(self, device: DeviceKey) -> ShownDevice | None:
        """Return one device."""
        rows = self._run(f"{_SELECT} WHERE device.device = ?", (device,))
        return _row(rows[0]) if rows else None

    def behind(self, gateway: DeviceKey) -> list[ShownDevice]:
        """Return the boards of a gateway."""
        return [_row(each) for each in self._run(f"{_SELECT} WHERE gateway = ?", (gateway,))]

    def window(self, wanted: Wanted, first: int, limit: int) -> list[ShownDevice]:
        """Return some of the devices that are asked for: those that are not well first, then by label."""
        where, values = _where(wanted)
        index = wanted.condition if wanted.condition in _RARE else "all"
        order = "ORDER BY is_well, label, device.device"
        shown = f"SELECT device FROM device INDEXED BY device_{index} WHERE {where} {order} LIMIT ? OFFSET ?"  # noqa: S608
        statement = f"{_SELECT} WHERE device.device IN ({shown}) {order}"  # of the table that is read which is shown
        return [_row(each) for each in self._run(statement, (*values, limit, first))]

    def count(self, wanted: Wanted) -> int:
        """Return how many devices are asked for."""
        where, values = _where(wanted)
        return self._number(f"SELECT count(*) FROM device WHERE {where}", values)  # noqa: S608 - ours

    def presences(self) -> list[PresenceCount]:
        """Return in which conditions devices are."""
        found = self._run("SELECT presence, count(*), min(since) FROM device GROUP BY presence")
        return [PresenceCount(*each) for each in found]

    def totals(self) -> tuple[int, int]:
        """Return how many messages wait, and how many are lost, of all devices."""
        return self._number("SELECT coalesce(sum(waiting), 0) FROM device WHERE waiting > 0"), self._number(
            "SELECT coalesce(sum(lost), 0) FROM device WHERE lost > 0"
        )

    def groups(self) -> Mapping[GroupId, GroupCounts]:
        """Return the counts of each group (rule 5)."""
        sums = ", ".join(f"coalesce(sum({each.format(row='device')}), 0)" for each in _COUNTED.values())
        with self._lock:
            for group_id in tuple(self._uncounted):
                self._run(
                    f"INSERT OR REPLACE INTO counted SELECT ?1, {sums} "  # noqa: S608 - our names
                    "FROM member JOIN device USING (device) WHERE of_group = ?1",
                    (group_id,),
                )
                self._uncounted.discard(group_id)
            rows = self._run(f"SELECT of_group, {', '.join(_COUNTED)} FROM counted")  # noqa: S608 - our names
        return {GroupId(group_id): GroupCounts(*counts) for group_id, *counts in rows}

    def versions(self, limit: int) -> list[tuple[str, int]]:
        """Return what most devices say that they run, without what follows a semicolon, and how many do."""
        return self._run(
            "SELECT substr(version, 1, instr(version || ';', ';') - 1) AS named, sum(each) AS devices FROM "
            "(SELECT version, count(*) AS each FROM device WHERE version <> '' GROUP BY version) "
            "GROUP BY named ORDER BY devices DESC, named LIMIT ?",
            (limit,),
        )

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Write in one transaction. There is no journal: after a failure, what is written stays."""
        with self._lock, translated():
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")

    def _number(self, statement: str, values: Sequence[object] = ()) -> int:
        return int(self._run(statement, values)[0][0])

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock, translated():
            return self._connection.execute(statement, values).fetchall()


def remove_kept(path: Path) -> None:
    """Remove a kept table, if there is one.

    Raises:
        StorageError: the disk refused.
    """
    for each in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
        with storage_errors("remove", each), suppress(FileNotFoundError):
            each.unlink()


def _row(values: Sequence[Any]) -> ShownDevice:
    found, said = values[: len(FoundDevice._fields)], values[len(FoundDevice._fields) : -1]
    return ShownDevice(FoundDevice(*found), SaidSummary() if said[0] is None else SaidSummary(*said), values[-1])


def _where(wanted: Wanted) -> tuple[str, list[object]]:
    parts, values = [CONDITIONS[wanted.condition]], list[object]()
    if wanted.group_id:
        parts.append("device IN (SELECT device FROM member WHERE of_group = ?)")
        values.append(wanted.group_id)
    if wanted.folded:
        parts.append("(instr(folded, ?) OR substr(lower(hex(device)), 1, ?) = ?)")
        values += [wanted.folded, len(wanted.beginning), wanted.beginning]
    return " AND ".join(parts), values
