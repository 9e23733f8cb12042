"""Parquet files that a test wrote, as Delta tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction

from covey_ingest.committer.table_locations import MARK
from covey_ingest.tables.rollups import Minutes
from covey_ingest.task.exploding import STORED
from covey_ingest.task.file_statistics import skipping, statistics


def log_file(root: Path, name: str, file: Path) -> None:
    """Add a file to a table below `root`, and make the table where there is none."""
    folder, schema = root / name, pq.read_schema(file)
    wanted = Schema.from_arrow(pa.schema([pa.field(each.name, each.type) for each in schema]))
    properties = {"delta.enableChangeDataFeed": "true", **skipping(name)}
    try:
        table = DeltaTable(folder)
    except TableNotFoundError:
        table = DeltaTable.create(folder, wanted, name=name, configuration=properties)
        (root / MARK).write_text(json.dumps({"layout": 1, "ingest": "test", "vaults": ["00"], "run": 1}))
    new = [each for each in wanted.fields if each.name not in {known.name for known in table.schema().fields}]
    if new:
        table.alter.add_columns(new)
    came_ms = int(file.stat().st_mtime * 1000)
    action = AddAction(
        file.relative_to(folder).as_posix(), file.stat().st_size, {}, came_ms, True, statistics(file, name)
    )
    table.create_write_transaction([action], "append", table.schema())


def write_minutes(readings: list[Path], folder: Path) -> bool:
    """Write the sums of files of readings into a new folder; say whether there are any."""
    minutes = Minutes()
    for rows in map(pq.read_table, readings):
        loose = pa.schema([pa.field(field.name, field.type) for field in STORED])  # what a test leaves out is null
        for batch in rows.select(loose.names).cast(loose).to_batches():
            minutes.add(batch)
    sums = minutes.table()
    if len(sums):
        folder.mkdir(parents=True)
        pq.write_table(sums, folder / "part-0.parquet")
    return len(sums) > 0
