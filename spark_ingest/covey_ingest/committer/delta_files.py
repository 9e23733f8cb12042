"""The files of a Delta table, by its log, and what makes few of many: rules 2 and 4 of `delta_log`."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow.dataset as ds

from covey_ingest.committer import clustering
from covey_ingest.task.file_statistics import statistics

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

    from covey_ingest.committer.table_locations import TableLocation

    Action = AddAction | RemoveAction


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
    """Put files that hold the rows of others (`clustering`), by way of a folder below `root`.

    Return what puts them in the place of these, and changes no data.
    """
    from deltalake.transaction import AddAction

    folder = Path(tempfile.mkdtemp(prefix=".merging-", dir=root))
    try:
        every: ds.FileSystemDataset = table.to_pyarrow_dataset()
        chosen = [part for part in every.get_fragments() if unquote(part.path) in sizes or part.path in sizes]
        rows = ds.FileSystemDataset(chosen, every.schema, every.format, every.filesystem)
        actions: list[Action] = []
        for file in clustering.clustered(rows, every.schema, folder, file_bytes):
            size, said = file.stat().st_size, statistics(file)
            came_ms = location.store.upload(f"{name}/{file.name}", file)
            actions.append(AddAction(file.name, size, {}, came_ms, False, said))
        return [*actions, *removed(sizes, changes_data=False)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
