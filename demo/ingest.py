"""The engine of the demo as a process: from the vault into tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from covey.errors import TransientError

_END_SECONDS = 60


class Ingest:
    """The local engine, or Spark's."""

    def __init__(self, folder: Path, vault: str, key_file: Path, engine: str) -> None:
        self.tables = folder / "tables"
        self._log = folder / "tables.log"
        self._environment = dict(os.environ)
        if engine == "spark":
            from demo.quick_spark import quick_spark

            self._environment |= quick_spark()
        self._command = [sys.executable, "-m", "covey_ingest", "run", "--engine", engine, vault, str(self.tables)]
        self._command += ["--key-file", str(key_file)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def streams(self) -> bool:
        """Say whether Spark's query has begun."""
        return any(self.tables.glob(".writing-*/committer/query-*/metadata"))

    @property
    def alive(self) -> bool:
        """Say whether the engine runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def rows(self) -> int:
        """How many readings the log of their table names."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            return sum(DeltaTable(f"{self.tables}/readings").get_add_actions().column("num_records").to_pylist())
        except (DeltaError, OSError):
            return 0  # it is not there yet

    def start(self) -> None:
        """Follow the vault."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--trigger-seconds", "1"],
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the engine with all that it has started: they are one process group."""
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
            TransientError: the engine failed; its log says why.
        """
        with self._log.open("ab") as log:
            done = subprocess.run(
                [*self._command, "--available-now"], stdout=log, stderr=log, env=self._environment, check=False
            )
        if done.returncode:
            raise TransientError(f"the tables could not be filled; see {self._log}")
