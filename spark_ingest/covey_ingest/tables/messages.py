"""The messages behind readings: one row per message, from its first reading. Numbers, repeats and clocks
are computed from these rows by SQL (DuckDB, in memory).

No two messages have `MESSAGE` in common, even of two runs of a device whose state was written back bit for bit: these
give a number to one message before, and to another one after, but not in the same boot.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey_ingest.task.columns import TIMESTAMP, fields

if TYPE_CHECKING:
    import duckdb

_SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    TIMESTAMP: "TIMESTAMPTZ",
}
LINK = ["author", "incarnation"]
MESSAGE = [*LINK, "seq", "boot", "batch_number"]
MESSAGES = fields(
    *MESSAGE,
    *("collector", "received_at", "time_quality", "clock_offset"),
)
"""What is known of a message: the columns that `columns` calls known."""


_FIRSTS = MESSAGES.append(pa.field("index", pa.int32()))


def scanned(files: Path | list[Path], links: pa.Table | None = None) -> ds.Scanner:
    """Return the messages in a folder of readings, or in files of them; what a file has no column for is null.

    With `links`, those of their authors, of their incarnations and of their `seq`, if they have any; and perhaps more.
    """
    asked = ds.field("index") == 0
    if links is not None:
        for name in {*LINK, "seq"}.intersection(links.column_names):
            asked &= ds.field(name).isin(pc.unique(links[name]))
    named = files if isinstance(files, Path) else [*map(str, files)]
    found = ds.dataset(named, _FIRSTS, format="parquet")
    return found.scanner(MESSAGES.names, filter=asked)


def messages_in(files: Path | list[Path], links: pa.Table | None = None) -> pa.Table:
    """Return the messages in files of readings; with `links`, those of these authors and incarnations alone.

    Raises:
        OSError: a file cannot be read.
    """
    named = sorted(files.glob("*.parquet")) if isinstance(files, Path) else files
    if not named:
        return MESSAGES.empty_table()
    if links is not None:
        return scanned(named, links).to_table().join(links.select(LINK), LINK, join_type="left semi")
    import duckdb

    try:
        with database() as held:
            know_files(held, "readings", named, _FIRSTS)
            found = held.sql('SELECT * EXCLUDE ("index") FROM readings WHERE "index" = 0')
            return found.to_arrow_table().cast(MESSAGES)
    except duckdb.IOException as error:
        raise OSError(str(error)) from error


def know_files(held: duckdb.DuckDBPyConnection, name: str, files: list[Path], columns: pa.Schema) -> None:
    """Let a connection know files of readings by a name; what no file has a column for is null.

    DuckDB reads them itself, which takes it half of what it takes to hand it pyarrow's rows, and a seventh where few
    rows are wanted.
    """
    patterns = [_only(file) for file in files]
    there = held.read_parquet(patterns, union_by_name=True, hive_partitioning=False).columns
    given = [f'"{field.name}"' if field.name in there else "NULL" for field in columns]
    typed = [
        f'CAST({column} AS {_SQL_TYPES[field.type]}) AS "{field.name}"'
        for column, field in zip(given, columns, strict=True)
    ]
    listed = ", ".join("'" + pattern.replace("'", "''") + "'" for pattern in patterns)
    held.execute(  # a view takes no parameters: names are ours, and patterns quoted
        f"CREATE TEMP VIEW {name} AS SELECT {', '.join(typed)}"  # noqa: S608
        f" FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
    )


def _only(file: Path) -> str:
    """Return the pattern that a path alone matches."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(file))


def database(**tables: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return a connection that knows these tables, in memory; times are microseconds since 1970 in it.

    What is made in it has to be temporary: the database behind it is the process's, since it takes 60 ms to make one.
    """
    held = _database().cursor()
    for name, table in tables.items():
        held.register(name, in_microseconds(table))
    return held


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb  # workers, which make no connection, need not load it

    held = duckdb.connect(config={"autoinstall_known_extensions": False})
    held.execute("SET enable_progress_bar = false")
    held.execute("SET enable_external_file_cache = false")  # files are read once or twice, and memory is Spark's
    return held


def in_microseconds(table: pa.Table) -> pa.Table:
    """Return a table with numbers in the place of times."""
    for place, field in enumerate(table.schema):
        if field.type == TIMESTAMP:
            table = table.set_column(place, field.name, table[field.name].cast(pa.int64()))
    return table.replace_schema_metadata(None)
