"""The roles that read sensors: this machine's own, and those that the configuration names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.core.telemetry.names import SENSOR_CONDITION

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole
    from covey.app.telemetry.publisher import Publisher
    from covey.config.schema import Config


def sensor_roles(device: Device) -> list[AgentRole]:
    """Return the sensors role where the configuration wants it."""
    if not device.config.sensors.enabled:
        return []
    from covey.adapters.sensors.firmware import Firmware
    from covey.adapters.sensors.host import HostSensors
    from covey.app.telemetry.host_sensors import Sensors
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
