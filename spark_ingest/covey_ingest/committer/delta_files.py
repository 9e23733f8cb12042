"""The files of a Delta table, by its log, and merging many of them into few: rules 2 and 4 of `delta_log`.

Merged readings are sorted by day, author, name and time, so that a query for one device's day reads little of a
fleet's: a file's row groups of `ROWS_PER_GROUP` list their authors, and of many files merged at once each holds some of
the authors of a day. DuckDB sorts in `_MEMORY` and then on the disk, next to the tables. Columns keep their types.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from covey.adapters.files import synchronise
from covey.errors import StorageError
from covey_ingest.committer.file_names import DAMAGED_HINT, check_content, named
from covey_ingest.task.file_statistics import statistics
from covey_ingest.task.parquet_files import parquet_writer

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

    from covey_ingest.committer.table_locations import TableLocation

    Action = AddAction | RemoveAction

_COLUMNS = frozenset({"author", "name", "time"})
ROWS_PER_GROUP = 65_536
_MEMORY = "256MB"
_AS_THEY_COME = "SELECT * FROM merged"
_ORDERED = f"{_AS_THEY_COME} ORDER BY epoch_us(time) // 86_400_000_000, author, name, time"


def sizes_of(table: DeltaTable) -> dict[str, int]:
    """Return the paths of a table's files within it, and their sizes."""
    actions = table.get_add_actions()
    paths, sizes = (actions.column(column).to_pylist() for column in ("path", "size_bytes"))
    return dict(zip(paths, map(int, sizes), strict=True))


def removed(sizes: dict[str, int], *, changes_data: bool) -> list[Action]:
    """Return what takes files out of a table."""
    from deltalake.transaction import RemoveAction

    now_ms = time.time_ns() // 1_000_000
    return [RemoveAction(path, changes_data, now_ms, size, {}) for path, size in sizes.items()]


def merged(
    table: DeltaTable, name: str, sizes: dict[str, int], root: Path, location: TableLocation, file_bytes: int
) -> list[Action]:
    """Put files that hold the rows of others, by way of a folder below `root`.

    Return what puts them in the place of these, and changes no data. A damaged file is left out: its digest would be
    lost.
    """
    from deltalake.transaction import AddAction

    folder = Path(tempfile.mkdtemp(prefix=".merging-", dir=root))
    try:
        with ExitStack() as held:
            there = {path: file for path in sizes if (file := _lent(held, location, name, path)) is not None}
            sizes = {path: sizes[path] for path in there}
            schema = table.to_pyarrow_dataset().schema
            rows = ds.dataset([*there.values()], schema=schema, format="parquet")
            files = clustered(rows, schema, folder, file_bytes)
            before, after = (sum(pq.read_metadata(file).num_rows for file in of) for of in (there.values(), files))
        if before != after:
            raise StorageError(f"merging made {after} rows of {before}", hint=DAMAGED_HINT)
        actions: list[Action] = []
        for file in files:
            size, said = file.stat().st_size, statistics(file, name)
            came_ms = location.store.upload(f"{name}/{file.name}", file)
            actions.append(AddAction(file.name, size, {}, came_ms, False, said))
        return [*actions, *removed(sizes, changes_data=False)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _lent(held: ExitStack, location: TableLocation, name: str, path: str) -> Path | None:
    """Return a file of a table, as it was written: of a store a copy, since that could give another one next time."""
    try:
        file = held.enter_context(location.store.reading(f"{name}/{unquote(path)}"))
        check_content(file, path)
    except (StorageError, FileNotFoundError):
        return None
    return file


def clustered(merged: ds.Dataset, schema: pa.Schema, folder: Path, file_bytes: int) -> list[Path]:
    """Write the rows of files as files in a new folder, readings in order; return the paths.

    A file is closed at `file_bytes`.

    Raises:
        OSError: the disk refused.
    """
    import duckdb

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
                file = named(_write(first, groups, folder / f"{uuid4().hex}.parquet", file_bytes))
                written.append(file.rename(file.with_name(f"merged-{file.name}")))
    shutil.rmtree(folder / "spill", ignore_errors=True)
    for path in (*written, folder):
        synchronise(path)
    return written


def _write(first: pa.Table, more: Iterator[pa.Table], path: Path, file_bytes: int) -> Path:
    with path.open("wb") as file, parquet_writer(file, first.schema) as writer:
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
