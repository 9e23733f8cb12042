"""The ingest into an object store: micro-batches from offset to offset, without a checkpoint or a folder in common.

A streaming query of Spark's keeps a checkpoint in a file system that driver and executors share. Here the log of the
tables is the checkpoint (`store_log`): each micro-batch is a query over what lies between two offsets of the source,
which the driver plans as a stream's would be, and commits itself. So a run may be killed at any moment and started
again on any machine: see `store_tables` for why each reading is there once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from covey.errors import CoveyError
from covey_ingest import repairs
from covey_ingest.offsets import Offset
from covey_ingest.progress import Progress, ProgressReporter, Watcher, segments_behind
from covey_ingest.query_errors import PAUSES_S, LateWorkerError, stopped
from covey_ingest.session import spark_session
from covey_ingest.source import FORMAT, SourceOptions, VaultStreamReader
from covey_ingest.store_tables import StoreTables
from covey_ingest.store_writer import Prepared, prepare, schemas
from covey_ingest.unserved import Stages, unserved

_JOBS = "covey-ingest"
_LOOK_SECONDS = 0.5


def run_into_store(
    source: SourceOptions,
    url: str,
    *,
    trigger_seconds: float | None = 2.0,
    watcher: Watcher = Watcher(),  # noqa: B008 - it holds nothing
    stop: threading.Event | None = None,
    spark: SparkSession | None = None,
) -> None:
    """Follow a vault until `stop` is set, with this pause; without one, until all that it lists now is in the tables.

    `url` names a prefix in an object store, such as `s3://bucket/tables`.

    Raises:
        ConfigurationError: keys, vault, tables or Java are not as they should be; or another ingest has begun there.
        CoveyError: what the source or the tables met; start again, nothing is lost.
    """
    stop = stop or threading.Event()
    with TemporaryDirectory(prefix="covey-ingest-") as folder:
        root = Path(folder)
        options = source.settled(root / "covey-manifests", repairs.path_in(root))
        vault_ids = options.open_all().ids
        session = spark or spark_session("covey ingest")
        with (
            StoreTables(url, root, vault_ids, schemas(session)) as tables,
            _watched(stop, session) as stages,
        ):
            options = replace(options, home=tables.home)
            reporter = ProgressReporter(watcher)
            _Follower(tables, session, options, reporter, stop, stages).follow(trigger_seconds)


class _Follower:
    """Makes one micro-batch after the other."""

    def __init__(
        self,
        tables: StoreTables,
        session: SparkSession,
        options: SourceOptions,
        reporter: ProgressReporter,
        stop: threading.Event,
        stages: Stages,
    ) -> None:
        self._tables = tables
        self._session = session
        self._options = options
        self._planner = VaultStreamReader(options)
        self._reporter = reporter
        self._stop = stop
        self._stages = stages

    def follow(self, trigger_seconds: float | None) -> None:
        """Follow until asked to stop; without a pause, to what the vault lists now."""
        if trigger_seconds is None:
            self._planner.prepareForTriggerAvailableNow()
        while not self._stop.is_set():
            began = time.monotonic()
            end = self._planner.latestOffset(self._tables.offset, self._planner.getDefaultReadLimit())
            if end != self._tables.offset:
                self._make(end, began)
            elif trigger_seconds is None:
                return
            self._tables.keep_in_time()
            if trigger_seconds is not None:
                self._stop.wait(max(began + trigger_seconds - time.monotonic(), 0.0))

    def _make(self, end: Offset, began: float) -> None:
        prepared = self._prepared(end)
        if prepared is None:
            return
        number = self._tables.commit(prepared.placed, prepared.others, end)
        seconds = round(time.monotonic() - began, 3)
        self._reporter.written(Progress(seconds=seconds, **asdict(prepared.written)))
        there = self._planner.reportLatestOffset()
        self._reporter.lags(number, segments_behind(json.dumps(end), json.dumps(there)))

    def _prepared(self, end: Offset) -> Prepared | None:
        """Have Spark do its part; where Python comes too late for it, some times. None if asked to stop meanwhile."""
        for pause_s in (*PAUSES_S, None):
            try:
                return self._prepared_once(end)
            except LateWorkerError:
                if pause_s is None:
                    raise
                self._stop.wait(pause_s)
            if self._stop.is_set():
                return None
        return None

    def _prepared_once(self, end: Offset) -> Prepared | None:
        between = replace(self._options, offsets=(self._tables.offset, end))
        try:
            messages = self._session.read.format(FORMAT).options(**between.to_options()).load()
            return prepare(self._tables, messages)
        except CoveyError:
            raise
        except Exception as error:  # Spark's have no common class
            if self._stop.is_set():
                return None
            raise (unserved() if self._stages.waited_too_long else stopped(error)) from error


@contextmanager
def _watched(stop: threading.Event, session: SparkSession) -> Iterator[Stages]:
    """Cancel what Spark does for the block once somebody asks to stop, or where its stages have waited too long.

    Nobody waits for what is not committed.
    """
    context, ended = session.sparkContext, threading.Event()
    stages = Stages(context)

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            with suppress(Exception):  # without a JVM there is nobody to ask: the query ends by that itself
                stages.look()
                if stop.is_set() or stages.waited_too_long:
                    context.cancelJobsWithTag(_JOBS)

    context.addJobTag(_JOBS)
    watcher = threading.Thread(target=watch, name="covey-stop", daemon=True)
    watcher.start()
    try:
        yield stages
    finally:
        ended.set()
        watcher.join()
        context.removeJobTag(_JOBS)
