"""What a Parquet file's footer says of its columns, as a Delta log has it: readers skip files by it.

A log says it only of columns that are never null, and the table's properties name these. Else the Delta library takes a
missing value for a bound, and its Arrow datasets skip files that have what a filter asks for.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq

SKIPPED_BY = {
    "readings": ("author", "device", "name", "time", "seq", "received_at"),
    "rollups": ("author", "device", "name", "minute"),
}
"""The columns that a log has least and greatest values of, by table: of numbers, texts and times, and never null."""


def skipping(table: str) -> dict[str, str]:
    """Return the properties of a table that say which columns it has statistics of."""
    columns = SKIPPED_BY.get(table)
    if columns is None:
        return {"delta.dataSkippingNumIndexedCols": "0"}
    return {"delta.dataSkippingStatsColumns": ",".join(columns)}


def statistics(file: Path, table: str) -> str:
    """Return the rows of a table's file, and least and greatest values of some of its columns, as JSON."""
    footer = pq.read_metadata(file)
    columns = SKIPPED_BY.get(table, ())
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        parts = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if name not in columns or not parts or not all(part is not None and part.has_min_max for part in parts):
            continue
        low, high = min(part.min for part in parts), max(part.max for part in parts)
        if isinstance(low, datetime):
            low, high = _milliseconds(low, 0), _milliseconds(high, 999)
        least[name], most[name] = low, high
    return json.dumps({"numRecords": footer.num_rows, "minValues": least, "maxValues": most})


def _milliseconds(moment: datetime, round_up_us: int) -> str:
    """Write a time as the log has it, in milliseconds: rounded away from what is within."""
    whole = (int(moment.timestamp()) * 1_000_000 + moment.microsecond + round_up_us) // 1000
    seconds, milliseconds = divmod(whole, 1000)
    return f"{datetime.fromtimestamp(seconds, moment.tzinfo):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
