"""Spark's standalone mode on one machine whose parts have no folder in common: each has a file system of its own.

A master, workers and drivers are processes below mount namespaces: what is the folder for temporary files here is an
empty one of its own in each, and in it lie work folders, shuffles, the driver's state and a copy of the key file.
Programs are installed, as they would be anywhere. What is started again finds its folder empty, as on a new machine;
but the master has a disk, for without what it notes there (`spark.deploy.recoveryMode`) a new one knows no application:
it would end their executors, and the driver would wait for others without end.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from covey.adapters.keys.vault_key_file import read_vault_keys
from tests.spark.processes import Process, below, kill
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PROGRAM = str(ROOT / "spark_ingest" / "covey_ingest" / "__main__.py")
MASTER, DRIVER = "master", "driver"
NEEDS_ROOT = "a cluster without a folder in common needs root"
_TEMPORARY = [
    folder
    for folder in dict.fromkeys(Path(name) for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"))
    if not any(Path(each).is_relative_to(folder) for each in (ROOT, sys.prefix))
]
"""Folders for temporary files, but for one in which the programs themselves lie."""
_OWN = _TEMPORARY[0]
_KEY_FILE, _DISK = _OWN / "vault.key", _OWN / "disk"
_ENTER = f"""
set -e
[ -z "$COVEY_TEST_DISK" ] || mount --bind "$COVEY_TEST_DISK" /mnt
for folder in {" ".join(map(str, _TEMPORARY))}; do mount -t tmpfs none "$folder"; done
[ -z "$COVEY_TEST_DISK" ] || {{ mkdir {_DISK} && mount --move /mnt {_DISK}; }}
(umask 077 && printf %s "$COVEY_TEST_KEY" > {_KEY_FILE})
cd {_OWN}
exec "$@"
"""
_SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_MASTER_OPTIONS = {
    "spark.deploy.recoveryMode": "FILESYSTEM",
    "spark.deploy.recoveryDirectory": str(_DISK),
    "spark.deploy.recoveryTimeout": "20s",  # after which who has not answered a new master is gone; a minute else
}


class Cluster:
    """Its processes, which know a store by `environment`; their outputs go to files in `logs`, outside of it."""

    def __init__(self, logs: Path, key_file: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._key_file = key_file
        self._disk = logs / "master-disk"
        programs = Path(sys.executable).parent
        self._environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            **environment,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(_OWN),
            "SPARK_LOCAL_DIRS": str(_OWN / "spark"),
            "SPARK_MASTER_OPTS": " ".join(f"-D{name}={value}" for name, value in _MASTER_OPTIONS.items()),
        }
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._said_before: dict[str, int] = {}
        """Bytes of each log from before the program was last started."""
        self._lasting: dict[str, list[str]] = {}
        """What never ends by itself, and how it is started."""
        self._master = ""

    def boot(self, workers: Sequence[str]) -> None:
        """Start the master, and workers of one core, each by its name."""
        self._disk.mkdir()
        master = [_SPARK_CLASS, "org.apache.spark.deploy.master.Master", *_listening()]
        self.start(MASTER, master)
        wait_until(self._has_master, "the master has a port", 120)
        self._lasting[MASTER] = [*master[:2], *_listening(self._master.rpartition(":")[2])]
        worker = [_SPARK_CLASS, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"]
        for name in workers:
            self._lasting[name] = [*worker, "--work-dir", str(_OWN / "work"), *_listening(), self._master]
            self.start(name, self._lasting[name])
        for name in workers:
            wait_until(lambda name=name: "Successfully registered" in self.log(name), f"{name} is registered", 120)

    def submit(self, *words: str) -> subprocess.Popen[bytes]:
        """Start an ingest as the driver of the cluster, which has a copy of the key file."""
        where = ["--master", self._master, "--conf", "spark.driver.host=127.0.0.1"]
        return self.start(DRIVER, ["spark-submit", *where, PROGRAM, *words, "--key-file", str(_KEY_FILE)])

    def start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a program in a file system of its own."""
        own = {
            "COVEY_TEST_KEY": read_vault_keys(self._key_file).to_text(),
            "COVEY_TEST_DISK": str(self._disk if name == MASTER else ""),
        }
        with (self._logs / f"{name}.log").open("ab") as output:
            self._said_before[name] = output.tell()
            inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh", *command]
            started = subprocess.Popen(inside, env=self._environment | own, stdout=output, stderr=output)
        self._started[name] = started
        return started

    def look(self) -> None:
        """Start the master and workers again where they have ended."""
        for name, command in self._lasting.items():
            if self._started[name].poll() is not None:
                self.start(name, command)

    def running(self, name: str) -> dict[int, Process]:
        """Return a program's process, and after it those that it has started; none where it has ended."""
        started = self._started.get(name)
        return below(started.pid) if started is not None and started.poll() is None else {}

    def log(self, name: str) -> str:
        """Return what a program has said, however often it was started."""
        return (self._logs / f"{name}.log").read_text(errors="replace")

    def said(self, name: str) -> str:
        """Return what a program has said since it was last started."""
        with (self._logs / f"{name}.log").open("rb") as log:
            log.seek(self._said_before[name])
            return log.read().decode(errors="replace")

    def stop(self) -> None:
        """Kill all of it."""
        for name, process in self._started.items():
            kill(self.running(name))
            process.wait()

    def _has_master(self) -> bool:
        found = re.search(r"spark://127\.0\.0\.1:\d+", self.log(MASTER))
        self._master = found[0] if found else ""
        return found is not None


def _listening(port: str = "0") -> list[str]:
    return ["--host", "127.0.0.1", "--port", port, "--webui-port", "0"]


def is_allowed() -> bool:
    """Say whether whoever runs this may give a process a file system of its own."""
    return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0


@contextmanager
def cluster(logs: Path, key_file: Path, environment: Mapping[str, str]) -> Iterator[Cluster]:
    """Give a test a cluster that ends with the block."""
    if not is_allowed():
        if os.environ.get("CI"):
            pytest.fail(NEEDS_ROOT)
        pytest.skip(NEEDS_ROOT)
    made = Cluster(logs, key_file, environment)
    try:
        yield made
    finally:
        made.stop()
