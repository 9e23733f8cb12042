"""Views over the tables, as SQL that a person's own DuckDB or Spark runs; they store nothing, and follow the tables.

1. `readings`, `devices` and so on are the tables, whatever their files: plain Parquet, or Delta. In plain Parquet,
   where a file stays as it is, doubtful times are repaired here as in Delta's files (rule 3 of `clocks`).
   `readings` has `label` and `group_name` as well, as they were at the time of the reading (`members`); what is made of
   it without them begins at `timed_readings`, and pays for no join.
2. `latest`: the newest reading of each series of each device, and its age.
3. `by_minute`, `by_hour`, `by_day`: count, minimum, maximum, mean and last of each series of numbers, late data
   included. Days are those of the session's time zone.
4. `rollup_minute`, `rollup_hour`, `rollup_day`: the same by what the job keeps in `rollups`, which is less to read;
   times that were repaired later count where they were.
5. `messages`: a row for each message, with its number and how many readings it has.
6. `wide`: a row for each device and moment, a column for each series of numbers, of which the `SERIES_MAX` most
   frequent have one.

Names of series are what devices say: they stand quoted, and one that does not print in a line has no column. So a
script is a statement, ";", an empty line, and the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import duckdb

from covey.errors import ConfigurationError, StorageError
from covey_ingest.table_files import as_file_system, checked_root, files_and_times
from covey_ingest.table_locations import Bucket
from covey_ingest.time_quality import AHEAD_US, HISTORY_FROM_US

SERIES_MAX = 256
"""Columns of `wide`: as many as a person scrolls through; a hostile device can name any number of series."""

_TABLES = (
    *("devices", "gaps", "clocks", "losses", "quarantine", "orders", "commands", "settings", "rollups"),
    *("memberships", "members"),
)
_WHOLE = ("devices", "gaps", "clocks", "members")
"""Tables of one file, which is replaced; the others have a folder for each micro-batch."""
_LATER_COLUMNS = {"whole": "BIGINT", "clock_offset": "BIGINT", "group": "{text}", "vault": "{text}"}
"""Columns of `readings` that files of an earlier version lack."""


class Engine(StrEnum):
    """Whose SQL it is."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class _Dialect:
    view: str
    text: str
    micros: str
    moved: str
    quote: str
    literal_escapes: dict[int, str]

    def name(self, text: str) -> str:
        return self.quote + text.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, text: str) -> str:
        return "'" + text.translate(self.literal_escapes) + "'"


_DIALECTS = {
    Engine.DUCKDB: _Dialect(
        "CREATE OR REPLACE VIEW", "VARCHAR", "epoch_us({})", "stored.time + to_microseconds({})", '"', {ord("'"): "''"}
    ),
    Engine.SPARK: _Dialect(
        "CREATE OR REPLACE TEMPORARY VIEW",
        "STRING",
        "unix_micros({})",
        "timestamp_micros(unix_micros(stored.time) + {})",
        "`",
        {ord("'"): "\\'", ord("\\"): "\\\\"},
    ),
}

_LATEST = """SELECT author, device, label, name, unit, time, now() - time AS age, value, whole, flag, text,
       time_quality, {group}, group_name
FROM (SELECT *, row_number() OVER (PARTITION BY author, name ORDER BY time DESC, seq DESC, index DESC) AS place
      FROM readings)
WHERE place = 1"""
_ROLLUP = """SELECT author, device, name, unit, date_trunc('{period}', time) AS {period}, count(*) AS readings,
       min(value) AS minimum, max(value) AS maximum, avg(value) AS mean, max_by(value, (time, seq, index)) AS last
FROM timed_readings WHERE value IS NOT NULL
GROUP BY author, device, name, unit, date_trunc('{period}', time)"""

_KEPT = """SELECT author, device, name, unit, date_trunc('{period}', minute) AS {period},
       CAST(sum(readings) AS BIGINT) AS readings, min(minimum) AS minimum, max(maximum) AS maximum,
       sum(total) / sum(readings) AS mean, max_by(last, (last_time, last_seq)) AS last
FROM rollups
GROUP BY author, device, name, unit, date_trunc('{period}', minute)"""

_MESSAGES = """SELECT author, incarnation, seq, batch_number AS number, boot, min(received_at) AS received_at,
       count(*) AS readings
FROM timed_readings
GROUP BY author, incarnation, seq, batch_number, boot"""


def views(location: str, engine: Engine) -> str:
    """Return the script for the tables of a folder, or at a URL where they are published.

    Raises:
        ConfigurationError: there are no tables, or no readings in them yet.
        StorageError: they cannot be read.
    """
    root = checked_root(location)
    columns, series = _look(root, location)
    is_there = {table: isinstance(root, Bucket) or (root / table).is_dir() for table in ("rollups", "members")}
    found = _Found(_has_doubtful_times(root) and "clock_offset" in columns, **is_there)
    return "\n\n".join([*_stored(root, engine), *_views(engine, columns, series, found)]) + "\n"


@dataclass(frozen=True, slots=True)
class _Found:
    """What there is beside the readings: doubtful times that `clocks` repairs, tables that earlier versions lack."""

    repairs: bool
    rollups: bool
    members: bool


def _has_doubtful_times(root: Path | Bucket) -> bool:
    if isinstance(root, Bucket):
        return False
    return (root / "clocks").is_dir() and not (root / "readings" / "_delta_log").is_dir()


