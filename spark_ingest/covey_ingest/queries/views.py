"""Views over the tables, as SQL that a person's own DuckDB or Spark runs; they store nothing, and follow the tables.

1. `readings`, `devices` and so on are the tables. `readings` has `label` and `group_name` as well, as they were at the
   time of the reading (`members`); the other views start from `stored_readings`, and pay for no join.
2. `latest`: the newest reading of each series of each device, and its age.
3. `by_minute`, `by_hour`, `by_day`: count, minimum, maximum, mean and last of each series of numbers, late data
   included. Days are those of the session's time zone.
4. `rollup_minute`, `rollup_hour`, `rollup_day`: the same from `rollups`, which is less to read; times that were
   repaired later count where they were.
5. `messages`: a row for each message, with its number and how many readings it has.
6. `combined`: readings and summaries, each reading once: a row for each reading of numbers, or for each window of a
   summary, where a device has thinned what waited. Of summaries that have numbers in common, the one with the most
   counts. What has come as it was is taken out of a summary's count and sum, and `overlapping` says so (its minimum and
   maximum are those of all). A week's curve is one query of it.
7. `wide`: a row for each device and moment, a column for each series of numbers, of which the `SERIES_MAX` most
   frequent have one.

Names of series are what devices say: they stand quoted, and one that does not print in a line has no column. So a
script is a statement, ";", an empty line, and the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import duckdb
import pyarrow as pa

from covey_ingest.committer.delta_files import sizes_of
from covey_ingest.committer.table_files import check_log, register_files, tables_at
from covey_ingest.committer.table_locations import TableLocation, open_table
from covey_ingest.tables import clocks, devices, gaps, members
from covey_ingest.task.others import SMALL_TABLES

SERIES_MAX = 256
"""Columns of `wide`: as many as a person scrolls through; a hostile device can name any number of series."""

TABLES = (
    *("readings", "devices", "gaps", "clocks", "losses", "quarantine", "orders", "commands", "settings", "rollups"),
    *("memberships", "members", "summaries"),
)


_FOLLOWING = {
    "summaries": SMALL_TABLES["summaries"],
    "losses": SMALL_TABLES["losses"],
    "devices": devices.SCHEMA.append(pa.field("open_gaps", pa.int64())),
    "gaps": gaps.GAPS,
    "clocks": clocks.SCHEMA,
    "members": members.MEMBERS,
}
"""Tables that are made of others, up to a minute later."""


class Engine(StrEnum):
    """Whose SQL it is."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class _Dialect:
    view: str
    text: str
    quote: str
    literal_escapes: dict[int, str]
    numbers: str
    """A row for each number of a range."""

    def name(self, text: str) -> str:
        return self.quote + text.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, text: str) -> str:
        return "'" + text.translate(self.literal_escapes) + "'"


_DIALECTS = {
    Engine.DUCKDB: _Dialect(
        "CREATE OR REPLACE VIEW",
        "VARCHAR",
        '"',
        {ord("'"): "''"},
        "unnest(generate_series(first_number, last_number))",
    ),
    Engine.SPARK: _Dialect(
        "CREATE OR REPLACE TEMPORARY VIEW",
        "STRING",
        "`",
        {ord("'"): "\\'", ord("\\"): "\\\\"},
        "explode(sequence(first_number, last_number))",
    ),
}

_LATEST = """SELECT author, device, label, name, unit, time, now() - time AS age, value, whole, flag, text,
       time_quality, {group}, group_name
FROM (SELECT *, row_number() OVER (PARTITION BY author, name ORDER BY time DESC, seq DESC, index DESC) AS place
      FROM readings)
WHERE place = 1"""
_ROLLUP = """SELECT author, device, name, unit, date_trunc('{period}', time) AS {period}, count(*) AS readings,
       min(value) AS minimum, max(value) AS maximum, avg(value) AS mean, max_by(value, (time, seq, index)) AS last
FROM stored_readings WHERE value IS NOT NULL
GROUP BY author, device, name, unit, date_trunc('{period}', time)"""

