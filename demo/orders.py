"""The USB stick scene: while the broker is down, a stick carries an order and a setting, and the tables show both.

The operator has the collector's device; the owners of all devices have pinned its key. Nothing reaches the last agent
but the file that is carried there, and it has obeyed before the broker is back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.state_folder import StateFolder
from covey.core.actions.results import FINAL
from covey.core.ids import OperationId
from covey.errors import StorageError, TransientError
from demo.device import Device
from demo.fleet import ACTION, Fleet

_SETTING = ("telemetry.batch_seconds", "3")
_PATIENCE_SECONDS = 60
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class OrdersByStick:
    """Who ordered, in hex, and when the broker came back."""

    operator: str
    broker_back_us: int

    def obeyed(self, tables: Path) -> list[str]:
        """Return what the report on the tables tells of each order that was heard before the broker was back."""
        from covey_ingest.queries.report import make_report

        try:
            orders = make_report(str(tables), time.time_ns() // 1000, None).sections["orders"]
        except StorageError:
            return []  # a file was replaced meanwhile
        return [
            f"{row['what']} for {row['selector']}: {row['result']}"
            for row in orders
            if row["author"] == self.operator and row["result"] and row["reported_us"] < self.broker_back_us
        ]

    def are_obeyed(self, tables: Path) -> bool:
        """Say whether the tables show all of it."""
        return sorted(line.split()[-1] for line in self.obeyed(tables)) == ["applied", "done"]


def carry_orders(fleet: Fleet, say: Callable[[str], None]) -> OrdersByStick:
    """Kill the broker, order, carry, and start the broker again when the device has obeyed.

    Raises:
        TransientError: a command failed, or the device did not execute the orders in time.
    """
    operator, device, stick = fleet.collector, fleet.agents[-1], fleet.folder / "stick"
    _wait(lambda: _obeys(operator, device), f"{device.name} does not report that it obeys the operator")
    fleet.broker.kill()
    whom = ("--for", f"label:{device.name}")
    say(f"SIGKILL: broker; the operator sets {' '.join(_SETTING)} and orders {ACTION} for {device.name} all the same")
    setting = operator.json("setting", "set", *_SETTING, *whom)["id"]
    command = operator.json("order", "run", ACTION, *whom)["id"]
    operator.ok("history", "export", str(stick))
    device.ok("history", "import", str(stick))
    _wait(lambda: _has_obeyed(device, setting, command), f"{device.name} did not execute the orders")
    orders = OrdersByStick(operator.author, time.time_ns() // 1000)
    say(f"{device.name} executed both from a USB stick; restarting the broker")
    fleet.broker.start()
    return orders


def _obeys(operator: Device, device: Device) -> bool:
    said = operator.ok("history", "log", "--type", "obeying", "--json")
    return device.author in said


def _has_obeyed(device: Device, setting: str, command: str) -> bool:
    """Look into the device itself."""
    folder = StateFolder.at(device.state)
    store = folder.store(folder.configuration.config(), folder.identity())
    try:
        record = store.commands.record(OperationId(bytes.fromhex(command)))
    finally:
        store.close()
    done = record is not None and record.result is not None and record.result.state in FINAL
    return done and any(
        each["operation"] == setting and each["state"] == "applied" for each in device.json("setting", "get")
    )


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TransientError(otherwise, hint="the logs are next to the devices' folders")
        time.sleep(_LOOK_SECONDS)
