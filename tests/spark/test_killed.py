"""SIGKILL of engines in the middle of micro-batches, local and Spark by turns: each reading is in the tables once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.examples import parameters
from tests.outside.audit import audit
from tests.outside.holdings import Holdings
from tests.outside.vault import Vault
from tests.spark.fleet import Author, Collector
from tests.spark.processes import below, kill
from tests.tables.ingesting import ingest, rows_of
from tests.waiting import Patience

pytestmark = [pytest.mark.slow, pytest.mark.processes]

SEGMENTS = 24
ROOT = Path(__file__).parents[2]


def _start(collector: Collector, tables: Path, engine: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "covey_ingest", "run", str(collector.vault), str(tables), "--available-now"]
    command += ["--key-file", str(collector.key_file), "--max-segments-per-trigger", "1", "--engine", engine]
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(tables.parent / "spark")}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


def _kill_when(process: subprocess.Popen[bytes], condition: Callable[[], bool], *, worker: bool = False) -> None:
    """Kill an engine, or one worker of it, as soon as the condition holds."""
    patience = Patience(120)
    while not condition():
        assert process.poll() is None, "the engine ended before it could be killed"
        assert patience.left, "the engine has not come so far in time"
        time.sleep(0.01)
    if worker:
        assert kill([pid for pid in below(process.pid) if pid != process.pid][-1:])
        return
    process.send_signal(signal.SIGKILL)
    process.wait()


def _batches(tables: Path) -> int:
    return len(list((tables / "readings").glob("batch=*")))


def _check(collector: Collector, fleet: list[Author], tables: Path) -> None:
    expected = Counter(dict.fromkeys((each.author for each in fleet), SEGMENTS * 25))
    holdings = Holdings()
    holdings.take(Vault(str(collector.vault), collector.key_file))
    found = audit(holdings, [tables])
    assert (found.findings, found.readings) == ([], expected)
    assert len(rows_of(tables, "readings")) == expected.total()


def _landed(folder: Path) -> tuple[Collector, list[Author]]:
    collector = Collector(folder / "vault")
    fleet = [Author(collector, seed) for seed in range(4)]
    for _ in range(SEGMENTS):
        collector.land(*(device.measure(25) for device in fleet))
    return collector, fleet


def test_each_reading_once_after_the_local_engine_and_its_workers_were_killed(tmp_path: Path) -> None:
    collector, fleet = _landed(tmp_path)
    tables = tmp_path / "tables"
    for kills in range(4):
        seen = _batches(tables)
        process = _start(collector, tables, "local")
        # A new folder says that a task is at its file; the commit follows.
        _kill_when(process, lambda seen=seen: _batches(tables) > seen, worker=kills == 3)
        if kills == 3:
            assert process.wait(120) == 0, "an engine whose worker was killed goes on with another one"
    _check(collector, fleet, tables)


@pytest.mark.spark
@pytest.mark.parametrize("engines", parameters(["local spark", "spark local spark"], quick=0, plain=1))
def test_each_reading_once_though_engines_that_take_turns_are_killed(tmp_path: Path, engines: str) -> None:
    collector, fleet = _landed(tmp_path)
    tables = tmp_path / "tables"
    for engine in engines.split():
        seen = _batches(tables)
        _kill_when(_start(collector, tables, engine), lambda seen=seen: _batches(tables) > seen + 1)
    assert _batches(tables) < SEGMENTS, "nothing was left to do: the kills came too late to prove anything"
    ingest(collector.vault, tables)
    _check(collector, fleet, tables)
