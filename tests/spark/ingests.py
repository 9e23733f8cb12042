"""The ingests that the harness has follow its vault: as processes on this machine, or as a cluster's driver.

What ends by itself is started again, as systemd would: `look` does that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from demo.quick_spark import quick_spark
from tests.spark.cluster import DRIVER, MASTER, PROGRAM, ROOT, Cluster
from tests.spark.processes import Process, below, executors, kill, python_workers
from tests.spark.strikes import Dice, Strike

TABLES_BUCKET = "bucket"
_PACE = ("--trigger-seconds", "0.5", "--max-segments-per-trigger", "16")
_EXECUTORS_BELOW_DRIVER = "local-cluster["
_COMMITTED = "batch "
_SPARK = "org.apache.spark"
_WORKERS = 2


class Where(StrEnum):
    """Which engine fills tables, and where they are.

    On this machine: the local engine or Spark in a folder, or either of them in an object store. Or a cluster that has
    no folder in common, in an object store.
    """

    LOCAL = "local"
    SPARK = "spark"
    LOCAL_STORE = "local-store"
    STORE = "store"
    CLUSTER = "cluster"


class Ingest(Protocol):
    """One that follows the vault, whatever becomes of its processes."""

    name: str
    tables: str
    starts: int
    """How often a driver was started."""

    def set_up(self) -> None:
        """Start what it needs, when there is a key file."""
        ...

    def strikes(self) -> Mapping[str, Strike]:
        """Return how it can fail, by names for people."""
        ...

    def look(self) -> None:
        """Start again what has ended."""
        ...

    def close(self) -> None:
        """End it for good."""
        ...


class IngestHere:
    """A process on this machine, with a master of Spark's within it: `local[*]` unless `master` says otherwise."""

    def __init__(self, folder: Path, vault: str, key_file: Path, where: Where, master: str | None, dice: Dice) -> None:
        self.name = f"tables-{where}"
        in_store = where in (Where.STORE, Where.LOCAL_STORE)
        engine = "local" if where in (Where.LOCAL, Where.LOCAL_STORE) else "spark"
        master = master if engine == "spark" else None
        self._is_local = engine == "local"
        self.tables = f"s3://{TABLES_BUCKET}/{self.name}" if in_store else str(folder / self.name)
        self.starts = 0
        self._dice = dice
        self._log = folder / f"ingest-{where}.log"
        self._has_executors = master is not None and master.startswith(_EXECUTORS_BELOW_DRIVER)
        program = [sys.executable, "-m", "covey_ingest"]
        if master is not None:
            program = [str(Path(sys.executable).parent / "spark-submit"), "--master", master, PROGRAM]
        self._command = [*program, "run", "--engine", engine, vault, self.tables, "--key-file", str(key_file), *_PACE]
        self._environment = os.environ | quick_spark()
        self._environment |= {
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
            "SPARK_WORKER_DIR": str(folder / "work"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def set_up(self) -> None:
        """Do nothing: a driver brings what it needs."""

    def strikes(self) -> Mapping[str, Strike]:
        """Return how it can fail, by names for people."""
        found: dict[str, Strike] = {"driver": lambda: kill([*self._running()][:1])}
        if self._is_local:
            return found | {"worker": lambda: _kill_one([*self._running()][1:], self._dice)}
        found |= {
            "driver and JVM": lambda: kill(self._running()),
            "Python worker": lambda: _kill_one(python_workers(self._running()), self._dice),
        }
        if self._has_executors:
            found["executor"] = lambda: _kill_one(executors(self._running()), self._dice)
        return found

    def look(self) -> None:
        """Start it where it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, cwd=ROOT, env=self._environment, stdout=log, stderr=log)

    def close(self) -> None:
        """End it for good."""
        kill(self._running())
        if self._process is not None:
            self._process.wait()

    def _running(self) -> dict[int, Process]:
        """Return the driver, if it has not ended, and what it has started."""
        return below(self._process.pid) if self._process is not None and self._process.poll() is None else {}


class IngestInCluster:
    """A driver that is submitted to a cluster of two workers, from a file system of its own."""

    def __init__(self, folder: Path, vault: str, key_file: Path, dice: Dice) -> None:
        self.name = f"tables-{Where.CLUSTER}"
        self.tables = f"s3://{TABLES_BUCKET}/{self.name}"
        self.starts = 0
        self._dice = dice
        self._words = ["run", "--engine", "spark", vault, self.tables, *_PACE]
        self._workers = [f"worker-{number}" for number in range(_WORKERS)]
        self._cluster = Cluster(folder, key_file, quick_spark())

    def set_up(self) -> None:
        """Boot the cluster."""
        self._cluster.boot(self._workers)

    def strikes(self) -> Mapping[str, Strike]:
        """Return how it can fail, by names for people."""
        running, workers = self._cluster.running, self._workers
        return {
            "driver": lambda: kill(self._ingest_itself() if self._commits() else ()),
            "driver's JVM": lambda: kill([*running(DRIVER)][:1] if self._commits() else ()),
            "driver and JVM": lambda: kill(running(DRIVER) if self._commits() else ()),
            "Python worker": lambda: _kill_one(python_workers(self._run_by_workers()), self._dice),
            "executor": lambda: _kill_one(executors(self._run_by_workers()), self._dice),
            "Spark worker": lambda: kill(running(self._dice.one_of(workers))),
            "master": lambda: kill(running(MASTER)),
        }

    def look(self) -> None:
        """Start again what has ended: the driver, the master, workers."""
        self._cluster.look()
        if not self._cluster.running(DRIVER):
            self.starts += 1
            self._cluster.submit(*self._words)

    def close(self) -> None:
        """End it for good."""
        self._cluster.stop()

    def _commits(self) -> bool:
        """Say whether the driver has committed a micro-batch: each that is killed before is killed as it starts.

        What else is killed does that to it often enough.
        """
        return any(line.startswith(_COMMITTED) for line in self._cluster.said(DRIVER).splitlines())

    def _ingest_itself(self) -> list[int]:
        """Return the Python process of the driver, below the JVM that was submitted; there may be none."""
        found = self._cluster.running(DRIVER).values()
        return [each.pid for each in found if PROGRAM in each.command and _SPARK not in each.command]

    def _run_by_workers(self) -> dict[int, Process]:
        return {pid: each for name in self._workers for pid, each in self._cluster.running(name).items()}


def _kill_one(found: Iterable[int], dice: Dice) -> int:
    """Kill one of these processes, with what it has started; there may be none right now."""
    pids = sorted(found)
    return kill(below(dice.one_of(pids))) if pids else 0
