"""Merged readings are sorted by day, author, name and time. So a query for one device's day reads little of a fleet's:
a file's row groups of `ROWS_PER_GROUP` list their authors, and of many files merged at once each holds some of the
authors of a day.

1. Rows are sorted by DuckDB, in `_MEMORY` and then on the disk, next to the tables: `folder` is a new one there.
2. A file is closed at `file_bytes`. Columns and their types stay as they are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from covey.adapters.files import synchronise

_COLUMNS = frozenset({"author", "name", "time"})
ROWS_PER_GROUP = 65_536
_MEMORY = "256MB"
_AS_THEY_COME = "SELECT * FROM merged"
_ORDERED = f"{_AS_THEY_COME} ORDER BY epoch_us(time) // 86_400_000_000, author, name, time"


def clustered(merged: ds.Dataset, schema: pa.Schema, folder: Path, file_bytes: int) -> list[Path]:
    """Write the rows of files as files in a folder, readings in order; return these. Raises OSError."""
    query = _ORDERED if set(schema.names) >= _COLUMNS else _AS_THEY_COME
    settings: dict[str, Any] = {"memory_limit": _MEMORY, "temp_directory": str(folder / "spill")}
    settings["autoinstall_known_extensions"] = False
    written: list[Path] = []
    folder.mkdir(exist_ok=True)
    with duckdb.connect(config=settings) as database:
        database.execute("SET enable_progress_bar = false")
        database.register("merged", merged)
        with closing(database.sql(query).to_arrow_reader(ROWS_PER_GROUP)) as rows:
            groups = _groups(rows, schema)
            while (first := next(groups, None)) is not None:
                written.append(_write(first, groups, folder / f"merged-{uuid4().hex}.parquet", file_bytes))
    shutil.rmtree(folder / "spill", ignore_errors=True)
    for path in (*written, folder):
        synchronise(path)
    return written


def _write(first: pa.Table, more: Iterator[pa.Table], path: Path, file_bytes: int) -> Path:
    with (
        path.open("wb") as file,
        pq.ParquetWriter(file, first.schema, compression="zstd", store_schema=False) as writer,
    ):
        writer.write_table(first)
        while file.tell() < file_bytes and (group := next(more, None)) is not None:
            writer.write_table(group)
    return path


def _groups(rows: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in rows:
        waiting.append(batch)
        if sum(map(len, waiting)) >= ROWS_PER_GROUP:
            yield pa.Table.from_batches(waiting).cast(schema)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting).cast(schema)
