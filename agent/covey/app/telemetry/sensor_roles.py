"""The roles that read sensors: this machine's own (`Sensors`), and configured sensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.telemetry.publisher import Outflow, Publisher
from covey.core.node import Node
from covey.core.now import Now
from covey.core.telemetry.batch import Value
from covey.core.telemetry.names import SENSOR_CONDITION
from covey.ports import Report

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole
    from covey.config.schema import Config


class Sensors:
    """Samples each `interval_us`; while nobody can be sent to or the outbox is full, samples are not taken."""

    def __init__(
        self,
        sample: Callable[[], Sequence[tuple[str, str, Value]]],
        publisher: Publisher,
        interval_us: int,
        report: Report,
    ) -> None:
        self._sample = sample
        self._outflow = Outflow(publisher, report)
        self.interval_us = interval_us
        self._next_us: int | None = None
        self._wanted = False

    def read_now(self) -> None:
        """Have the next turn sample, and send what that says."""
        self._wanted = True

    def turn(self, node: Node, now: Now) -> int:
        """Sample and flush what is due; return when to be called next, in monotonic microseconds."""
        if self._wanted:
            self._wanted = False
            self._take_sample(node, now)
            self._outflow.flush(node, now)
        if self._next_us is None or now.monotonic_us >= self._next_us:
            start = self._next_us if self._next_us is not None else now.monotonic_us
            missed = (now.monotonic_us - start) // self.interval_us
            self._next_us = start + (missed + 1) * self.interval_us
            if self._take_sample(node, now):
                self._outflow.flush(node, now)
        due = self._outflow.flush_if_due(node, now)
        return self._next_us if due is None else min(self._next_us, due)

    def stop(self, node: Node, now: Now) -> None:
        """Publish what is open."""
        self._outflow.flush(node, now)

    def _take_sample(self, node: Node, now: Now) -> bool:
        """Sample unless too much waits already; return whether batches are ready.

        All readings of a sample have one time: microseconds between them mean nothing, and cost a byte a reading.
        """
        if not self._outflow.wanted(node):
            return False
        if self._outflow.full:
            return True
        at_us = now.monotonic_us
        full = [self._outflow.add(name, unit, at_us, value) for name, unit, value in self._sample()]
        return any(full)


def sensor_roles(device: Device) -> list[AgentRole]:
    """Return the sensors role where the configuration wants it."""
    if not device.config.sensors.enabled:
        return []
    from covey.adapters.sensors.firmware import Firmware
    from covey.adapters.sensors.host import HostSensors
    from covey.app.telemetry.publisher import device_publisher

    sensors, firmware = HostSensors(device.folder.path), Firmware(device.store.boards.all)
    interval_us = int(device.config.sensors.interval_seconds * 1e6)
    publisher = device_publisher(device)
    role = Sensors(lambda: [*sensors.sample(), *firmware.sample()], publisher, interval_us, report)

    def follow(config: Config) -> None:
        role.interval_us = int(config.sensors.interval_seconds * 1e6)

    device.live.follow(("sensors.interval_seconds",), follow)
    _follow_batches(device, publisher)
    return [role]


def package_roles(device: Device) -> list[AgentRole]:
    """Return the role that reports installed packages where the configuration wants it; mostly none."""
    if not device.config.sensors.packages:
        return []
    from covey.adapters.sensors.packages import InstalledPackages
    from covey.app.telemetry.package_report import PackageReport
    from covey.app.telemetry.publisher import Outflow, device_publisher

    return [PackageReport(InstalledPackages(), Outflow(device_publisher(device), report), device.store, report)]


def attached_sensor_roles(device: Device) -> list[AgentRole]:
    """Return the role of the sensors that the configuration names; mostly none, and nothing of it is loaded.

    Raises:
        ConfigurationError: an entry cannot be used.
    """
    entries = device.folder.configuration.sensors()
    if not entries:
        noted = device.store.conditions.values().items()
        if any(name.startswith(SENSOR_CONDITION) and state for name, (state, _) in noted):
            from covey.app.telemetry.attached_sensors import forget_sensors

            forget_sensors(device.store, set(), device.clock.wall_us())
        return []
    from covey.adapters.sensors.kinds import open_sensor
    from covey.adapters.sensors.worker import SensorWorker
    from covey.app.telemetry.attached_sensors import AttachedSensors
    from covey.app.telemetry.publisher import Outflow, device_publisher

    publisher = device_publisher(device)
    feeds = [
        SensorWorker(
            *(each.name, each.interval_seconds, partial(open_sensor, each, device.clock), device.clock),
            position=device.store.sensor_positions.get(each.name),
        )
        for each in entries
    ]
    _follow_batches(device, publisher)
    return [AttachedSensors(feeds, Outflow(publisher, report), device.store, report)]


def _follow_batches(device: Device, publisher: Publisher) -> None:
    def follow(config: Config) -> None:
        publisher.batch_us = int(config.telemetry.batch_seconds * 1e6)
        publisher.batch_readings = config.telemetry.batch_readings

    device.live.follow(("telemetry.batch_seconds", "telemetry.batch_readings"), follow)
