"""The messages behind readings: one row for each, by its first reading. What is known of numbers, repeats and clocks
follows from these rows by SQL (DuckDB, in memory).

No two messages have `MESSAGE` in common, even of two runs of a device whose state was written back bit for bit: these
give a number to one message before, and to another one after, but not in the same boot.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey_ingest.schema import TIMESTAMP

LINK = ["author", "incarnation"]
MESSAGE = [*LINK, "seq", "boot", "batch_number"]
MESSAGES = pa.schema(
    [
        *((name, pa.string()) for name in LINK),
        ("seq", pa.int64()),
        ("boot", pa.string()),
        ("batch_number", pa.int64()),
        ("collector", pa.string()),
        ("received_at", TIMESTAMP),
        ("time_quality", pa.string()),
        ("clock_offset", pa.int64()),
    ]
)


def scanned(files: Path | list[Path], links: pa.Table | None = None) -> ds.Scanner:
    """Return the messages in a folder of readings, or in files of them; what a file has no column for is null.

    With `links`, those of their authors, of their incarnations and of their `seq`, if they have any; and perhaps more.
    """
    asked = ds.field("index") == 0
    if links is not None:
        for name in {*LINK, "seq"}.intersection(links.column_names):
            asked &= ds.field(name).isin(pc.unique(links[name]))
    named = files if isinstance(files, Path) else [*map(str, files)]
    found = ds.dataset(named, MESSAGES.append(pa.field("index", pa.int32())), format="parquet")
    return found.scanner(MESSAGES.names, filter=asked)


def messages_in(files: Path | list[Path], links: pa.Table | None = None) -> pa.Table:
    """Return the messages in files of readings; with `links`, those of these authors and incarnations alone."""
    if isinstance(files, list) and not files:
        return MESSAGES.empty_table()
    found = scanned(files, links).to_table()
    return found if links is None else found.join(links.select(LINK), LINK, join_type="left semi")


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
    held = duckdb.connect(config={"autoinstall_known_extensions": False})
    held.execute("SET enable_progress_bar = false")
    return held


def in_microseconds(table: pa.Table) -> pa.Table:
    """Return a table with numbers in the place of times."""
    for place, field in enumerate(table.schema):
        if field.type == TIMESTAMP:
            table = table.set_column(place, field.name, table[field.name].cast(pa.int64()))
    return table.replace_schema_metadata(None)
