"""What the `readings` hold of each device, counted without Spark: by pyarrow, from the files of the table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from covey_ingest.table_files import table_files

_KEY = ["author", "incarnation", "seq", "index"]


@dataclass(frozen=True, slots=True)
class Tally:
    """One device's readings."""

    distinct: int
    doubled: int


def tally(tables: Path) -> dict[str, Tally]:
    """Count each device's readings, by author. Needs some 100 bytes of memory for each."""
    parts = [pq.read_table(file, columns=_KEY, partitioning=None) for file in table_files(tables, "readings")]
    if not parts:
        return {}
    keys = pa.concat_tables(parts).group_by(_KEY).aggregate([([], "count_all")])
    found = keys.group_by("author").aggregate([([], "count_all"), ("count_all", "sum")])
    columns = (found[name].to_pylist() for name in ("author", "count_all", "count_all_sum"))
    return {author: Tally(distinct, rows - distinct) for author, distinct, rows in zip(*columns, strict=True)}
