"""The Spark engine: Structured Streaming drives, executors run the same tasks as the workers of `local_engine`.

1. `format("covey")` reads and verifies; what it yields is written where it was read, by `tasks.write_rows`. The driver
   gets a row for each file, and commits (`tables`). No reading passes the driver.
2. The log of the tables is the checkpoint. Spark's own checkpoint is a folder of the driver's for one query: a query
   begins at the offset in the log, with a new folder, and `foreachBatch` finds there up to where its micro-batch
   reaches. So Spark needs no file system that driver and executors share, and its numbers of batches mean nothing.
3. A query that ends because Python came too late for it, as on a busy machine, is begun again: some times.
4. Spark waits for executors without end, also where none can come: a standalone master that has forgotten an
   application, as one without a disk has when it starts again, ends its executors and tells the driver nothing. So a
   query whose stages wait while none of their tasks runs is ended, and begun again.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from covey.errors import CoveyError, StorageError, TransientError
from covey.limits.tables import UNSERVED_S_MAX
from covey_ingest.committer.tables import Tables, opened_tables
from covey_ingest.options import SourceOptions
from covey_ingest.progress import Progress, ProgressReporter, Watcher, segments_behind
from covey_ingest.spark.session import spark_path, spark_session
from covey_ingest.spark.source import FORMAT
from covey_ingest.task.tasks import RESULT_SQL, rework_part, write_rows
from covey_ingest.task.writing import Rework, Written
from covey_ingest.vault import repairs
from covey_ingest.vault.offsets import Offset

if TYPE_CHECKING:
    from pyspark import SparkContext


class Stages:
    """Those of a session: `look` often, and then `waited_too_long` says whether they did, once."""

    def __init__(self, context: SparkContext) -> None:
        self.waited_too_long = False
        self._tracker = context.statusTracker()
        self._served_at = time.monotonic()

    def look(self) -> None:
        """Note whether a task runs where there are stages."""
        now = time.monotonic()
        stages = [self._tracker.getStageInfo(number) for number in self._tracker.getActiveStageIds()]
        if not stages or any(stage is not None and stage.numActiveTasks for stage in stages):
            self._served_at = now
        elif now - self._served_at > UNSERVED_S_MAX:
            self.waited_too_long = True


def unserved() -> TransientError:
    """Return the error for a query whose stages are not served."""
    return TransientError(
        f"no executor took a task of this query for {UNSERVED_S_MAX / 60:.0f} minutes",
        hint="check that the cluster has free workers; then restart the query: it continues where it stopped",
    )


PAUSES_S = (1.0, 5.0, 20.0, 60.0)
"""Before each further try where Python came too late."""

_LATE_WORKER = "Python worker failed to connect back"
"""What Spark says of a Python process that takes longer to start than 10 s; no setting of Spark's gives it more."""


class LateWorkerError(TransientError):
    """Python was not there in time, as on a busy machine."""


def stopped(cause: Exception) -> TransientError:
    """Return the error for a query that ended by `cause`."""
    kind = LateWorkerError if _LATE_WORKER in str(cause) else TransientError
    return kind(f"the query stopped: {_first_cause(cause)}", hint="restart it: it continues where it stopped")


def _first_cause(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line for line in lines if line.startswith("covey.errors.")]
    return ours[-1].partition(": ")[2] if ours else next(filter(None, lines), "no reason given")


_POLL_SECONDS = 0.5


def run_on_spark(
    source: SourceOptions,
    location: str,
    *,
    trigger_seconds: float | None = 2.0,
    watcher: Watcher = Watcher(),  # noqa: B008 - it holds nothing
    stop: threading.Event | None = None,
    spark: SparkSession | None = None,
) -> None:
    """Follow the vaults until `stop` is set, with this pause; without one, until all they list now is in the tables.

    Raises:
        ConfigurationError: keys, vaults, tables or Java are not as they should be, or another engine writes the tables.
        CoveyError: what the vaults or the tables met; start again, nothing is lost.
    """
    vaults = source.open_all()
    vaults.check_keys()
    with opened_tables(location, vaults.ids) as held:
        options = source.settled(held.root / "covey-manifests", repairs.path_in(held.root))
        session = spark or spark_session("covey tables")
        reporter = ProgressReporter(watcher)
        query = _Query(held, replace(options, home=held.home), session, reporter)
        session.streams.addListener(query.listener)
        try:
            query.follow(trigger_seconds, stop or threading.Event())
        finally:
            reporter.finish()
            session.streams.removeListener(query.listener)


