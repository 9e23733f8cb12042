"""The whole ingest, from a vault to all tables, beside Spark that copies the same readings from Parquet to Parquet.

Both take turns in one session that `bench.ingest` has warmed up. A run of the ingest begins with new tables and a new
checkpoint, so it contains what a stream costs to start; a vault of one message tells how much that is.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from bench.cost import Cost, cost
from covey_ingest import job
from covey_ingest.source import SourceOptions

TARGET = 0.6


def measure(spark: SparkSession, root: Path, vaults: Mapping[int, Path], tiny: Path, rounds: int) -> None:
    """Run and print, for vaults by readings of a message; the first round does not count."""
    costs: dict[str, list[Cost]] = {}
    for number in range(1 + rounds):
        for size, vault in ((0, tiny), *vaults.items()):
            taken = {f"job {size}": _job(spark, root, vault)}
            if size:
                taken[f"copy {size}"] = _copy(spark, root)
            for name, each in taken.items() if number else ():
                costs.setdefault(name, []).append(each)
    _print(costs, list(vaults))


def _job(spark: SparkSession, root: Path, vault: Path) -> Cost:
    """Run the ingest from a vault into new tables."""
    tables, checkpoint = root / "tables", root / "checkpoint"
    for folder in (tables, checkpoint):
        shutil.rmtree(folder, ignore_errors=True)
    source, into = SourceOptions(str(vault), vault / "vault.key"), job.TableFolder(tables, checkpoint)
    return cost(lambda: job.run(source, into, trigger_seconds=None, spark=spark))


def _copy(spark: SparkSession, root: Path) -> Cost:
    """Let Spark read the table that the last run made, and write it."""
    readings = spark.read.parquet(str(root / "tables" / "readings")).drop("batch")
    writer = readings.coalesce(2).write.mode("overwrite").option("compression", "zstd")
    return cost(lambda: writer.parquet(str(root / "copy")))


def _print(costs: dict[str, list[Cost]], sizes: list[int]) -> None:
    middle = {
        name: Cost(statistics.median(run.clock for run in runs), statistics.median(run.cpu for run in runs))
        for name, runs in costs.items()
    }
    start = middle["job 0"]
    print(f"whole job, one message: {start.clock:.2f} s, CPU {start.cpu:.2f} s: what a stream costs to start")
    for size in sizes:
        ours, theirs = middle[f"job {size}"], middle[f"copy {size}"]
        print(
            f"whole job, {size:5,} per message: {ours.clock:6.2f} s, CPU {ours.cpu:6.2f} s; Parquet to Parquet"
            f" {theirs.clock:6.2f} s, CPU {theirs.cpu:6.2f} s: x {theirs.clock / ours.clock:.2f}, by CPU"
            f" {theirs.cpu / ours.cpu:.2f}, without the start {theirs.cpu / max(0.01, ours.cpu - start.cpu):.2f}"
            f"   aim {TARGET}",
            flush=True,
        )
