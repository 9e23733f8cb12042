"""What a task does: turn message rows into files of the tables, and describe these. Plain Arrow, independent of the
engine.

    readings/batch=N/<name>.parquet   the readings, in files of at most `FILE_BYTES` or so
    rollups/batch=N/<name>.parquet    their sums by minute: see `rollups`

1. A name is never reused, and says the content's digest (`file_names`). No log names files of a killed task, or of a
   repeated one: no reader sees such an orphan, and `Tables` deletes it a day later.
2. The committer gets a `Written` for each file: its place, its Delta log entry, its messages (one row each) and a
   summary of its devices; and the few rows that are no readings. No reading passes through the committer.
3. The same bytes of a vault give the same rows. So any failed task is run again.
4. It needs the memory of a row group, and a file on the task's disk.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from covey_ingest.committer.deletions import Deletions
from covey_ingest.committer.file_names import check_content, named
from covey_ingest.committer.table_locations import TableStore, open_location
from covey_ingest.tables import clocks, devices, rollups
from covey_ingest.tables.messages import MESSAGES, messages_in
from covey_ingest.task.exploding import readings_of, stored
from covey_ingest.task.file_statistics import statistics
from covey_ingest.task.others import other_rows
from covey_ingest.task.parquet_files import parquet_writer
from covey_ingest.task.schema import RowKind

FILE_BYTES = 128 * 1024 * 1024
"""A file is closed when it has become so large: what merging makes at most."""

_ROWS_PER_GROUP = 131_072
_BYTES_JOINED = 1024 * 1024
"""Of message rows: some 50,000 readings."""
_UNVERIFIED = ("signature", "decryption")

NOTES = MESSAGES.append(pa.field("rows", pa.int32()))
"""A row for each message of a file, in the file's order, and how many readings it has there: they follow each other."""


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file of a table, as a Delta log names it."""

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
class Written:
    """What a task has written: at most one file of readings, what follows from it, and rows that are no readings."""

    files: dict[str, PlacedFile] = field(default_factory=dict)
    notes: pa.Table = field(default_factory=NOTES.empty_table)
    summary: pa.Table | None = None
    """Of devices: see `devices.SUMMARY`."""
    others: dict[str, pa.Table] = field(default_factory=dict)
    """By table: see `others`."""
    counts: Counter[str] = field(default_factory=Counter)
    """Of message rows: by kind, and `unverified`."""
    newest_us: int | None = None
    """The newest arrival at a collector."""

    def to_bytes(self) -> bytes:
        """Return what `from_bytes` reads: a line of JSON, and Arrow streams of the lengths that it names."""
        tables = {"notes": self.notes, **({} if self.summary is None else {"summary": self.summary})}
        packed = {name: _packed(table) for name, table in (tables | self.others).items()}
        head = {
            "files": {name: asdict(file) for name, file in self.files.items()},
            "counts": self.counts,
            "newest_us": self.newest_us,
            "tables": {name: len(content) for name, content in packed.items()},
        }
        return b"".join([json.dumps(head).encode(), b"\n", *packed.values()])

    @classmethod
    def from_bytes(cls, content: bytes) -> Written:
        """Return what `to_bytes` has written."""
        line, _, rest = content.partition(b"\n")
        head: dict[str, Any] = json.loads(line)
        tables, at = {}, 0
        for name, length in head["tables"].items():
            tables[name] = _unpacked(rest[at : at + length])
            at += length
        files = {name: PlacedFile(**said) for name, said in head["files"].items()}
        notes, summary = tables.pop("notes"), tables.pop("summary", None)
        return cls(files, notes, summary, tables, Counter(head["counts"]), head["newest_us"])


@dataclass(frozen=True, slots=True)
class Target:
    """The micro-batch and tables to write, and what must stay out of them."""

    location: str
    number: int
    deletions: Deletions


def write(target: Target, messages: Iterable[pa.RecordBatch]) -> Iterator[Written]:
    """Write what message rows say into the tables, and yield what was written, file by file.

    Raises:
        StorageError: the tables' store refused, or was not reached.
    """
    store = open_location(target.location).store
    sorter = _Sorter(target.deletions)
    yield from _place(store, target.number, sorter.readings(messages), sorter.taken_notes)
    if sorter.counts:
        others = {name: pa.concat_tables(parts) for name, parts in sorter.others.items()}
        yield Written(others=others, counts=sorter.counts, newest_us=sorter.newest_us)


class _Sorter:
    """Divides message rows into readings, what else there is, and what is known of both."""

    def __init__(self, deletions: Deletions) -> None:
        self._deletions = deletions
        self._notes: list[pa.Table] = []
        self.others: dict[str, list[pa.Table]] = {}
        self.counts: Counter[str] = Counter()
        self.newest_us: int | None = None

    def readings(self, messages: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the readings, and note the rest."""
        for given in _joined(messages):
            batch = self._deletions.admitted(given)
            self._count(batch)
            for name, rows in other_rows(batch).items():
                self.others.setdefault(name, []).append(rows)
            lengths = pc.list_value_length(batch["times"])
            is_measured = pc.and_(pc.equal(batch["kind"], RowKind.TELEMETRY.value), pc.greater(lengths, 0))
            measured = batch if pc.all(is_measured).as_py() else batch.filter(is_measured)
            if len(measured):
                counts = pc.list_value_length(measured["times"])
                columns = [measured[name] for name in MESSAGES.names]
                self._notes.append(pa.table([*columns, counts], schema=NOTES))
                yield readings_of(measured)

    def taken_notes(self) -> pa.Table:
        """Return the notes since the last call."""
        notes, self._notes = self._notes, []
        return pa.concat_tables(notes).combine_chunks()

    def _count(self, batch: pa.RecordBatch) -> None:
        for found in pc.value_counts(batch["kind"]).to_pylist():
            self.counts[found["values"]] += found["counts"]
        unverified = pc.sum(pc.is_in(batch["reason"], pa.array(_UNVERIFIED))).as_py()
        if unverified:
            self.counts["unverified"] += unverified
        newest = pc.max(batch["received_at"].cast(pa.int64())).as_py()
        self.newest_us = max(filter(None, (newest, self.newest_us)), default=None)


