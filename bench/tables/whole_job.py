"""Both engines, from a vault to all tables, beside Spark that copies the same readings from Parquet to Parquet.

All take turns; Spark's in one session that `ingest` has warmed up. A run begins with new tables, so it
contains what a run costs to start; a vault of one message tells how much that is. The CPU counted is of all processes.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench.cost import Cost, cost
from covey_ingest.local_engine import run_here
from covey_ingest.options import SourceOptions
from covey_ingest.spark.spark_engine import run_on_spark

TARGETS = {1_000: 3.5, 100: 2.0}
"""How many times as fast as Spark's copy the local engine is to be, by readings of a message."""

_Engine = Callable[[SourceOptions, str], None]


def measure(spark: SparkSession, root: Path, vaults: Mapping[int, Path], tiny: Path, rounds: int, warm_up: int) -> None:
    """Run and print, for vaults by readings of a message; so many first rounds do not count."""
    engines: dict[str, _Engine] = {
        "local": partial(run_here, trigger_seconds=None),
        "spark": partial(run_on_spark, trigger_seconds=None, spark=spark),
    }
    costs: dict[str, list[Cost]] = {}
    for number in range(warm_up + rounds):
        for size, vault in ((0, tiny), *vaults.items()):
            taken = {f"{name} {size}": _run(engine, root / name, vault) for name, engine in engines.items()}
            if size:
                taken[f"copy {size}"] = _copy(spark, root)
            for name, each in taken.items() if number >= warm_up else ():
                costs.setdefault(name, []).append(each)
    _print(costs, [*engines], [*vaults])


def _run(engine: _Engine, tables: Path, vault: Path) -> Cost:
    shutil.rmtree(tables, ignore_errors=True)
    source = SourceOptions(str(vault), vault / "vault.key")
    return cost(lambda: engine(source, str(tables)))


def _copy(spark: SparkSession, root: Path) -> Cost:
    """Let Spark read the table that the last run made, and write it."""
    files = DeltaTable(str(root / "local" / "readings")).file_uris()
    writer = spark.read.parquet(*files).coalesce(2).write.mode("overwrite").option("compression", "zstd")
    return cost(lambda: writer.parquet(str(root / "copy")))


def _print(costs: dict[str, list[Cost]], engines: list[str], sizes: list[int]) -> None:
    middle = {
        name: Cost(statistics.median(run.clock for run in runs), statistics.median(run.cpu for run in runs))
        for name, runs in costs.items()
    }
    for engine in engines:
        start = middle[f"{engine} 0"]
        print(f"{engine:5} one message: {start.clock:.2f} s, CPU {start.cpu:.2f} s")
    for size in sizes:
        theirs = middle[f"copy {size}"]
        for engine in engines:
            ours = middle[f"{engine} {size}"]
            aim = f"   aim {TARGETS[size]}" if engine == "local" and size in TARGETS else ""
            print(
                f"{engine:5} {size:5,} per message: {ours.clock:6.2f} s, CPU {ours.cpu:6.2f} s; Parquet to Parquet"
                f" {theirs.clock:6.2f} s, CPU {theirs.cpu:6.2f} s: x {theirs.clock / ours.clock:.2f}, by CPU"
                f" {theirs.cpu / ours.cpu:.2f}{aim}",
                flush=True,
            )
