"""A device of the tests: agents start without an interpreter's start, and commands run in the process of the test."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from demo.device import COVEY, Device, Process
from tests import warm_covey
from tests.command import covey
from tests.waiting import GUARD_S
from tests.warm_covey import WarmCovey


class Gateway(Device):
    """A device that is set up."""

    def __init__(self, folder: Path, name: str, broker: Broker | None = None) -> None:
        super().__init__(folder, name)
        self.set_up(broker)
        self._beside: list[Process] = []

    def start_beside(self, *words: str) -> Process:
        """Start a command beside the agent, which ends with it."""
        with self.log.open("ab") as log:
            self._beside.append(self._launch(self._words(words), log, os.environ))
        return self._beside[-1]

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End what runs beside the agent, and the agent; return its exit code."""
        while self._beside:
            process = self._beside.pop()
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait(GUARD_S)
        return super().end(how)

    def _run(self, words: Sequence[str], feed: bytes) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, for an eighth of the cost; only the main thread has the standard streams."""
        if threading.current_thread() is not threading.main_thread():
            return warm_covey.run(words, feed)
        ended = covey(*words, feed=feed)
        return subprocess.CompletedProcess([*COVEY, *words], ended.code, ended.stdout, ended.stderr)

    def _launch(self, words: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> Process:
        if self.program is not COVEY:
            return super()._launch(words, log, environment)
        with Path(os.devnull).open("rb") as nothing:
            return WarmCovey(words, (nothing, log, log), environment, Path.cwd())

    def fails(self, *words: str, code: int, feed: str | bytes = "") -> str:
        """Run one command that must fail with this exit code and one `error:` line; return its stderr."""
        done = self.covey(*words, feed=feed)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        assert done.stderr.count("error: ") == 1, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def invite(self, joiner: Gateway, *words: str) -> None:
        """Let another gateway join this one's group; this one's agent must be running."""
        joiner.ok("join", "-", feed=self.ok("invite", "--no-wait", *words))

    @property
    def relay_password(self) -> str:
        """What lets it into its relay."""
        folder = StateFolder.at(self.state)
        return folder.relay_password(folder.configuration.config(), folder.identity())

    def counters(self) -> dict[str, int]:
        """Return this device's counters."""
        counters: dict[str, int] = self.json("status")["counters"]
        return counters

    def queued(self) -> int:
        """Return how many messages wait in the outbox."""
        messages: int = self.json("status")["outbox"]["messages"]
        return messages
