"""How much of a table is read for one device's day among 20,000: `python -m bench.tables.device_day`.

`BATCHES` micro-batches of a message from each of `DEVICES` devices, over two days, as the ingest writes them; the same
merged in the order in which they came, as it was done before; and merged in the order of `delta_files`. DuckDB, in a
process of its own, asks for the mean of one device on one day; counted is what that process reads after its start.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from covey_ingest.committer.delta_files import clustered
from covey_ingest.task.columns import TIMESTAMP

DEVICES = 20_000
BATCHES = 16
READINGS = 10
FILE_BYTES = 4_000_000
"""So small that there are some files, as there are in a table of more days."""

_START_US = 1_800_000_000_000_000 // 86_400_000_000 * 86_400_000_000
_ASK = """
import sys, duckdb
files, author, day = sys.argv[2:], sys.argv[1], 86_400_000_000
database = duckdb.connect()
query = ("SELECT count(*), avg(value) FROM read_parquet($files) WHERE author = $author "
         "AND time >= make_timestamptz($first) AND time < make_timestamptz($last)")
database.execute("SELECT 1 WHERE make_timestamptz(1::BIGINT) IS NULL")
def read():
    return int(open("/proc/self/io").readline().split()[1])
before = read()
given = {"files": files, "author": author, "first": %d, "last": %d}
found = database.execute(query, given).fetchone()
print(read() - before, found[0])
"""


def main() -> None:
    """Write, merge, ask and print."""
    rng = np.random.default_rng(1)
    authors = [rng.bytes(32).hex() for _ in range(DEVICES)]
    with tempfile.TemporaryDirectory(prefix="covey-bench-") as folder:
        small = [_write(Path(folder) / f"{batch}.parquet", authors, batch, rng) for batch in range(BATCHES)]
        together = Path(folder) / "as-it-came.parquet"
        whole = pa.concat_tables([pq.read_table(file) for file in small])
        pq.write_table(whole, together, compression="zstd", row_group_size=131_072)
        ordered = clustered(ds.dataset([*map(str, small)]), whole.schema, Path(folder) / "ordered", FILE_BYTES)
        cases = {"not merged": small, "merged as it came": [together], "merged in order": ordered}
        for name, files in cases.items():
            asked = [sys.executable, "-c", _ASK % (_START_US, _START_US + 86_400_000_000), authors[DEVICES // 2]]
            done = subprocess.run([*asked, *map(str, files)], capture_output=True, text=True, check=True)
            read, rows = map(int, done.stdout.split())
            size = sum(file.stat().st_size for file in files)
            print(
                f"{name:18} {len(files):3} files, {size / 1e6:6.1f} MB: {read / 1e6:7.2f} MB read for {rows} readings",
                flush=True,
            )


def _write(path: Path, authors: list[str], batch: int, rng: np.random.Generator) -> Path:
    """Write a micro-batch: the devices in the order in which they spoke, ten readings of two sensors each."""
    order = np.repeat(rng.permutation(DEVICES), READINGS)
    times = _START_US + batch * (2 * 86_400_000_000 // BATCHES) + np.tile(np.arange(READINGS), DEVICES) * 1_000_000
    names = pa.array(["humidity", "temperature"] * (len(order) // 2))
    values = np.round(20 + rng.standard_normal(len(order)), 2)
    table = pa.table(
        [pa.array(authors).take(pa.array(order)), names, pa.array(times).cast(TIMESTAMP), pa.array(values)],
        ["author", "name", "time", "value"],
    )
    pq.write_table(table, path, compression="zstd")
    return path


if __name__ == "__main__":
    main()
