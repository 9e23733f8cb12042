"""A fleet on this machine: a real broker, a collector, agents and the Spark job, each a process of its own.

Everything goes through the public commands. What the demo itself reads of a device is its own ledger: the counters
that its commits carry.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker_conf.mosquitto.broker import Broker
from covey.adapters.state_folder import StateFolder
from covey.errors import TransientError
from demo.quick_spark import quick_spark
from demo.wire_tap import WireTap

_COVEY = [sys.executable, "-m", "covey.cli.main"]
_COMMAND_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a device's own commits say."""

    published: int
    queued_messages: int
    landed_messages: int
    landing_bytes: int


class Device:
    """One device: its state folder, its log, and the process that runs it now."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.author = ""
        self.tap: WireTap | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def wire_bytes(self) -> int:
        """Return how many bytes it has exchanged with the broker."""
        return self.tap.bytes_of(self.name) if self.tap is not None else 0

    def command(self, *words: str, feed: str = "") -> str:
        """Run one `covey` command of this device to its end and return what it printed.

        Raises:
            TransientError: it failed; the message is what it said.
        """
        done = subprocess.run(
            [*_COVEY, words[0], "--state", str(self.folder), *words[1:]],
            input=feed,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if done.returncode:
            raise TransientError(f"covey {words[0]} of {self.name}: {done.stderr.strip()}")
        return done.stdout

    def start(self, *words: str) -> None:
        """Start this device's agent."""
        assert self._process is None
        with (self.folder.parent / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_COVEY, words[0], "--state", str(self.folder), *words[1:]], stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        """The process id of the running agent."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it like a power cut."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it gently."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=_COMMAND_SECONDS)
            self._process = None

    def ledger(self) -> Ledger:
        """Read the device's own counters."""
        folder = StateFolder.at(self.folder)
        store = folder.store(folder.config())
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


class Ingest:
    """The Spark job as a process."""

    def __init__(self, folder: Path, vault: Path, key_file: Path) -> None:
        self.tables = folder / "tables"
        self._checkpoint = folder / "checkpoint"
        self._log = folder / "ingest.log"
        self._words = [
            str(vault),
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
            self._process.wait(timeout=_COMMAND_SECONDS)
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


class Member(Protocol):
    """Whatever measures."""

    name: str
    author: str

    def ledger(self) -> Ledger:
        """Return what it says of itself."""
        ...

    def wire_bytes(self) -> int:
        """Return how many bytes it has sent and received on its way to others."""
        ...


class Fleet:
    """The whole way of a reading, on one machine. `others` are members that hang on an agent: a board."""

    def __init__(self, folder: Path, agents: int) -> None:
        self.folder = folder
        self.broker = Broker(folder / "broker")
        self.broker.start()
        self.tap = WireTap(self.broker.port)
        self.collector = Device("collector", folder / "collector")
        self.agents = [Device(f"agent-{number}", folder / f"agent-{number}") for number in range(1, agents + 1)]
        self.vault = folder / "vault"
        self.ingest = Ingest(folder, self.vault, self.collector.folder / "vault.key")
        self.others: list[Member] = []
        for device in self.devices:
            device.tap = self.tap

    @property
    def members(self) -> Sequence[Member]:
        """Return everything that measures."""
        return [*self.agents, *self.others]

    @property
    def devices(self) -> Sequence[Device]:
        """The collector, then the agents."""
        return [self.collector, *self.agents]

    def set_up(self, batch_seconds: float, interval_seconds: float) -> None:
        """Make every device, and pair the agents with the collector's group by invites."""
        for device in self.devices:
            shown = json.loads(device.command("init", "--label", device.name, "--json"))
            device.author = shown["signing_public"]
            password = self.broker.add_device(device.author)
            port = self.tap.port_for(device.name)
            url = f"mqtt://127.0.0.1:{port}"
            device.command("relay", "--url", url, "--password-file", "-", feed=password)
            _configure(device, batch_seconds, interval_seconds)
        self.collector.command("group", "create", "--capability", "collector")
        self.start_collector()
        for device in self.agents:
            invite = self.collector.command("invite", "--no-wait")
            device.command("join", "-", feed=invite)

    def start_collector(self) -> None:
        """Start the collector; it samples this machine, too."""
        self.collector.start("collect", "--vault", str(self.vault), "--no-sensors")

    def drain(self) -> None:
        """Let the agents deliver what they have, without sampling on."""
        for device in self.agents:
            device.stop()
            device.start("run", "--no-sensors")

    def close(self) -> None:
        """End every process."""
        for device in self.devices:
            device.stop()
        self.ingest.kill()
        self.broker.stop()
        self.tap.close()


def _configure(device: Device, batch_seconds: float, interval_seconds: float) -> None:
    folder = StateFolder.at(device.folder)
    folder.change_config(
        {
            "telemetry.batch_seconds": batch_seconds,
            "sensors.interval_seconds": interval_seconds,
            "vault.segment_seconds": 1.0,
        }
    )