def _joined(messages: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches, as small segments give them: what is done with each takes milliseconds whatever its size."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in messages:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _BYTES_JOINED:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


@dataclass(frozen=True, slots=True)
class Rework:
    """A file of readings that is to be written again: without some messages, or with better times.

    Rare with one collector. Where two land everything, it is half of all messages.
    """

    target: Target
    key: str
    notes: pa.Table
    kept: tuple[bool, ...]
    """Of each message in the notes: whether it stays."""
    known: pa.Table
    """Clocks that are known by now: see `clocks.known_for`."""


def rework(job: Rework) -> list[Written]:
    """Write the file again, and return what was written; the first file is an orphan then.

    Raises:
        StorageError: the tables' store refused, or was not reached.
    """
    store = open_location(job.target.location).store
    with store.reading(f"readings/{job.key}") as file:
        check_content(file, job.key)
        return list(_place(store, job.target.number, _reworked(file, job), None))


def _reworked(file: Path, job: Rework) -> Iterator[pa.RecordBatch]:
    kept = np.repeat(np.array(job.kept, np.bool_), job.notes["rows"].to_numpy())
    at = 0
    with pq.ParquetFile(file) as source:
        for batch in source.iter_batches(_ROWS_PER_GROUP):
            left = pa.Table.from_batches([batch.filter(pa.array(kept[at : at + len(batch)]))])
            at += len(batch)
            if len(left):
                yield from stored(clocks.rebased(left, job.known) if len(job.known) else left)


def _place(store: TableStore, number: int, batches: Iterable[pa.RecordBatch], notes: Any) -> Iterator[Written]:
    """Write files of readings, and yield the results; `notes` returns a file's notes, or is None."""
    rest = iter(batches)
    with store.scratch() as folder:
        while (first := next(rest, None)) is not None:
            minutes, summary = rollups.Minutes(), devices.DeviceSums()
            file = named(_file(folder / f"{uuid4().hex}.parquet", first, rest, (minutes.add, summary.add)))
            files = {"readings": put_file(store, number, "readings", file)}
            sums = minutes.table()
            if len(sums):
                made = folder / f"{uuid4().hex}.parquet"
                pq.write_table(sums, made, compression="zstd", store_schema=False)
                files[rollups.TABLE] = put_file(store, number, rollups.TABLE, named(made))
            yield Written(files, notes() if notes else notes_of(file), summary.table())
            file.unlink()


def put_file(store: TableStore, number: int, table: str, file: Path) -> PlacedFile:
    """Put a file of a micro-batch under its own name.

    Raises:
        StorageError: the store refused, or was not reached.
    """
    key = f"batch={number}/{file.name}"
    came_ms = store.upload(f"{table}/{key}", file)
    return PlacedFile(key, file.stat().st_size, came_ms, statistics(file, table))


def summary_of(file: Path) -> pa.Table:
    """Return the summary of a file of readings that is there already: see `devices.SUMMARY`."""
    summary = devices.DeviceSums()
    with pq.ParquetFile(file) as source:
        for batch in source.iter_batches(_ROWS_PER_GROUP, columns=devices.SUMMED):
            for rows in stored(pa.Table.from_batches([batch]), devices.SUMMED):
                summary.add(rows)
    return summary.table()


def notes_of(file: Path) -> pa.Table:
    """Return the messages in a file of readings, without knowing which rows are theirs."""
    found = messages_in([file])
    return found.append_column("rows", pa.nulls(len(found), pa.int32()))


def _file(
    path: Path, first: pa.RecordBatch, more: Iterator[pa.RecordBatch], seen: Iterable[Callable[[pa.RecordBatch], None]]
) -> Path:
    """Write batches until the file is large enough; call `seen` with each that is in it."""
    with path.open("wb") as file, parquet_writer(file, first.schema) as writer:
        waiting: list[pa.RecordBatch] = []
        rows, batch = 0, first
        while batch is not None:
            for see in seen:
                see(batch)
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_batches(waiting).unify_dictionaries())
                waiting, rows = [], 0
            batch = next(more, None) if file.tell() < FILE_BYTES else None
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting).unify_dictionaries())
    return path


def _packed(table: pa.Table) -> bytes:
    content = pa.BufferOutputStream()
    with pa.ipc.new_stream(content, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return bytes(content.getvalue())


def _unpacked(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as stream:
        return stream.read_all()
