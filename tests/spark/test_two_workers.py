"""Spark's standalone mode with two workers, by the documented command, and a Python worker killed in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.proof import begins
from tests.spark.fleet import Author, Collector
from tests.spark.processes import below, executors, kill, python_workers
from tests.tables.ingesting import audited
from tests.waiting import Patience

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SEGMENTS, DEVICES, READINGS = 12, 4, 25


@pytest.mark.proof
def test_each_reading_once_on_two_workers_though_a_python_worker_is_killed(tmp_path: Path) -> None:
    """`test_store_cluster` does it with more, for each run: two workers that share no folder, and a store."""
    begins()
    collector, tables = Collector(tmp_path / "vault"), tmp_path / "tables"
    others = [Collector(collector.vault, seed, collector.key) for seed in (7, 8)]
    fleet = [Author(collector, seed) for seed in range(DEVICES)]
    for number in range(SEGMENTS):  # three nodes: a micro-batch has a task for each
        [collector, *others][number % 3].land(*(device.measure(READINGS) for device in fleet))

    programs = Path(sys.executable).parent
    command = [str(programs / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    command += [str(ROOT / "spark_ingest" / "covey_ingest" / "__main__.py"), "run", "--engine", "spark"]
    command += [
        str(collector.vault),
        str(tables),
        "--key-file",
        str(collector.key_file),
        "--available-now",
        "--max-segments-per-trigger",
        "3",
    ]
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_DIRS": str(tmp_path / "spark"),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    log = tmp_path / "driver.log"
    with log.open("wb") as output:
        driver = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)
    seen: set[str] = set()
    killed: list[int] = []
    try:
        patience = Patience(120)
        while driver.poll() is None:
            assert patience.left, log.read_text()
            found = below(driver.pid)
            seen.update(executors(found).values())
            if not killed and (tables / "readings" / "batch=0").exists():
                killed = [pid for pid in python_workers(found, of_executors=True)[:1] if kill([pid])]
            time.sleep(0.2)
    finally:
        kill([*below(driver.pid)])
        driver.wait()
    assert driver.returncode == 0, log.read_text()
    assert killed, "no Python worker was killed"
    assert len(seen) >= 2
    batches = len(list((tables / "readings").glob("batch=*")))
    assert batches == SEGMENTS // 3
    assert audited(tables, collector) == {device.author: SEGMENTS * READINGS for device in fleet}