def _look(root: Path | Bucket, location: str) -> tuple[set[str], list[str]]:
    """Return the columns of `readings`, and the names of the series of numbers, the most frequent first."""
    files = list(files_and_times(root, "readings"))
    if not files:
        raise ConfigurationError(f"{location} has no readings yet", hint="wait for covey ingest's first micro-batch")
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": False}) as database:
            if isinstance(root, Bucket):
                database.register_filesystem(as_file_system(root))
            table = database.read_parquet(files, union_by_name=True, hive_partitioning=False)
            counted = "SELECT name FROM stored WHERE value IS NOT NULL GROUP BY name ORDER BY count(*) DESC, name"
            table.create_view("stored")
            rows = database.execute(f"{counted} LIMIT {SERIES_MAX}").fetchall()
            return set(table.columns), [name for (name,) in rows if name.isprintable()]
    except duckdb.Error as error:
        raise StorageError(
            f"the tables at {location} cannot be read: {str(error).splitlines()[0]}",
            hint="if the ingest has just replaced a file, try again",
        ) from error


def _stored(root: Path | Bucket, engine: Engine) -> Iterator[str]:
    """Yield a view of each table that is there, as it is stored; `readings` is `stored_readings` here."""
    dialect = _DIALECTS[engine]
    for table in ("readings", *_TABLES):
        if isinstance(root, Path) and not (root / table).is_dir():
            continue
        name = f"{dialect.view} {'stored_readings' if table == 'readings' else table}"
        place = root.uri(table) if isinstance(root, Bucket) else str(root / table)
        is_delta = isinstance(root, Bucket) or (root / table / "_delta_log").is_dir()
        if engine is Engine.SPARK:
            kind, merged = ("delta", "") if is_delta else ("parquet", ", mergeSchema 'true'")
            yield f"{name}\nUSING {kind} OPTIONS (path {dialect.literal(place)}{merged});"
        elif is_delta:
            yield f"{name} AS\nSELECT * FROM delta_scan({dialect.literal(place)});"
        else:
            files = dialect.literal(place + ("/*.parquet" if table in _WHOLE else "/*/*.parquet"))
            yield f"{name} AS\nSELECT * FROM read_parquet({files}, union_by_name = true, hive_partitioning = false);"


def _views(engine: Engine, columns: set[str], series: list[str], found: _Found) -> Iterator[str]:
    dialect = _DIALECTS[engine]

    def view(name: str, query: str) -> str:
        return f"{dialect.view} {name} AS\n{query};"

    yield view("timed_readings", _readings(dialect, columns, found.repairs))
    yield view("readings", _labelled(dialect, has_members=found.members))
    yield view("latest", _LATEST.format(group=dialect.name("group")))
    for period in ("minute", "hour", "day"):
        yield view(f"by_{period}", _ROLLUP.format(period=period))
        if found.rollups:
            yield view(f"rollup_{period}", _KEPT.format(period=period))
    if "batch_number" in columns:
        yield view("messages", _MESSAGES)
    if series:
        yield view("wide", _wide(dialect, series))


def _readings(dialect: _Dialect, columns: set[str], repairs: bool) -> str:
    lacking = {name: kind.format(text=dialect.text) for name, kind in _LATER_COLUMNS.items() if name not in columns}
    added = "".join(f", CAST(NULL AS {kind}) AS {dialect.name(name)}" for name, kind in lacking.items())
    kept = ("author", "device", "name", "unit", "value", "flag", "text", "data", "incarnation", "seq", "index", "boot")
    also = [name for name in (*kept, *_LATER_COLUMNS, "batch_number", "collector", "received_at") if name in columns]
    own = ", ".join(f"stored.{dialect.name(name)}" for name in also)
    if not repairs:
        return f"SELECT {own}, stored.time, stored.time_quality{added}\nFROM stored_readings AS stored"
    offset = "clocks.clock_offset - stored.clock_offset"
    moved = f"{dialect.micros.format('stored.time')} + {offset}"
    latest = f"{dialect.micros.format('stored.received_at')} + {AHEAD_US}"
    due = (
        f"stored.time_quality IN ('unsynchronised', 'arrival') AND {moved} >= {HISTORY_FROM_US} AND {moved} <= {latest}"
    )
    return (
        f"SELECT {own}{added},\n"
        f"       CASE WHEN {due}\n"
        f"            THEN {dialect.moved.format(offset)} ELSE stored.time END AS time,\n"
        f"       CASE WHEN {due}\n"
        "            THEN 'rebased' ELSE stored.time_quality END AS time_quality\n"
        "FROM stored_readings AS stored LEFT JOIN clocks ON stored.author = clocks.author AND stored.boot = clocks.boot"
    )


def _labelled(dialect: _Dialect, *, has_members: bool) -> str:
    """Return the query of readings with what their devices and groups were called when they were taken."""
    group = dialect.name("group")
    if not has_members:
        none = f"CAST(NULL AS {dialect.text})"
        return f"SELECT *, {none} AS label, {none} AS group_name\nFROM timed_readings"
    return (
        "SELECT timed.*, members.label, members.group_name\n"
        "FROM timed_readings AS timed LEFT JOIN members\n"
        f"     ON timed.author = members.author AND timed.{group} = members.{group}\n"
        "        AND (members.valid_from IS NULL OR timed.time >= members.valid_from)\n"
        "        AND (members.valid_until IS NULL OR timed.time < members.valid_until)"
    )


def _wide(dialect: _Dialect, series: list[str]) -> str:
    taken = {"author", "device", "time"}
    columns = []
    for name in series:
        column = name
        while column.casefold() in taken:  # names of columns know no case
            column += "_"
        taken.add(column.casefold())
        columns.append(f"       max(CASE WHEN name = {dialect.literal(name)} THEN value END) AS {dialect.name(column)}")
    listed = ",\n".join(columns)
    return (
        f"SELECT author, device, time,\n{listed}\n"
        "FROM timed_readings WHERE value IS NOT NULL\nGROUP BY author, device, time"
    )