_KEPT = """SELECT author, device, name, unit, date_trunc('{period}', minute) AS {period},
       CAST(sum(readings) AS BIGINT) AS readings, min(minimum) AS minimum, max(maximum) AS maximum,
       sum(total) / sum(readings) AS mean, max_by(last, (last_time, last_seq)) AS last
FROM rollups
GROUP BY author, device, name, unit, date_trunc('{period}', minute)"""

_COMBINED = """WITH named AS (
    SELECT DISTINCT author, incarnation, seq, first_number, last_number FROM losses
    WHERE reason LIKE 'thinned %' AND first_number IS NOT NULL),
numbers AS (SELECT author, incarnation, seq, {numbers} AS number FROM named),
sizes AS (SELECT author, incarnation, seq, count(*) AS size FROM numbers GROUP BY author, incarnation, seq),
shared AS (
    SELECT DISTINCT one.author, one.incarnation, one.seq
    FROM numbers AS one JOIN numbers AS other ON one.author = other.author AND one.incarnation = other.incarnation
                                                AND one.number = other.number AND one.seq <> other.seq
    JOIN sizes AS mine ON mine.author = one.author AND mine.incarnation = one.incarnation AND mine.seq = one.seq
    JOIN sizes AS its ON its.author = other.author AND its.incarnation = other.incarnation AND its.seq = other.seq
    WHERE its.size > mine.size OR (its.size = mine.size AND its.seq > mine.seq)),
windows AS (
    SELECT * FROM (
        SELECT *, row_number() OVER (PARTITION BY author, incarnation, seq, boot, index
                                     ORDER BY received_at, collector) AS landing FROM summaries) AS landed
    WHERE landing = 1 AND sum IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM shared WHERE shared.author = landed.author AND shared.incarnation = landed.incarnation
                                   AND shared.seq = landed.seq)),
come AS (
    SELECT windows.author, windows.incarnation, windows.seq, windows.index, count(*) AS readings,
           sum(coalesce(stored.value, CAST(stored.flag AS INT))) AS sum,
           sum(coalesce(CAST(CAST(stored.value AS {text}) AS DECIMAL(38, 9)), CAST(stored.flag AS INT))) AS exact_sum
    FROM numbers
    JOIN stored_readings AS stored ON stored.author = numbers.author AND stored.incarnation = numbers.incarnation
                                      AND stored.batch_number = numbers.number
    JOIN windows ON windows.author = numbers.author AND windows.incarnation = numbers.incarnation
                    AND windows.seq = numbers.seq AND windows.name = stored.name AND windows.unit = stored.unit
                    AND stored.time BETWEEN windows.time AND windows.until
                    AND (windows.kind = 'boolean') = (stored.flag IS NOT NULL)
    WHERE stored.value IS NOT NULL OR stored.flag IS NOT NULL
    GROUP BY windows.author, windows.incarnation, windows.seq, windows.index)
SELECT author, device, name, unit, time, time AS until, CAST(1 AS BIGINT) AS readings, value AS sum,
       CAST(NULL AS DECIMAL(38, 9)) AS exact_sum, value AS minimum, value AS maximum, value AS first, value AS last,
       time_quality, false AS thinned, false AS overlapping
FROM stored_readings WHERE value IS NOT NULL
UNION ALL
SELECT windows.author, substr(windows.author, 1, 8), windows.name, windows.unit, windows.time, windows.until,
       windows.readings - coalesce(come.readings, 0), windows.sum - coalesce(come.sum, 0),
       CAST(windows.exact_sum - coalesce(come.exact_sum, 0) AS DECIMAL(38, 9)), windows.minimum, windows.maximum,
       windows.first, windows.last, windows.time_quality, true, come.readings IS NOT NULL
FROM windows LEFT JOIN come ON come.author = windows.author AND come.incarnation = windows.incarnation
                              AND come.seq = windows.seq AND come.index = windows.index
WHERE windows.readings > coalesce(come.readings, 0)"""

_MESSAGES = """SELECT author, incarnation, seq, batch_number AS number, boot, min(received_at) AS received_at,
       count(*) AS readings
FROM stored_readings
GROUP BY author, incarnation, seq, batch_number, boot"""


