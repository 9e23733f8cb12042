"""A device as a person runs it: the `covey` command in processes of its own, on a state folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from broker_conf.mosquitto import Broker
from tests import warm_covey
from tests.waiting import GUARD_S
from tests.warm_covey import WarmCovey


class Gateway:
    """One state folder and the processes that work on it."""

    program: Sequence[str] | None = None
    """What starts an agent where it is not the `covey` command as it is."""

    def __init__(self, folder: Path, name: str, broker: Broker | None = None) -> None:
        self.state = folder / name
        self.name = name
        self._agent: subprocess.Popen[bytes] | WarmCovey | None = None
        self.log = folder / f"{name}.log"
        shown = self.json("init", "--label", name)
        self.author: str = shown["signing_public"]
        self.noise_public: str = shown["noise_public"]
        if broker is not None:
            password = broker.add_device(self.author)
            self.ok("relay", "--url", broker.url, "--password-file", "-", feed=password)

    def covey(self, *words: str, feed: str | bytes = "") -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return warm_covey.run([words[0], "--state", str(self.state), *words[1:]], feed)

    def ok(self, *words: str, feed: str | bytes = "") -> str:
        """Run one command that must succeed; return what it printed."""
        done = self.covey(*words, feed=feed)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def json(self, *words: str, feed: str | bytes = "") -> Any:
        """Run one command with --json; return the document."""
        return json.loads(self.ok(*words, "--json", feed=feed))

    def fails(self, *words: str, code: int, feed: str | bytes = "") -> str:
        """Run one command that must fail with this exit code and one `error:` line; return its stderr."""
        done = self.covey(*words, feed=feed)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        assert done.stderr.count("error: ") == 1, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def start(self, *words: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the agent, with more in its environment."""
        assert self._agent is None
        words, environment = (words[0], "--state", str(self.state), *words[1:]), {**os.environ, **(environment or {})}
        with self.log.open("ab") as log:
            if self.program is None:
                with Path(os.devnull).open("rb") as nothing:
                    self._agent = WarmCovey(words, (nothing, log, log), environment, Path.cwd())
            else:
                self._agent = subprocess.Popen([*self.program, *words], stdout=log, stderr=log, env=environment)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the agent; return its exit code."""
        if self._agent is None:
            return 0
        self._agent.send_signal(how)
        code = self._agent.wait(timeout=GUARD_S)
        self._agent = None
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send the agent a signal."""
        assert self._agent is not None
        self._agent.send_signal(number)

    def kill(self) -> None:
        """End the agent like a power cut."""
        self.end(signal.SIGKILL)

    def invite(self, joiner: Gateway, *words: str) -> None:
        """Let another gateway join this one's group; this one's agent must be running."""
        joiner.ok("join", "-", feed=self.ok("invite", "--no-wait", *words))

    def counters(self) -> dict[str, int]:
        """Return this device's counters."""
        counters: dict[str, int] = self.json("status")["counters"]
        return counters

    def queued(self) -> int:
        """Return how many messages wait in the outbox."""
        messages: int = self.json("status")["outbox"]["messages"]
        return messages
