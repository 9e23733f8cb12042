"""A device as a person runs it: the `covey` command in processes of its own, on a state folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey.errors import TransientError

COVEY = (sys.executable, "-m", "covey.cli.main")
_HANGS_S = 600.0
"""Seconds after which a process hangs; on a busy machine every process is slow."""


class Process(Protocol):
    """A running agent; what `Popen` says of one."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    def poll(self) -> int | None:
        """Return the exit code if it has ended."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Send it a signal, if it runs."""
        ...


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a device's own commits say."""

    published: int
    queued_messages: int
    landed_messages: int
    landing_bytes: int


class Device:
    """One state folder, the commands that work on it, and its running agent; the agent's log is next to the folder."""

    program: ClassVar[Sequence[str]] = COVEY
    """What an agent is started with."""

    def __init__(self, folder: Path, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Name its places; what its environment has besides this process's holds for commands and agent."""
        self.name = name
        self.state = folder / name
        self.log = folder / f"{name}.log"
        self.author = ""
        self.noise_public = ""
        self.account = ""
        """Its user name at relays."""
        self.own_environment = dict(environment or {})
        self._agent: Process | None = None

    def set_up(self, broker: Broker | None = None, url: str = "") -> None:
        """Make the identity; with a broker, get a credential there, and reach it by this URL or by its own."""
        shown = self.json("init", "--label", self.name)
        self.author, self.noise_public = shown["signing_public"], shown["noise_public"]
        self.account = shown["broker_username"]
        if broker is not None:
            password = broker.add_device(self.account)
            self.ok("relay", "set", url or broker.url, "--password-file", "-", feed=password)

    def covey(self, *words: str, feed: str | bytes = "") -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return self._run(self._words(words), feed.encode() if isinstance(feed, str) else feed)

    def ok(self, *words: str, feed: str | bytes = "") -> str:
        """Run one command that must succeed; return what it printed.

        Raises:
            TransientError: it failed; the message is what it said.
        """
        done = self.covey(*words, feed=feed)
        if done.returncode:
            said = f"{done.stdout.strip()} {done.stderr.strip()}".strip()
            raise TransientError(f"covey {words[0]} of {self.name} ended with {done.returncode}: {said}")
        return done.stdout

    def json(self, *words: str, feed: str | bytes = "") -> Any:
        """Run one command with --json that must succeed; return the document."""
        return json.loads(self.ok(*words, "--json", feed=feed))

    def start(self, *words: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the agent, with more in its environment."""
        assert self._agent is None
        with self.log.open("ab") as log:
            self._agent = self._launch(self._words(words), log, self._environment() | dict(environment or {}))

    def _environment(self) -> dict[str, str]:
        """Return what a command gets: this process's environment as it is now, and the device's own."""
        return {**os.environ, **self.own_environment}

    def _words(self, words: Sequence[str]) -> list[str]:
        return [words[0], "--state", str(self.state), *words[1:]]

    def _run(self, words: Sequence[str], feed: bytes) -> subprocess.CompletedProcess[str]:
        """Run a command with this on its stdin, each in a new interpreter."""
        done = subprocess.run(
            [*COVEY, *words], input=feed, capture_output=True, timeout=_HANGS_S, check=False, env=self._environment()
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def _launch(self, words: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> Process:
        """Start an agent that writes to a log, in a new interpreter."""
        return subprocess.Popen([*self.program, *words], stdout=log, stderr=log, env=environment)

    @property
    def pid(self) -> int:
        """The process id of the agent that was started."""
        assert self._agent is not None
        return self._agent.pid

    @property
    def ended_by_itself(self) -> bool:
        """Say whether the agent is gone, though nobody ended it."""
        return self._agent is not None and self._agent.poll() is not None

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the agent, if it was started; return its exit code."""
        if self._agent is None:
            return 0
        self._agent.send_signal(how)
        code = self._agent.wait(timeout=_HANGS_S)
        self._agent = None
        return code

    def kill(self) -> None:
        """End the agent like a power cut."""
        self.end(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send the agent a signal."""
        assert self._agent is not None
        self._agent.send_signal(number)

    def ledger(self) -> Ledger:
        """Read the device's own counters."""
        folder = StateFolder.at(self.state)
        store = folder.store(folder.configuration.config(), folder.identity())
        try:
            counters = store.counters.values()
            return Ledger(
                counters.get("published_readings", 0),
                store.outbox.totals()[0],
                counters.get("landed_messages", 0),
                store.landing.size(),
            )
        finally:
            store.close()
