"""The ingest, run in a test's session over all that a vault holds now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from covey_ingest.job import run
from covey_ingest.progress import Progress


def ingest(
    spark: SparkSession,
    vault: Path,
    tables: Path,
    checkpoint: Path | None = None,
    key_file: Path | None = None,
    **options: Any,
) -> list[Progress]:
    """Take in what is there and return what was told of each micro-batch.

    Checkpoint and key file lie below tables and vault unless they are named; further options are those of `job.run`.
    """
    reported: list[Progress] = []
    run(
        str(vault),
        key_file or vault / "vault.key",
        tables,
        checkpoint or tables / ".checkpoint",
        available_now=True,
        on_progress=reported.append,
        spark=spark,
        **options,
    )
    return reported
