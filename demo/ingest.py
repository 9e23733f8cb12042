"""The Spark job of the demo: the way of a reading from the vault into tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from covey.errors import TransientError
from demo.quick_spark import quick_spark

_END_SECONDS = 60


class Ingest:
    """The Spark job as a process."""

    def __init__(self, folder: Path, vault: str, key_file: Path) -> None:
        self.tables = folder / "tables"
        self._checkpoint = folder / "checkpoint"
        self._log = folder / "ingest.log"
        self._words = [
            vault,
            str(self.tables),
            *("--key-file", str(key_file)),
            *("--checkpoint", str(self._checkpoint)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def streams(self) -> bool:
        """Say whether the streaming query has begun at least once."""
        return (self._checkpoint / "metadata").exists()

    @property
    def alive(self) -> bool:
        """Say whether the driver runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the streaming job."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "covey_ingest", *self._words, "--trigger-seconds", "1"],
                stdout=log,
                stderr=log,
                env=os.environ | quick_spark(),
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the driver with its JVM and Python workers: they are one process group."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it gently."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, how)
            self._process.wait(timeout=_END_SECONDS)
            self._process = None

    def finish(self) -> None:
        """Take in all that is in the vault, and end.

        Raises:
            TransientError: the job failed; its log says why.
        """
        with self._log.open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-m", "covey_ingest", *self._words, "--available-now"],
                stdout=log,
                stderr=log,
                env=os.environ | quick_spark(),
                check=False,
            )
        if done.returncode:
            raise TransientError(f"the ingest failed; see {self._log}")
