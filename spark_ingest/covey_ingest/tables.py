"""The tables, as plain Parquet that every reader sees alike, each reading once.

    readings/batch=N/     one folder for each micro-batch
    losses/batch=N/       ranges of messages that their author says will never come
    orders/batch=N/       what operators order, and in commands/ and settings/ what became of it: see `orders`
    memberships/batch=N/  what signed manifests list, and members/members.parquet what devices were called when, made of
                          it: see `memberships` and `members`
    quarantine/batch=N/   what failed, where, why
    rollups/batch=N/      counts, bounds, sums and last values by minute: see `rollups`
    devices/devices.parquet   one row for each device, replaced whole
    clocks/clocks.parquet     what each boot's clock was worth, replaced whole: see `clocks`
    gaps/gaps.parquet         numbers of telemetry that are missing, and why, replaced whole: see `gaps`
    .ordered/ordered.sqlite   which rows are in `orders`, `commands` and `settings`, and of whom: see `seen_orders`
    .numbers/                 which messages are in `readings`, replaced whole: see `gaps`, and `dedup`
    .failed/failed.parquet    segments that could not be read yet, replaced whole: see `repairs`

How a kill at any moment leaves each reading once:
    1. A micro-batch is written into a staging folder of its own, synced, and renamed to `batch=N`. The rename is its
       commit: there is no moment at which a reader, Spark or other, sees half of it.
    2. The range of segments behind N stands in the checkpoint before N is worked on. So a folder that is there is
       complete and right, and a replay of N leaves it alone.
    3. Quarantine, losses and rollups are renamed before readings, devices follow after: readings/batch=N says that N's
       others are there too. Without it they are of a killed run and are written anew, as the vault may be another one.
    4. What is no reading is read from the vault a second time. Both times must bring the same, segment for segment, or
       nothing is committed: else a segment could fail unreported in between.
    5. `devices`, `.numbers` and `.ordered` carry the number of the last batch in them, and are computed from committed
       rows only.
    6. A message that is there already, or twice in a micro-batch, is taken out of the staged files before the rename.
    7. What is committed stays as it is, and where it is: who lists a Parquet table, or follows its folder as a stream,
       takes each file once. Only where somebody says that no stream follows it does `merging` make large files of small
       ones; and where the tables are published elsewhere.
    8. One writer: a lock on the tables. Tables belong to one checkpoint and to their vaults (`binding`). The JVM of a
       killed driver lives on for some seconds, but all it can do without us is to write into a staging folder.

Spark's own Parquet sink lets other readers see the files of failed attempts. With `Sink.DELTA` each table has a
transaction log that follows these files: `delta_log`; here, or in an object store: `publisher`.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's documentation has it

from covey.adapters.files import remove_leftovers, synchronise
from covey.core.ids import VaultId
from covey.errors import ConfigurationError, StorageError
from covey_ingest import clocks, dedup, devices, gaps, members, merging, repairs, rollups, seen_orders
from covey_ingest.binding import bind
from covey_ingest.committed import batch_folder, folder_numbers
from covey_ingest.dedup import Repeats
from covey_ingest.delta_log import DeltaLog, is_delta
from covey_ingest.messages import messages_in
from covey_ingest.micro_batch import (
    DIGEST,
    OTHERS,
    BatchWritten,
    admitted,
    by_table,
    changed_meanwhile,
    counted_rows,
    once,
    others,
    readings,
    rebased,
)
from covey_ingest.publisher import PublishTarget, TablePublisher, is_published, open_log
from covey_ingest.session import spark_path
from covey_ingest.table_files import table_files
from covey_ingest.table_lock import locked

__all__ = ["BatchWritten", "Sink", "Tables", "readings"]


class Sink(StrEnum):
    """What the tables are."""

    PARQUET = "parquet"
    """Files in folders, which only ever become more: for whoever follows the folder, and for a while."""
    DELTA = "delta"
    """The same with a transaction log: for many readers, with merged files, and for years."""


class Tables:
    """The tables' directory, held by one writer. Use as a context manager."""

    def __init__(
        self,
        root: Path,
        sink: Sink = Sink.PARQUET,
        publishing: PublishTarget | None = None,
        *,
        merge_files: bool = False,
    ) -> None:
        self.root = root
        self._sink = sink
        self._merges = merge_files or publishing is not None
        self._publishing = publishing
        self._log: DeltaLog | TablePublisher | None = None
        self._lock: IO[str] | None = None
        self._home = ""

    def __enter__(self) -> Self:
        """Take the lock and clear what a killed run left: the staging folder, and temporary files beside the others.

        Raises:
            ConfigurationError: another ingest writes here, or the directory cannot be made.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._lock = locked(self.root)
            for folder in (self.root, *(child for child in self.root.iterdir() if child.is_dir())):
                remove_leftovers(folder)
        except OSError as error:
            raise ConfigurationError(
                f"the tables at {self.root} cannot be written: {error.strerror}",
                hint="give a directory that this user may write to",
            ) from error
        shutil.rmtree(self._staging, ignore_errors=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Bring the logs up to date, unless something went wrong, and release the lock."""
        try:
            if self._log is not None:
                self._log.close(whole=error is None)
        finally:
            if self._lock is not None:
                self._lock.close()

    @property
    def _staging(self) -> Path:
        return self.root / ".staging"

    def folder(self, table: str, batch_id: int) -> Path:
        """Return where a micro-batch's part of a table lies once it is committed."""
        return batch_folder(self.root, table, batch_id)

    def belong_to(self, checkpoint: Path, vault_ids: Sequence[VaultId]) -> str:
        """Bind tables, checkpoint and vaults together, at first use for good (rule 8); return the id of the first.

        Raises:
            ConfigurationError: they were bound otherwise (`binding`). Or they are Delta tables and are not to be.
        """
        if self._sink is Sink.PARQUET and (is_delta(self.root / "readings") or is_published(self.root)):
            raise ConfigurationError(f"the tables at {self.root} are Delta tables", hint="start with --sink delta")
        binding = bind(self.root, checkpoint, vault_ids)
        shutil.rmtree(self.root / ".heard", ignore_errors=True)  # of an earlier version
        self._roll_up_what_stands()
        members.update(self.root)
        if self._sink is Sink.DELTA:
            self._log = open_log(self.root, binding.ingest, binding.home, self._publishing)
            self._log.publish()  # so that the log has all that is committed (rule 3 of `dedup`)
        self._home = binding.home
        return binding.home

    def write(self, messages: DataFrame, batch_id: int) -> BatchWritten:
        """Write one micro-batch to all tables; do nothing where that has happened before (`foreachBatch`).

        Raises:
            StorageError: the disk refused.
        """
        try:
            written, came = BatchWritten(batch_id), None
            if not self.folder("readings", batch_id).exists():
                written, came = self._write_new(messages, batch_id)
            gaps.update(self.root, batch_id, came)
            clocks.update(self.root, batch_id, came)
            readings = self.folder("readings", batch_id)
            devices.update(self.root, batch_id, lambda: devices.summaries_in(readings))
            seen_orders.update(self.root, batch_id)
            members.update(self.root, batch_id)
            repairs.update(self.root, batch_id, self._home)
            if self._log is not None:
                self._log.publish(batch_id)
            if self._merges and batch_id % merging.FOLDERS_PER_MERGE == 0:
                merging.merge(self.root, self._staging, self._log.mergeable_upto if self._log else None)
        except OSError as error:
            raise StorageError(f"the tables at {self.root} refused batch {batch_id}: {error}") from error
        return written

    def _write_new(self, messages: DataFrame, batch_id: int) -> tuple[BatchWritten, pa.Table | None]:
        """Write one; return its messages as well, where what was committed is what they were read of."""
        for table in (*OTHERS, rollups.TABLE):
            shutil.rmtree(self.folder(table, batch_id), ignore_errors=True)  # rule 3
        messages = admitted(messages, self.root)
        counted, counts = counted_rows(messages)
        staged = first = self._stage(readings(counted), "readings", batch_id)
        seen = counts.get
        written = BatchWritten(batch_id, **{name: count for name, count in seen.items() if name != DIGEST})
        came = messages_in(staged)
        found = dedup.find(self.root, came, batch_id - 1)
        if found.copies:
            staged, left = self._without(found, messages.sparkSession.read.parquet(spark_path(staged)), batch_id)
            written = replace(written, messages=written.messages - found.copies, readings=left, repeats=found.copies)
        staged = self._rebased(staged, came, messages.sparkSession, batch_id)
        written = replace(written, bytes=sum(file.stat().st_size for file in staged.glob("*.parquet")))
        if written.has_others:
            more = self._write_others(messages, seen, batch_id)
            written = replace(written, quarantined=written.quarantined + more)
        self._roll_up(sorted(staged.glob("*.parquet")), batch_id)
        self._commit(staged, "readings", batch_id)
        shutil.rmtree(self._staging, ignore_errors=True)
        return written, came if staged == first else None

    def _roll_up(self, readings: list[Path], batch_id: int) -> None:
        minutes = self._staging / f"{rollups.TABLE}-{uuid.uuid4().hex}"
        if readings and rollups.write_minutes(readings, minutes):
            self._commit(minutes, rollups.TABLE, batch_id)

    def _roll_up_what_stands(self) -> None:
        """Make rollups of all readings where an earlier version has made none (rule 4 of `rollups`)."""
        stands = [] if (self.root / rollups.TABLE).is_dir() else table_files(self.root, "readings")
        if stands:
            self._roll_up(stands, max(folder_numbers(self.root / "readings")))

    def _rebased(self, staged: Path, came: pa.Table, spark: SparkSession, batch_id: int) -> Path:
        """Stage once more with better times where a boot's clock is known by now; that is rare."""
        known = clocks.known_for(self.root, came, batch_id - 1)
        if not len(known):
            return staged
        return self._stage(rebased(spark.read.parquet(spark_path(staged)), known), "readings", batch_id)

    def _without(self, found: Repeats, staged: DataFrame, batch_id: int) -> tuple[Path, int]:
        """Stage once more what no other message says."""
        counts = Observation(f"once-{batch_id}")
        left = once(staged, found).observe(counts, F.count("*").alias("readings"))
        path = self._stage(left, "readings", batch_id)
        return path, int(counts.get["readings"])

    def _write_others(self, messages: DataFrame, seen: dict[str, Any], batch_id: int) -> int:
        """Read the micro-batch once more for what is no reading. That is rare, and spares a cache of all the rest.

        Return how many rows of quarantine there are beside those of the vault.
        """
        counted, counts = counted_rows(messages)
        path = self._stage(others(counted), "others", batch_id)
        if counts.get != seen:
            raise changed_meanwhile()
        staged = messages.sparkSession.read.parquet(spark_path(path))
        found, more = by_table(staged, self.root if seen["orders"] else None, batch_id - 1)
        for table, rows in found.items():
            if not rows.isEmpty():
                self._commit(self._stage(rows, table, batch_id), table, batch_id)
        return more

    def _stage(self, rows: DataFrame, table: str, batch_id: int) -> Path:
        """Write rows beside the tables: one file for each core, not one for each task."""
        staged = self._staging / f"{table}-{batch_id}-{uuid.uuid4().hex}"
        files = rows.sparkSession.sparkContext.defaultParallelism
        rows.coalesce(files).write.option("compression", "zstd").parquet(spark_path(staged))
        return staged

    def _commit(self, staged: Path, table: str, batch_id: int) -> None:
        target = self.folder(table, batch_id)
        for file in staged.iterdir():
            synchronise(file)
        synchronise(staged)
        target.parent.mkdir(exist_ok=True)
        staged.rename(target)
        synchronise(target.parent)
