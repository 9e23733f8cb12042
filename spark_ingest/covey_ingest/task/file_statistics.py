"""What a Parquet file's footer says of its columns, as a Delta log has it: readers skip files by it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq


def statistics(file: Path) -> str:
    """Return rows, and least and greatest values of columns of numbers, texts and times, as JSON."""
    footer = pq.read_metadata(file)
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        parts = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if "." in name or not parts or not all(part is not None and part.has_min_max for part in parts):
            continue
        low, high = min(part.min for part in parts), max(part.max for part in parts)
        if isinstance(low, datetime):
            low, high = _milliseconds(low, 0), _milliseconds(high, 999)
        elif not isinstance(low, int | str) or isinstance(low, bool):
            continue
        least[name], most[name] = low, high
    return json.dumps({"numRecords": footer.num_rows, "minValues": least, "maxValues": most})


def _milliseconds(moment: datetime, round_up_us: int) -> str:
    """Write a time as the log has it, in milliseconds: rounded away from what is within."""
    whole = (int(moment.timestamp()) * 1_000_000 + moment.microsecond + round_up_us) // 1000
    seconds, milliseconds = divmod(whole, 1000)
    return f"{datetime.fromtimestamp(seconds, moment.tzinfo):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
