"""Spark's standalone mode on one machine whose parts have no folder in common: each has a file system of its own.

A master, workers and drivers are processes below mount namespaces: what is the folder for temporary files here is an
empty one of its own in each, and in it lie work folders, shuffles, the driver's state and a copy of the key file.
Programs are installed, as they would be anywhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.spark.processes import below, kill
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
_TEMPORARY = [
    folder
    for folder in dict.fromkeys(Path(name) for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"))
    if not any(Path(each).is_relative_to(folder) for each in (ROOT, sys.prefix))
]
"""Folders for temporary files, but for one in which the programs themselves lie."""
_OWN = _TEMPORARY[0]
KEY_FILE = _OWN / "vault.key"
_ENTER = f"""
set -e
for folder in {" ".join(map(str, _TEMPORARY))}; do mount -t tmpfs none "$folder"; done
(umask 077 && printf %s "$COVEY_TEST_KEY" > {KEY_FILE})
cd {_OWN}
exec "$@"
"""


class Cluster:
    """Its processes, which know a store by `environment`; their outputs go to files in `logs`, outside of it."""

    def __init__(self, logs: Path, key: str, environment: dict[str, str]) -> None:
        self._logs = logs
        programs = Path(sys.executable).parent
        self._environment = os.environ | environment | {
            "COVEY_TEST_KEY": key,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(_OWN),
            "SPARK_LOCAL_DIRS": str(_OWN / "spark"),
        }  # fmt: skip
        self._started: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a program in a file system of its own."""
        with (self._logs / f"{name}.log").open("ab") as output:
            inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh", *command]
            started = subprocess.Popen(inside, env=self._environment, stdout=output, stderr=output)
        self._started.append(started)
        return started

    def log(self, name: str) -> str:
        """Return what a program has said."""
        path = self._logs / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def boot(self, workers: int) -> list[subprocess.Popen[bytes]]:
        """Start the master, and workers of one core; return these."""
        spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self.start("master", [spark_class, "org.apache.spark.deploy.master.Master", *where])
        wait_until(self._has_master, "the master has a port", 120)
        worker = [spark_class, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"]
        names = [f"worker-{number}" for number in range(workers)]
        started = [self.start(name, [*worker, "--work-dir", str(_OWN / "work"), *where, self.master]) for name in names]
        for name in names:
            wait_until(lambda name=name: "Successfully registered" in self.log(name), f"{name} is registered", 120)
        return started

    def _has_master(self) -> bool:
        found = re.search(r"spark://127\.0\.0\.1:\d+", self.log("master"))
        self.master = found[0] if found else ""
        return found is not None

    def stop(self) -> None:
        """Kill all of it."""
        for process in self._started:
            kill([*below(process.pid)])
            process.wait()


@contextmanager
def cluster(logs: Path, key: str, environment: dict[str, str]) -> Iterator[Cluster]:
    """Give a cluster that ends with the block."""
    allowed = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0
    if not allowed:
        if os.environ.get("CI"):
            pytest.fail("a cluster without a folder in common needs root")
        pytest.skip("a cluster without a folder in common needs root")
    made = Cluster(logs, key, environment)
    try:
        yield made
    finally:
        made.stop()
