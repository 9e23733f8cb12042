"""SIGKILL of the driver in the middle of micro-batches: afterwards each reading is in the table once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from tests.outside.audit import audit
from tests.outside.holdings import Holdings
from tests.outside.vault import Vault
from tests.spark.fleet import Author, Collector
from tests.spark.ingesting import ingest
from tests.waiting import Patience

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEGMENTS = 40
ROOT = Path(__file__).parents[2]


def _kill_when(collector: Collector, tables: Path, condition: Callable[[], bool]) -> None:
    """Start the ingest as a program and kill it as soon as the condition holds."""
    command = [sys.executable, "-m", "covey_ingest", str(collector.vault), str(tables), "--available-now"]
    command += ["--key-file", str(collector.key_file), "--max-segments-per-trigger", "1"]
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(tables.parent / "spark")}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as driver:
        patience = Patience(120)
        while not condition():
            assert driver.poll() is None, "the ingest ended before it could be killed"
            assert patience.left, "the ingest has not come so far in time"
            time.sleep(0.001)
        driver.send_signal(signal.SIGKILL)


def _batches(tables: Path) -> int:
    return len(list((tables / "readings").glob("batch=*")))


def test_each_reading_once_after_the_driver_was_killed(spark: SparkSession, tmp_path: Path) -> None:
    collector, tables = Collector(tmp_path / "vault"), tmp_path / "tables"
    fleet = [Author(collector, seed) for seed in range(4)]
    for _ in range(SEGMENTS):
        collector.land(*(device.measure(25) for device in fleet))

    # In the middle of writing the second batch's files; right after a later batch became visible.
    _kill_when(collector, tables, lambda: _batches(tables) >= 1 and any((tables / ".staging").glob("*/*")))
    seen = _batches(tables)
    _kill_when(collector, tables, lambda: _batches(tables) > seen)
    assert _batches(tables) < SEGMENTS, "nothing was left to do: the kills came too late to prove anything"

    ingest(spark, collector.vault, tables)
    expected = SEGMENTS * 25
    holdings = Holdings()
    holdings.take(Vault(str(collector.vault), collector.key_file))
    found = audit(holdings, [tables])
    assert (found.findings, found.readings) == ([], Counter(dict.fromkeys((each.author for each in fleet), expected)))
    readings = tables / "readings"
    rows = ds.dataset(readings, partitioning="hive").count_rows(), spark.read.parquet(str(readings)).count()
    assert rows == (expected * len(fleet), expected * len(fleet)), "pyarrow and Spark see the same"