def script(name: str, engine: Engine) -> str:
    """Return SQL that makes all views over the tables at a path or a URL.

    Raises:
        ConfigurationError: there are no tables.
        StorageError: they cannot be read.
    """
    location, dialect = tables_at(name), _DIALECTS[engine]
    there = [table for table in TABLES if open_table(location, table) is not None]
    stored = []
    for table in there:
        view = f"{dialect.view} {_stored(table)}"
        place = dialect.literal(location.uri(table))
        if engine is Engine.SPARK:
            stored.append(f"{view}\nUSING delta OPTIONS (path {place});")
        else:
            stored.append(f"{view} AS\nSELECT * FROM delta_scan({place});")
    with opened(location) as database:
        series = series_of(database)
    return (
        "\n\n".join(
            [*stored, *_views(engine, series, has_members="members" in there, has_summaries="summaries" in there)]
        )
        + "\n"
    )


@contextmanager
def opened(location: TableLocation) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the tables in DuckDB, as they stand now, each under its own name but for `stored_readings`.

    Raises:
        StorageError: they cannot be read.
    """
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as database:
        register_files(database, location)
        refresh(database, location)
        yield database


def refresh(database: duckdb.DuckDBPyConnection, location: TableLocation) -> None:
    """Show the tables as they are now. One that follows others and is not there yet has no rows.

    Raises:
        StorageError: they cannot be read.
    """
    for table in TABLES:
        check_log(location, table)
        found = open_table(location, table)
        files = [f"{location.uri(table)}/{path}" for path in sizes_of(found)] if found else []
        if files:
            database.read_parquet(files, union_by_name=True, hive_partitioning=False).create_view(_stored(table))
        elif found or table in _FOLLOWING:
            columns = pa.schema(found.schema().to_arrow()) if found else _FOLLOWING[table]
            database.register(f"empty_{table}", columns.empty_table())
            database.execute(f"CREATE OR REPLACE VIEW {_stored(table)} AS FROM empty_{table}")


def create(database: duckdb.DuckDBPyConnection, *, wide: bool) -> None:
    """Make the views over the tables that `refresh` has shown; `wide` reads which series there are."""
    series = series_of(database) if wide else []
    for statement in _views(Engine.DUCKDB, series, has_members=True, has_summaries=True):
        database.execute(statement)


def series_of(database: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the names of the series of numbers, the most frequent first."""
    counted = "SELECT name FROM rollups GROUP BY name ORDER BY sum(readings) DESC, name"
    rows = database.execute(f"{counted} LIMIT {SERIES_MAX}").fetchall()
    return [name for (name,) in rows if name is not None and name.isprintable()]


def _stored(table: str) -> str:
    return "stored_readings" if table == "readings" else table


def _views(engine: Engine, series: list[str], *, has_members: bool, has_summaries: bool) -> Iterator[str]:
    dialect = _DIALECTS[engine]

    def view(name: str, query: str) -> str:
        return f"{dialect.view} {name} AS\n{query};"

    yield view("readings", _labelled(dialect, has_members=has_members))
    yield view("latest", _LATEST.format(group=dialect.name("group")))
    for period in ("minute", "hour", "day"):
        yield view(f"by_{period}", _ROLLUP.format(period=period))
        yield view(f"rollup_{period}", _KEPT.format(period=period))
    yield view("messages", _MESSAGES)
    if has_summaries:
        yield view("combined", _COMBINED.format(numbers=dialect.numbers, text=dialect.text))
    if series:
        yield view("wide", _wide(dialect, series))


def _labelled(dialect: _Dialect, *, has_members: bool) -> str:
    """Return the query of readings with the labels of devices and groups at the time of each reading."""
    group = dialect.name("group")
    if not has_members:
        none = f"CAST(NULL AS {dialect.text})"
        return f"SELECT *, {none} AS label, {none} AS group_name\nFROM stored_readings"
    return (
        "SELECT stored.*, members.label, members.group_name\n"
        "FROM stored_readings AS stored LEFT JOIN members\n"
        f"     ON stored.author = members.author AND stored.{group} = members.{group}\n"
        "        AND (members.valid_from IS NULL OR stored.time >= members.valid_from)\n"
        "        AND (members.valid_until IS NULL OR stored.time < members.valid_until)"
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
        "FROM stored_readings WHERE value IS NOT NULL\nGROUP BY author, device, time"
    )
