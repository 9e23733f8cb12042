"""The ingest, run in a test's session over all that a vault holds now; and its tables, audited from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from covey_ingest.job import run
from covey_ingest.progress import Progress
from tests.outside.audit import audit
from tests.outside.holdings import Holdings, Kind
from tests.outside.vault import Vault
from tests.spark.fleet import Collector


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


def audited(tables: Path, collector: Collector, *expected: Kind) -> dict[str, int]:
    """Return how many readings of each author the tables hold: each once, and all that the vault holds.

    Of findings those of an expected kind alone are let pass.
    """
    holdings = Holdings(None)
    holdings.take(Vault(str(collector.vault), collector.key_file))
    found = audit(holdings, [tables])
    assert {each.kind for each in found.findings} <= {*expected}, found.findings
    return dict(found.rows[str(tables)])
