"""A small Parquet file that is replaced whole after each micro-batch and carries the number of the last one in it.

So a replay of that batch changes nothing, and a kill between two steps leaves the file before or the file after.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from covey.adapters.files import replace_file

_BATCH = b"covey.batch"


def read_state(path: Path, schema: pa.Schema) -> tuple[pa.Table, int]:
    """Return a file's rows and the last micro-batch in them; no rows and -1 where there is no file yet."""
    table = _read(path) if path.exists() else schema.empty_table()
    return table, int((table.schema.metadata or {}).get(_BATCH, b"-1"))


def _read(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:  # `read_table` would load pandas
        return file.read()


def replace_state(path: Path, table: pa.Table, batch_id: int) -> None:
    """Replace a file durably and atomically. Raises OSError."""
    path.parent.mkdir(exist_ok=True)
    content = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({_BATCH: str(batch_id)}), content, compression="zstd")
    replace_file(path, memoryview(content.getvalue()), 0o666)
