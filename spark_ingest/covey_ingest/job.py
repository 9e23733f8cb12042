"""The ingest: a streaming query from a vault to tables (`python -m covey_ingest`, `covey ingest`).

Everything that can be wrong with options, keys and directories is checked before a JVM starts. `run` may be killed at
any moment and started again with the same checkpoint and tables: see `tables` for why each reading is there once.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

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
from pyspark.sql.streaming.readwriter import DataStreamWriter

from covey.errors import ConfigurationError, CoveyError
from covey_ingest import repairs
from covey_ingest.progress import Progress, ProgressReporter, Watcher, segments_behind
from covey_ingest.publisher import PublishTarget
from covey_ingest.query_errors import PAUSES_S, LateWorkerError, stopped
from covey_ingest.session import spark_path, spark_session
from covey_ingest.source import FORMAT, SourceOptions
from covey_ingest.tables import BatchWritten, Sink, Tables
from covey_ingest.unserved import Stages, unserved

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class TableFolder:
    """Where tables are, and what they are to be."""

    root: Path
    checkpoint: Path
    sink: Sink = Sink.PARQUET
    merge_files: bool = False
    """Let small files of plain Parquet tables become large ones: only where no stream reads them."""
    publish: str | None = None
    """An object store where Delta tables follow these."""


def run(
    source: SourceOptions,
    into: TableFolder,
    *,
    trigger_seconds: float | None = 2.0,
    watcher: Watcher = Watcher(),  # noqa: B008 - it holds nothing
    stop: threading.Event | None = None,
    spark: SparkSession | None = None,
) -> None:
    """Follow a vault until `stop` is set, with this pause; without one, until all that it lists now is in the tables.

    Raises:
        ConfigurationError: keys, vault, tables, checkpoint or Java are not as they should be; nothing was written.
        CoveyError: what the source or the tables met; start again, nothing is lost.
    """
    tables, checkpoint = into.root.absolute(), into.checkpoint.absolute()
    options = source.settled(checkpoint / "covey-manifests", repairs.path_in(tables))
    vault_ids = options.open_all().ids
    stop = stop or threading.Event()
    publishing = PublishTarget(into.publish, watcher.published, stop) if into.publish else None
    with Tables(tables, into.sink, publishing, merge_files=into.merge_files) as held:
        options = replace(options, home=held.belong_to(checkpoint, vault_ids))
        session = spark or spark_session("covey ingest")
        reporter = ProgressReporter(watcher)
        writer, listener = _Writer(held, reporter), _Listener(reporter)
        stream = session.readStream.format(FORMAT).options(**options.to_options()).load()
        start = (
            stream.writeStream.queryName("covey-ingest")
            .option("checkpointLocation", spark_path(checkpoint))
            .foreachBatch(writer)
        )
        trigger = (
            start.trigger(availableNow=True)
            if trigger_seconds is None
            else start.trigger(processingTime=f"{trigger_seconds} seconds")
        )
        session.streams.addListener(listener)
        try:
            _follow(trigger, writer, stop, session)
        finally:
            reporter.finish()
            session.streams.removeListener(listener)


class _Writer:
    """What `foreachBatch` calls; keeps the error that Spark would only show as text."""

    def __init__(self, tables: Tables, reporter: ProgressReporter) -> None:
        self._tables = tables
        self._reporter = reporter
        self.error: Exception | None = None

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        started = time.monotonic()
        try:
            written = self._tables.write(messages, batch_id)
        except Exception as error:
            self.error = error
            raise
        self._report(written, time.monotonic() - started)

    def _report(self, written: BatchWritten, seconds: float) -> None:
        self._reporter.written(Progress(seconds=round(seconds, 3), **asdict(written)))


class _Listener(StreamingQueryListener):
    """Hears from Spark how far the source had come after each micro-batch, and how far the vault reached."""

    def __init__(self, reporter: ProgressReporter) -> None:
        self._reporter = reporter

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - the API's names
        """Nothing to do."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Tell of the micro-batch."""
        for source in event.progress.sources:
            self._reporter.lags(event.progress.batchId, segments_behind(source.endOffset, source.latestOffset))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to do."""


def _follow(query: DataStreamWriter, writer: _Writer, stop: threading.Event, session: SparkSession) -> None:
    """Run a query to its end. Where Python comes too late for it, as on a busy machine, start it anew: some times."""
    for pause_s in PAUSES_S:
        with suppress(LateWorkerError):
            return _wait(query.start(), writer, stop, session)
        if stop.wait(pause_s):
            return None
    return _wait(query.start(), writer, stop, session)


def _wait(query: StreamingQuery, writer: _Writer, stop: threading.Event, session: SparkSession) -> None:
    stages = Stages(session.sparkContext)
    try:
        while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type] # documented as seconds, typed as int
            if stop.is_set():
                return
            stages.look()
            if stages.waited_too_long:
                raise unserved()
    except StreamingQueryException as error:
        if isinstance(writer.error, CoveyError):
            raise writer.error from error
        cause = writer.error or error
        if "INVALID_LOG_VERSION" in str(error):
            raise ConfigurationError(
                "a newer Spark has written the checkpoint",
                hint="start that one, or give new tables and a new checkpoint",
            ) from error
        raise stopped(cause) from cause
    finally:
        query.stop()
