"""The `rollups` table: each series' readings of a micro-batch, summed up for each minute.

    rollups/batch=N/   a row for each author, series and minute of micro-batch N

1. A row is a part: a query for a minute, an hour or a day adds up its rows (`views` makes `rollup_minute`,
   `rollup_hour` and `rollup_day` of them). So late data is a further row, and no row is ever changed.
2. Micro-batch N is committed before that of `readings` (rule 2 of `tables`): each reading counts once.
3. Times are those at the time of writing: a reading that is rebased later stays in its first minute.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from covey_ingest.tables.messages import database, know_files
from covey_ingest.task.columns import TIMESTAMP, fields

TABLE = "rollups"
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "device", "name", "unit")),
        ("minute", TIMESTAMP),
        ("readings", pa.int64()),
        ("minimum", pa.float64()),
        ("maximum", pa.float64()),
        ("total", pa.float64()),
        ("last", pa.float64()),
        ("last_time", TIMESTAMP),
        ("last_seq", pa.int64()),
    ]
)
_COLUMNS = fields("author", "device", "name", "unit", "time", "value", "seq", "index")
_MINUTES = """
    SELECT author, device, name, unit, time_us // 60_000_000 * 60_000_000 AS minute, count(*) AS readings,
           min(value) AS minimum, max(value) AS maximum, sum(value) AS total,
           arg_max(value, (time_us, seq, index)) AS last, max(time_us) AS last_time,
           arg_max(seq, (time_us, seq, index)) AS last_seq
    FROM (SELECT *, epoch_us(time) AS time_us FROM given) WHERE value IS NOT NULL
    GROUP BY author, device, name, unit, minute
    ORDER BY author, name, unit, minute"""


def write_minutes(readings: list[Path], folder: Path) -> bool:
    """Write the rows of some files of readings into a new folder; say whether there are any. Raises OSError."""
    with database() as held:
        know_files(held, "given", readings, _COLUMNS)
        minutes = held.sql(_MINUTES).to_arrow_table().cast(SCHEMA)
    if len(minutes):
        folder.mkdir(parents=True)
        pq.write_table(minutes, folder / "part-0.parquet", compression="zstd", store_schema=False)
    return len(minutes) > 0
