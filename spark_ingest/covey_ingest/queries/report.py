"""The state of a fleet and of its telemetry, from the tables alone: no Spark, no agent, no key.

DuckDB reads the tables' files: it prunes columns and row groups, aggregates in bounded memory (`_MEMORY`) and spills
the rest to disk, so the size of the tables does not matter. Nothing is written to them.

1. The window is `since` to `now`, by arrival at the collector. Devices and gaps are shown as they are now.
2. A device is silent if nothing of it has arrived in the window.
3. Latency to the collector is shown for readings with a synchronised clock; others' would be guesses.
4. "Ingested" is when the file that holds a reading was written; files that were merged later do not count.
5. Plots span the readings of the window, from the first to the last, not the window.
6. A curve shows the lowest, mean and highest value of all requested devices, by the times of the readings.
7. Devices have the labels given in the request, or else those of the newest landed manifest (`members`).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any

import duckdb

from covey.errors import StorageError
from covey_ingest.committer.table_files import files_and_times, register_files, tables_at
from covey_ingest.committer.table_locations import TableLocation
from covey_ingest.queries import report_orders

_MEMORY = "512MB"
PLOTTED = 48
"""Intervals that the time of the readings is divided into for plots."""
_CURVES = 12
"""Series whose values are drawn: those with most readings."""
_LISTED = 200
"""Devices that are listed: those that are not well first."""

_COLUMNS = {
    "readings": "author VARCHAR, name VARCHAR, unit VARCHAR, value DOUBLE, time TIMESTAMPTZ, time_quality VARCHAR, "
    "index INTEGER, received_at TIMESTAMPTZ, filename VARCHAR",
    "devices": "author VARCHAR, last_seen TIMESTAMPTZ, last_time TIMESTAMPTZ, time_quality VARCHAR, boots BIGINT, "
    "lag_seconds DOUBLE, open_gaps BIGINT, messages BIGINT, readings BIGINT, firmware VARCHAR, gateway VARCHAR",
    "gaps": "author VARCHAR, state VARCHAR, reason VARCHAR, numbers BIGINT, first_seen_at TIMESTAMPTZ",
    "losses": "author VARCHAR, reason VARCHAR, first BIGINT, last BIGINT, received_at TIMESTAMPTZ",
    "quarantine": "author VARCHAR, reason VARCHAR, detail VARCHAR, received_at TIMESTAMPTZ, node VARCHAR, "
    "first_segment BIGINT, last_segment BIGINT",
    **report_orders.COLUMNS,
}
_BY_ARRIVAL = ("readings", "losses")
"""Tables reported for the window only; quarantined rows may have no time of arrival."""
_OF_ANYBODY = "orders"
"""The table whose authors are not its subjects: with `author`, orders to that device count, too."""

_FLEET = """
    SELECT count(*) AS devices, count_if(epoch_us(last_seen) < $since) AS silent, sum(boots)::BIGINT AS boots,
           count_if(time_quality NOT IN ('synchronised', 'rebased')) AS clock_unsure,
           count_if(open_gaps > 0) AS with_open_gaps,
           max(epoch_us(last_seen)) AS last_seen_us
    FROM devices"""
_TRAFFIC = """
    SELECT count(*) AS readings, count_if(index = 0) AS messages, count(DISTINCT author) AS devices FROM readings"""
_LANDED = """
    SELECT unnest([0.5, 0.95, 0.99, 1]) AS quantile,
           unnest(approx_quantile(seconds, [0.5, 0.95, 0.99]) || [max(seconds)]) AS seconds
    FROM (SELECT (epoch_us(received_at) - epoch_us(time)) / 1e6 AS seconds FROM readings
          WHERE time_quality = 'synchronised') HAVING count(*) > 0"""
_INGESTED = """
    SELECT unnest([0.5, 0.95, 0.99, 1]) AS quantile,
           unnest(approx_quantile(seconds, [0.5, 0.95, 0.99]) || [max(seconds)]) AS seconds
    FROM (SELECT (written_us - epoch_us(received_at)) / 1e6 AS seconds FROM readings JOIN files USING (filename)
          WHERE index = 0 AND NOT contains(filename, '/merged-')) HAVING count(*) > 0"""
_NAMED = """
    SELECT author, arg_max(label, coalesce(epoch_us(valid_from), 0)) FROM members WHERE label != '' GROUP BY author"""
_SECTIONS = {
    "time_quality": """
        SELECT time_quality, count(*) AS readings, count(DISTINCT author) AS devices FROM readings
        GROUP BY ALL ORDER BY readings DESC""",
    "gaps": """
        SELECT state, coalesce(reason, '') AS reason, count(*) AS gaps, sum(numbers)::HUGEINT AS batches,
               count(DISTINCT author) AS devices, min(epoch_us(first_seen_at)) AS since_us
        FROM gaps GROUP BY ALL ORDER BY state, batches DESC""",
    "losses": """
        SELECT reason, count(*) AS records, sum(last - first + 1)::HUGEINT AS messages,
               count(DISTINCT author) AS devices
        FROM losses WHERE first IS NOT NULL AND reason NOT LIKE 'thinned %' GROUP BY ALL ORDER BY messages DESC""",
    "quarantine": """
        WITH repaired AS (SELECT node, first_segment, last_segment FROM quarantine WHERE reason = 'repaired')
        SELECT reason, count(*) AS entries, count(DISTINCT author) AS devices, min(detail) AS example
        FROM quarantine ANTI JOIN repaired USING (node, first_segment, last_segment)
        WHERE received_at IS NULL OR epoch_us(received_at) >= $since
        GROUP BY ALL ORDER BY entries DESC""",
    "series": """
        SELECT name, unit, count(*) AS readings, count(DISTINCT author) AS devices FROM readings
        GROUP BY ALL ORDER BY readings DESC, name LIMIT 10""",
    "devices": """
        SELECT author, epoch_us(last_seen) AS last_seen_us, lag_seconds, time_quality, boots,
               coalesce(open_gaps, 0) AS open_gaps, readings, firmware, gateway, epoch_us(last_seen) < $since AS silent
        FROM devices ORDER BY silent DESC, coalesce(open_gaps, 0) > 0 DESC, author LIMIT $listed""",
    "silent_devices": """
        SELECT author, epoch_us(last_seen) AS last_seen_us, time_quality, boots, coalesce(open_gaps, 0) AS open_gaps
        FROM devices WHERE epoch_us(last_seen) < $since ORDER BY last_seen, author LIMIT 10""",
    "intervals": """
        SELECT ((epoch_us(received_at) - $first) // $width)::INTEGER AS interval, count(*) AS readings,
               approx_quantile((epoch_us(received_at) - epoch_us(time)) / 1e6, 0.5)
                   FILTER (time_quality = 'synchronised') AS p50_s,
               approx_quantile((epoch_us(received_at) - epoch_us(time)) / 1e6, 0.99)
                   FILTER (time_quality = 'synchronised') AS p99_s
        FROM readings WHERE epoch_us(received_at) <= $now GROUP BY ALL ORDER BY interval""",
    "curves": """
        WITH measured AS (
            SELECT name, unit, value, author, greatest(0, (epoch_us(time) - $first) // $width) AS interval FROM readings
            WHERE abs(value) < 1e300 AND epoch_us(time) BETWEEN $first - $width AND $now),
        shown AS (SELECT name, unit FROM measured GROUP BY ALL ORDER BY count(*) DESC, name, unit LIMIT $curves)
        SELECT name, coalesce(unit, '') AS unit, interval, min(value) AS lowest, avg(value) AS mean,
               max(value) AS highest, count(DISTINCT author) AS devices
        FROM measured SEMI JOIN shown ON measured.name = shown.name AND measured.unit IS NOT DISTINCT FROM shown.unit
        GROUP BY ALL ORDER BY name, unit, interval""",
    **report_orders.SECTIONS,
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What the tables tell; times in microseconds since 1970."""

    tables: str
    author: str
    now_us: int
    since_us: int
    first_us: int
    """When the first reading of the window arrived; plots begin there."""
    interval_us: int
    labels: dict[str, str]
    """What devices are called, by their whole keys in hex: of those that were given."""
    fleet: Row
    traffic: Row
    latency_s: dict[str, dict[str, float]]
    """`landed`: from a reading's time to its collector; `ingested`: from there into the table. p50, p95, p99, max."""
    sections: dict[str, list[Row]]


def make_report(
    location: str, now_us: int, window_us: int | None, author: str = "", labels: dict[str, str] | None = None
) -> FleetReport:
    """Read the tables of a folder, or at a URL; a window of None reaches back to the first reading.

    `author` is the beginning of a device's key in hex, and leaves the others out. `labels` is what devices are called,
    by their keys in hex.

    Raises:
        ConfigurationError: there are no tables.
        StorageError: they cannot be read.
    """
    root = tables_at(location)
    name = root.name
    since = 0 if window_us is None else now_us - window_us
    with tempfile.TemporaryDirectory(prefix="covey-report-") as spill:
        settings: dict[str, Any] = {
            "memory_limit": _MEMORY,
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
        }
        try:
            with duckdb.connect(config=settings) as database:
                register_files(database, root)
                for table in _COLUMNS:
                    _view(database, root, table, since if table in _BY_ARRIVAL else 0, author)
                for view in report_orders.VIEWS:
                    database.execute(view)
                return _report(database, name, author, now_us, since, {**_labels(database, root), **(labels or {})})
        except duckdb.Error as error:
            raise StorageError(
                f"the tables at {name} cannot be read: {str(error).splitlines()[0]}",
                hint="if the ingest has just replaced a file, try again",
            ) from error


def _view(database: duckdb.DuckDBPyConnection, root: TableLocation, table: str, since: int, author: str) -> None:
    """Create a view of a table under its name: the requested columns and rows."""
    wanted = dict(column.split(" ") for column in _COLUMNS[table].split(", "))
    files = files_and_times(root, table)
    if not files:
        database.execute(f"CREATE TABLE {table} ({_COLUMNS[table]})")
    else:
        rows = database.read_parquet(list(files), union_by_name=True, filename=True)
        columns = [f"{name if name in rows.columns else 'NULL'}::{kind} AS {name}" for name, kind in wanted.items()]
        if author and table != _OF_ANYBODY:
            rows = rows.filter(f"starts_with(author, '{author}')")
        if since:
            rows = rows.filter(f"received_at >= to_timestamp({since / 1e6})")
        rows.project(", ".join(columns)).create_view(table)
    if table == "readings":
        database.execute(
            "CREATE TABLE files AS "
            "SELECT unnest($names::VARCHAR[]) AS filename, unnest($times::BIGINT[]) AS written_us",
            {"names": list(files), "times": list(files.values())},
        )


def _labels(database: duckdb.DuckDBPyConnection, root: TableLocation) -> dict[str, str]:
    """Return the latest labels of devices; empty if no collector has landed a manifest."""
    files = list(files_and_times(root, "members"))
    if not files:
        return {}
    database.read_parquet(files).create_view("members")
    return dict(database.execute(_NAMED).fetchall())


def _report(
    database: duckdb.DuckDBPyConnection, tables: str, author: str, now: int, since: int, labels: dict[str, str]
) -> FleetReport:
    arrivals = "SELECT min(epoch_us(received_at)) AS first, max(epoch_us(received_at)) AS last FROM readings"
    (arrived,) = _rows(database, f"{arrivals} WHERE epoch_us(received_at) <= $now", {"now": now})
    first, last = arrived["first"] or since or now, arrived["last"] or now
    width = max((last - first) // PLOTTED + 1, 1)
    given: dict[str, int | str] = {"since": since, "first": first, "width": width, "now": now, "author": author}
    given |= {"listed": _LISTED, "curves": _CURVES}
    quantiles = {"landed": _LANDED, "ingested": _INGESTED}
    names = {0.5: "p50", 0.95: "p95", 0.99: "p99", 1: "max"}
    return FleetReport(
        tables,
        author,
        now,
        since or first,
        first,
        width,
        labels,
        _rows(database, _FLEET, given)[0],
        _rows(database, _TRAFFIC, given)[0],
        {
            name: {names[float(row["quantile"])]: round(row["seconds"], 3) for row in _rows(database, query, given)}
            for name, query in quantiles.items()
        },
        {name: _rows(database, query, given) for name, query in _SECTIONS.items()},
    )


def _rows(database: duckdb.DuckDBPyConnection, query: str, given: dict[str, int | str]) -> list[Row]:
    found = database.execute(query, {name: value for name, value in given.items() if f"${name}" in query})
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
