"""A program of a system, and its supervisor: one that ends by itself starts again a second later, as systemd does."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_RESTART_S = 1.0
_ENDS_S = 30.0


class Program:
    """One command, started, killed and supervised."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.environment = dict(environment or {})
        self.deaths = 0
        self._command, self._log = list(command), log
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it, and keep it running."""
        with self._lock:
            self._wanted = True
            if self._process is None:
                self._launch()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it where it is, as a power cut does: it must not answer after its disk is gone."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                return
            self._process.send_signal(signal.SIGSTOP)
            tasks = Path(f"/proc/{self._process.pid}/task")
            while any(_state(task) not in "TZX" for task in tasks.iterdir()):
                time.sleep(0.001)

    def stop(self) -> None:
        """End it by SIGTERM."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        with self._lock:
            self._wanted = False
            if self._process is None:
                return
            self._process.send_signal(how)
            try:
                self._process.wait(_ENDS_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _launch(self) -> None:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._process = process
        threading.Thread(target=self._supervise, args=(process,), daemon=True).start()

    def _supervise(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:
            time.sleep(0.1)
        time.sleep(_RESTART_S)
        with self._lock:
            if self._wanted and self._process is process:
                self.deaths += 1
                self._launch()


def _state(task: Path) -> str:
    """Return the letter of a thread's state; X for one that has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"
