"""A fleet on this machine: a real broker, a collector, agents and the Spark job, each a process of its own.

Everything goes through the public commands. What the demo itself reads of a device is its own ledger: the counters
that its commits carry.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from broker_conf.mosquitto.broker import Broker
from covey.adapters.state_folder import StateFolder
from covey.errors import TransientError
from demo.device import Device, Ledger
from demo.quick_spark import quick_spark
from demo.wire_tap import WireTap

ACTION = "read-now"
"""What the devices' owners let operators order: Covey brings it."""

_END_SECONDS = 60


class TappedDevice(Device):
    """A device whose bytes to the broker and back are counted."""

    def __init__(self, folder: Path, name: str, tap: WireTap) -> None:
        super().__init__(folder, name)
        self._tap = tap

    def wire_bytes(self) -> int:
        """Return how many bytes it has exchanged with the broker."""
        return self._tap.bytes_of(self.name)


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
        self.collector = TappedDevice(folder, "collector", self.tap)
        self.agents = [TappedDevice(folder, f"agent-{number}", self.tap) for number in range(1, agents + 1)]
        self.vault = folder / "vault"
        self.ingest = Ingest(folder, self.vault, self.collector.state / "vault.key")
        self.others: list[Member] = []

    @property
    def members(self) -> Sequence[Member]:
        """Return everything that measures."""
        return [*self.agents, *self.others]

    @property
    def devices(self) -> Sequence[TappedDevice]:
        """The collector, then the agents."""
        return [self.collector, *self.agents]

    def set_up(self, batch_seconds: float, interval_seconds: float) -> None:
        """Make every device, and pair the agents with the collector's group by invites; they obey whoever has that."""
        for device in self.devices:
            device.set_up(self.broker, f"mqtt://127.0.0.1:{self.tap.port_for(device.name)}")
        operator = self.collector.json("key", "show")["signing_key"]
        for device in self.devices:
            _configure(device, batch_seconds, interval_seconds, operator)
        self.collector.ok("group", "create", "--capability", "collector")
        self.start_collector()
        for device in self.agents:
            invite = self.collector.ok("invite", "--no-wait")
            device.ok("join", "-", feed=invite)

    def start_collector(self) -> None:
        """Start the collector; it samples this machine, too."""
        self.collector.start("collect", "--vault", str(self.vault), "--no-sensors")

    def drain(self) -> None:
        """Let the agents deliver what they have, without sampling on."""
        for device in self.agents:
            device.end()
            device.start("run", "--no-sensors")

    def close(self) -> None:
        """End every process."""
        for device in self.devices:
            device.end()
        self.ingest.kill()
        self.broker.stop()
        self.tap.close()


def _configure(device: Device, batch_seconds: float, interval_seconds: float, operator: str) -> None:
    folder = StateFolder.at(device.state)
    folder.change_config(
        {
            "telemetry.batch_seconds": batch_seconds,
            "sensors.interval_seconds": interval_seconds,
            "vault.segment_seconds": 1.0,
            "operations.operators": (operator,),
            "operations.commands": (ACTION,),
        }
    )
