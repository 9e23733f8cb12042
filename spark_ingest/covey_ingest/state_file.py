"""A small Parquet file that is replaced whole after each micro-batch and carries the number of the last one in it.

So a replay of that batch changes nothing, and a kill between two steps leaves the file before or the file after.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_BATCH = b"covey.batch"


def read_state(path: Path, schema: pa.Schema) -> tuple[pa.Table, int]:
    """Return a file's rows and the last micro-batch in them; no rows and -1 where there is no file yet."""
    table = pq.read_table(path) if path.exists() else schema.empty_table()
    return table, int((table.schema.metadata or {}).get(_BATCH, b"-1"))


def replace_state(path: Path, table: pa.Table, batch_id: int) -> None:
    """Replace a file durably and atomically."""
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    pq.write_table(table.replace_schema_metadata({_BATCH: str(batch_id)}), temporary, compression="zstd")
    synchronise(temporary)
    temporary.replace(path)
    synchronise(path.parent)


def replace_bytes(path: Path, content: bytes) -> None:
    """Replace a file durably and atomically; its folder is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    synchronise(temporary)
    temporary.replace(path)
    synchronise(path.parent)


def synchronise(path: Path) -> None:
    """Bring a file, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
