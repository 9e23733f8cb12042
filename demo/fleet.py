"""A fleet on this machine: a real broker, a collector and agents, each a process of its own.

Everything goes through the public commands. What the demo itself reads of a device is its own ledger: the counters
that its commits carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from broker_conf.mosquitto.broker import Broker
from covey.adapters.state_folder import StateFolder
from demo.device import Device, Ledger
from demo.wire_tap import WireTap

ACTION = "read-now"
"""A built-in action that the devices' owners allow."""


class TappedDevice(Device):
    """A device whose bytes to the broker and back are counted."""

    def __init__(self, folder: Path, name: str, tap: WireTap) -> None:
        super().__init__(folder, name)
        self._tap = tap

    def wire_bytes(self) -> int:
        """Return how many bytes it has exchanged with the broker."""
        return self._tap.bytes_of(self.name)


class Member(Protocol):
    """A device that measures."""

    name: str
    author: str

    def ledger(self) -> Ledger:
        """Return what it says of itself."""
        ...

    def wire_bytes(self) -> int:
        """Return how many bytes it has sent and received on its way to others."""
        ...


class Fleet:
    """Everything between a sensor and the vault, on one machine. `others` are members behind an agent: a board."""

    def __init__(self, folder: Path, agents: int, vault: str | None = None) -> None:
        """`vault` is a folder or a URL of an object store, or None for a folder next to the others."""
        self.folder = folder
        self.broker = Broker(folder / "broker")
        self.broker.start()
        self.tap = WireTap(self.broker.port)
        self.collector = TappedDevice(folder, "collector", self.tap)
        self.agents = [TappedDevice(folder, f"agent-{number}", self.tap) for number in range(1, agents + 1)]
        self.vault = vault or str(folder / "vault")
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
        """Make every device; pair the agents with the collector by invites and let them obey its operator."""
        for device in self.devices:
            device.set_up(self.broker, f"mqtt://127.0.0.1:{self.tap.port_for(device.name)}")
        operator = self.collector.json("key", "show")["signing_key"]
        for device in self.devices:
            _configure(device, self.vault, batch_seconds, interval_seconds, operator)
        self.collector.ok("group", "create", "--capability", "collector")
        self.start_collector()
        for device in self.agents:
            invite = self.collector.ok("invite", "--no-wait")
            device.ok("join", "-", feed=invite)

    def start_collector(self) -> None:
        """Start the collector; it does not sample."""
        self.collector.start("collect", "--no-sensors")

    def drain(self) -> None:
        """Let the agents deliver what they have, without sampling on."""
        for device in self.agents:
            device.end()
            device.start("run", "--no-sensors")

    def close(self) -> None:
        """End every process."""
        for device in self.devices:
            device.end()
        self.broker.stop()
        self.tap.close()


def _configure(device: Device, vault: str, batch_seconds: float, interval_seconds: float, operator: str) -> None:
    folder = StateFolder.at(device.state)
    folder.configuration.change(
        {
            "telemetry.batch_seconds": batch_seconds,
            "sensors.interval_seconds": interval_seconds,
            "vault.location": vault,
            "vault.segment_seconds": 1.0,
            "operations.operators": (operator,),
            "operations.commands": (ACTION,),
        }
    )
