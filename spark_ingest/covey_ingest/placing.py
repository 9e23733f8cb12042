"""A task's readings, put into an object store where the task runs, and what the driver has to know of them.

    readings/batch=N/<name>.parquet   the readings, in files of at most `FILE_BYTES` or so
    rollups/batch=N/<name>.parquet    what they make by minute: see `rollups`

1. A name is never used twice. What a killed task, or one that Spark runs a second time, has put is named by no log: it
   is an orphan, which no reader of the table sees, and is deleted some day (`DeltaLog.sweep`).
2. The driver gets one row for each file: where it lies, what a Delta log says of it, the messages in it (one row each,
   by their first reading) and a summary of its devices. No reading passes the driver.
3. It needs no Spark, and so can be asked without one; memory is that of a row group, beside a file on the task's disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from covey.adapters.objects.cloud import CloudStore, open_cloud_store
from covey.adapters.objects.location import READER_PATIENCE
from covey_ingest import devices, rollups
from covey_ingest.file_statistics import statistics
from covey_ingest.messages import MESSAGES

FILE_BYTES = 128 * 1024 * 1024
"""A file is closed when it has become so large: what merging makes at most."""

_ROWS_PER_GROUP = 131_072

PLACED = pa.schema(
    [
        ("files", pa.string()),  # JSON: of each table the key, size, time and statistics of the file in it
        ("messages", pa.binary()),
        ("summary", pa.binary()),
    ]
)
PLACED_SQL = "files string, messages binary, summary binary"
"""The same for Spark."""

_MESSAGES = MESSAGES.append(pa.field("index", pa.int32()))


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file of a table in the store, as a Delta log names it."""

    key: str
    """Within the table: `batch=N/<name>.parquet`."""
    size: int
    came_ms: int
    statistics: str

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(json.loads(self.statistics)["numRecords"])


@dataclass(frozen=True, slots=True)
class Placed:
    """What a task has put: a file of readings, and what follows from it."""

    files: dict[str, PlacedFile]
    messages: pa.Table
    """One row for each message, by its first reading: `messages.MESSAGES` and `index`."""
    summary: pa.Table
    """Of devices: see `devices.summary`."""

    def to_batch(self) -> pa.RecordBatch:
        """Return a row of `PLACED`."""
        said = {table: asdict(file) for table, file in sorted(self.files.items())}
        columns = [[json.dumps(said)], [_packed(self.messages)], [_packed(self.summary)]]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, PLACED, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=PLACED)

    @classmethod
    def from_rows(cls, rows: pa.Table) -> list[Placed]:
        """Return what rows of `PLACED` say."""
        found = []
        for row in rows.to_pylist():
            files = {name: PlacedFile(**said) for name, said in json.loads(row["files"]).items()}
            found.append(cls(files, _unpacked(row["messages"]), _unpacked(row["summary"])))
        return found


def placer(url: str, number: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what puts a task's rows of micro-batch `number` below a URL, and yields rows of `PLACED`."""
    return partial(_rows, url, number)


def fetcher(url: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what reads back files of `readings` below a URL: for Spark, which itself knows no such store.

    It takes batches with their keys in the first column.
    """
    return partial(_fetched, url)


def _fetched(url: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    store = open_cloud_store(url, READER_PATIENCE)
    with TemporaryDirectory(prefix="covey-placing-") as folder:
        for batch in batches:
            for key in batch.column(0).to_pylist():
                file = Path(folder) / "fetched.parquet"
                store.download(f"readings/{key}", file)
                with pq.ParquetFile(file) as rows:
                    yield from rows.iter_batches()


def _rows(url: str, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    store = open_cloud_store(url, READER_PATIENCE)
    for placed in place(store, number, batches):
        yield placed.to_batch()


def place(store: CloudStore, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[Placed]:
    """Put readings of micro-batch `number`, and yield what was put, file by file.

    Raises:
        StorageError: the store refused, or was not reached.
    """
    rest = (batch for batch in batches if batch.num_rows)
    with TemporaryDirectory(prefix="covey-placing-") as folder:
        while (first := next(rest, None)) is not None:
            name = f"{uuid4().hex}.parquet"
            file = _written(Path(folder) / name, first, rest)
            messages, summary = described(file)
            files = {"readings": put_file(store, number, "readings", file)}
            minutes = Path(folder) / f"minutes-{name}"
            if rollups.write_minutes([file], minutes):
                (made,) = minutes.iterdir()
                files[rollups.TABLE] = put_file(store, number, rollups.TABLE, made.rename(minutes / name))
            yield Placed(files, messages, summary)
            file.unlink()


def put_file(store: CloudStore, number: int, table: str, file: Path) -> PlacedFile:
    """Put a file of a micro-batch under its own name.

    Raises:
        StorageError: the store refused, or was not reached.
    """
    key = f"batch={number}/{file.name}"
    store.upload(f"{table}/{key}", file)
    return PlacedFile(key, file.stat().st_size, time.time_ns() // 1_000_000, statistics(file))


def described(file: Path) -> tuple[pa.Table, pa.Table]:
    """Return the messages in a file of readings, and the summary of its devices."""
    found = ds.dataset(str(file), _MESSAGES, format="parquet")
    return found.to_table(filter=ds.field("index") == 0), devices.summary([file])


def _written(path: Path, first: pa.RecordBatch, more: Iterator[pa.RecordBatch]) -> Path:
    """Write one file, as large as it may be, or all that there is."""
    with (
        path.open("wb") as file,
        pq.ParquetWriter(file, first.schema, compression="zstd", store_schema=False) as writer,
    ):
        waiting, rows = [first], first.num_rows
        while file.tell() < FILE_BYTES and (batch := next(more, None)) is not None:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting, rows = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return path


def _packed(table: pa.Table) -> bytes:
    """Return a table as Arrow's stream, packed."""
    content = pa.BufferOutputStream()
    with pa.ipc.new_stream(content, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return bytes(content.getvalue())


def _unpacked(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as stream:
        return stream.read_all()