class _Query:
    """Has Spark make one micro-batch after the other, and commits them."""

    def __init__(self, held: Tables, options: SourceOptions, session: SparkSession, reporter: ProgressReporter) -> None:
        self._tables = held
        self._options = options
        self._session = session
        self._reporter = reporter
        self._checkpoint = Path()
        self._error: Exception | None = None
        self._numbers: dict[int, int] = {}
        """Of our micro-batches, by Spark's."""
        self._committing = threading.Lock()
        self.listener = _Listener(reporter, self._numbers)

    def follow(self, trigger_seconds: float | None, stop: threading.Event) -> None:
        """Follow until asked to stop; without a pause, to what the vaults list now."""
        self._reporter.damaged(self._tables.restored())
        for pause_s in PAUSES_S:
            with suppress(LateWorkerError):
                return self._wait(self._begun(trigger_seconds), stop)
            if stop.wait(pause_s):
                return None
        return self._wait(self._begun(trigger_seconds), stop)

    def _begun(self, trigger_seconds: float | None) -> StreamingQuery:
        """Start a query at the tables' offset (rule 2)."""
        options = replace(self._options, offsets=(self._tables.offset, None))
        self._checkpoint = self._tables.root / f"query-{time.monotonic_ns()}"
        stream = self._session.readStream.format(FORMAT).options(**options.to_options()).load()
        start = (
            stream.writeStream.queryName("covey-tables")
            .option("checkpointLocation", spark_path(self._checkpoint))
            .foreachBatch(self._commit)
        )
        if trigger_seconds is None:
            return start.trigger(availableNow=True).start()
        return start.trigger(processingTime=f"{trigger_seconds} seconds").start()

    def _wait(self, query: StreamingQuery, stop: threading.Event) -> None:
        stages = Stages(self._session.sparkContext)
        try:
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type] # seconds, typed as int
                if stop.is_set():
                    return
                self._keep_in_time()
                stages.look()
                if stages.waited_too_long:
                    raise unserved()
        except StreamingQueryException as error:
            if isinstance(self._error, CoveyError):
                raise self._error from error
            cause = self._error or error
            raise stopped(cause) from cause
        finally:
            query.stop()

    def _commit(self, messages: DataFrame, batch_id: int) -> None:
        """Have executors write a micro-batch, and commit it; called by `foreachBatch`."""
        began = time.monotonic()
        try:
            end = self._end_of(batch_id)
            self._reporter.reached(end)
            if end == self._tables.offset:  # a new query begins with a batch, whether there is anything or not
                return
            written = self._written(messages)
            with self._committing:
                brought = self._tables.commit(written, end, self._reworked)
                self._reporter.written(Progress(seconds=round(time.monotonic() - began, 3), **asdict(brought)))
                self._numbers[batch_id] = brought.batch_id
        except Exception as error:
            self._error = error  # Spark would show its text alone
            raise

    def _keep_in_time(self) -> None:
        """Look after the tables, also while Spark has nothing to commit."""
        if self._committing.acquire(blocking=False):
            try:
                self._reporter.damaged(self._tables.keep_in_time())
            finally:
                self._committing.release()

    def _written(self, messages: DataFrame) -> list[Written]:
        cores = self._session.sparkContext.defaultParallelism
        rows = messages.coalesce(cores).mapInArrow(partial(write_rows, self._tables.target), RESULT_SQL)
        return [Written.from_bytes(content) for content in rows.toArrow()["written"].to_pylist()]

    def _reworked(self, jobs: list[Rework]) -> list[Written]:
        divided = self._session.sparkContext.parallelize([[job] for job in jobs], len(jobs))
        return [Written.from_bytes(content) for content in divided.flatMap(_packed_rework).collect()]

    def _end_of(self, batch_id: int) -> Offset:
        try:
            noted = (self._checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
            return dict(json.loads(noted[-1]))
        except (OSError, ValueError, IndexError) as error:
            raise StorageError(f"Spark's checkpoint of this run, {self._checkpoint}, cannot be read") from error


class _Listener(StreamingQueryListener):
    """Hears from Spark how far a micro-batch came, and how far the vaults reached."""

    def __init__(self, reporter: ProgressReporter, numbers: dict[int, int]) -> None:
        self._reporter = reporter
        self._numbers = numbers

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - the API's names
        """Nothing to do."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Tell of the micro-batch."""
        number = self._numbers.pop(event.progress.batchId, None)
        if number is None:
            return
        for source in event.progress.sources:
            self._reporter.lags(number, segments_behind(source.endOffset, source.latestOffset))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to do."""


def _packed_rework(jobs: list[Rework]) -> list[bytes]:
    return [written.to_bytes() for written in rework_part(jobs)]
