"""The ingest: a streaming query from a vault to tables (`python -m spark_ingest`, `covey ingest`).

Everything that can be wrong with options, keys and directories is checked before a JVM starts. `run` may be killed at
any moment and started again with the same checkpoint and tables: see `tables` for why each reading is there once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from agent.errors import CoveyError, TransientError
from spark_ingest.object_stores import absolute_location
from spark_ingest.rows import Verify
from spark_ingest.session import spark_path, spark_session
from spark_ingest.source import FORMAT, SEGMENTS_PER_TRIGGER, SourceOptions
from spark_ingest.tables import BatchWritten, Tables

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch, for the terminal and for logs."""

    batch_id: int
    seconds: float
    messages: int
    readings: int
    losses: int
    quarantined: int
    repeats: int


OnProgress = Callable[[Progress], None]


def run(
    vault: str,
    key_file: Path,
    tables: Path,
    checkpoint: Path,
    *,
    available_now: bool = False,
    trigger_seconds: float = 2.0,
    on_progress: OnProgress | None = None,
    verify: Verify = Verify.ALL,
    segments_per_trigger: int = SEGMENTS_PER_TRIGGER,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Follow a vault until `stop` is set, or, with `available_now`, until all that it lists now is in the tables.

    Raises:
        ConfigurationError: keys, vault, tables, checkpoint or Java are not as they should be; nothing was started.
        CoveyError: what the source or the tables met; start again, nothing is lost.
    """
    memory = checkpoint.absolute() / "covey-manifests"
    asked = SourceOptions(absolute_location(vault), key_file.absolute(), verify, segments_per_trigger, memory)
    options = SourceOptions.parse(asked.to_options())
    keys, _ = options.open()
    with Tables(tables.absolute()) as sink:
        sink.belong_to(checkpoint.absolute(), keys.vault_id)
        session = spark or spark_session("covey ingest")
        writer = _Writer(sink, on_progress)
        stream = session.readStream.format(FORMAT).options(**options.to_options()).load()
        start = (
            stream.writeStream.queryName("covey-ingest")
            .option("checkpointLocation", spark_path(checkpoint.absolute()))
            .foreachBatch(writer)
        )
        trigger = (
            start.trigger(availableNow=True)
            if available_now
            else start.trigger(processingTime=f"{trigger_seconds} seconds")
        )
        _wait(trigger.start(), writer, stop or threading.Event())


class _Writer:
    """What `foreachBatch` calls; keeps the error that Spark would only show as text."""

    def __init__(self, tables: Tables, on_progress: OnProgress | None) -> None:
        self._tables = tables
        self._on_progress = on_progress
        self.error: Exception | None = None

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        started = time.monotonic()
        try:
            written = self._tables.write(messages, batch_id)
        except Exception as error:
            self.error = error
            raise
        self._tell(written, time.monotonic() - started)

    def _tell(self, written: BatchWritten, seconds: float) -> None:
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    written.batch_id,
                    round(seconds, 3),
                    written.messages,
                    written.readings,
                    written.losses,
                    written.quarantined,
                    written.repeats,
                )
            )


def _wait(query: StreamingQuery, writer: _Writer, stop: threading.Event) -> None:
    try:
        while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type] # documented as seconds, typed as int
            if stop.is_set():
                return
    except StreamingQueryException as error:
        if isinstance(writer.error, CoveyError):
            raise writer.error from error
        cause = writer.error or error
        raise TransientError(
            f"the query stopped: {_first_cause(cause)}", hint="start it again: it goes on where it stopped"
        ) from cause
    finally:
        query.stop()


def _first_cause(error: Exception) -> str:
    """Return the line of a Python worker's traceback that names our own error, or Spark's first line."""
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line for line in lines if line.startswith("agent.errors.")]
    return ours[-1].partition(": ")[2] if ours else next(filter(None, lines), "no reason given")
