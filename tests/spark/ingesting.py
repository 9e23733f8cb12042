"""The ingest, run in a test's session over all that a vault holds now; and its tables, audited from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from covey_ingest.job import TableFolder, run
from covey_ingest.progress import Lag, Progress, Published, Watcher
from covey_ingest.source import SourceOptions
from covey_ingest.tables import Sink
from tests.outside.audit import audit
from tests.outside.holdings import Holdings, Kind
from tests.outside.vault import Vault
from tests.spark.fleet import Collector


class Recorder(Watcher):
    """All that an ingest tells."""

    def __init__(self) -> None:
        self.batches: list[Progress] = []
        self.lagging: list[Lag] = []
        self.publishing: list[Published] = []

    def written(self, progress: Progress) -> None:
        """Note a micro-batch."""
        self.batches.append(progress)

    def lags(self, lag: Lag) -> None:
        """Note how much was still to come."""
        self.lagging.append(lag)

    def published(self, published: Published) -> None:
        """Note how far published tables are."""
        self.publishing.append(published)


def ingest(
    spark: SparkSession,
    vault: Path,
    tables: Path,
    checkpoint: Path | None = None,
    key_file: Path | None = None,
    *,
    recorder: Recorder | None = None,
    sink: Sink = Sink.PARQUET,
    merge_files: bool = False,
    publish: str | None = None,
    **options: Any,
) -> list[Progress]:
    """Take in what is there and return what was told of each micro-batch, all of which `recorder` has, too.

    Checkpoint and key file lie below tables and vault unless they are named; further options are the source's.
    """
    recorder = recorder or Recorder()
    source = SourceOptions(str(vault), key_file or vault / "vault.key", **options)
    folder = TableFolder(tables, checkpoint or tables / ".checkpoint", sink, merge_files, publish)
    run(source, folder, trigger_seconds=None, watcher=recorder, spark=spark)
    return recorder.batches


def audited(tables: Path, collector: Collector, *expected: Kind) -> dict[str, int]:
    """Return how many readings of each author the tables hold: each once, and all that the vault holds.

    Of findings those of an expected kind alone are let pass.
    """
    holdings = Holdings(None)
    holdings.take(Vault(str(collector.vault), collector.key_file))
    found = audit(holdings, [tables])
    assert {each.kind for each in found.findings} <= {*expected}, found.findings
    return dict(found.rows[str(tables)])
