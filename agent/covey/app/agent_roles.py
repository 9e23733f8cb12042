"""The roles that an agent is given beyond a plain member's, as its configuration names them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.roles.collector import Collector
    from covey.app.runtime import AgentRole
    from covey.config.settings import Config
    from covey_boards.bridge import Bridge


def configured_roles(device: Device, *, sensors: bool = True) -> list[AgentRole]:
    """Return the roles of every agent: this machine's sensors, unless they are not wanted, and its boards."""
    return [*(sensor_roles(device) if sensors else []), *board_roles(device)]


def sensor_roles(device: Device) -> list[AgentRole]:
    """Return the sensors role where the configuration wants it."""
    if not device.config.sensors.enabled:
        return []
    from covey.adapters.sensors.firmware import Firmware
    from covey.adapters.sensors.host import HostSensors
    from covey.app.roles.sensors import Sensors

    sensors, firmware = HostSensors(device.folder.path), Firmware(device.store.boards.all)
    interval_us = int(device.config.sensors.interval_seconds * 1e6)
    publisher = device.publisher()
    role = Sensors(lambda: [*sensors.sample(), *firmware.sample()], publisher, interval_us, report)

    def follow(config: Config) -> None:
        role.interval_us = int(config.sensors.interval_seconds * 1e6)
        publisher.batch_us = int(config.telemetry.batch_seconds * 1e6)
        publisher.batch_readings = config.telemetry.batch_readings

    device.live.follow(("sensors.interval_seconds", "telemetry.batch_seconds", "telemetry.batch_readings"), follow)
    return [role]


def board_roles(device: Device) -> list[AgentRole]:
    """Return the bridge to boards where the configuration names ports."""
    ports = device.config.bridge.ports
    return [bridge_role(device, ports)] if ports else []


def bridge_role(device: Device, ports: Sequence[str]) -> Bridge:
    """Return the bridge to the boards on some ports, not opened yet.

    Raises:
        ConfigurationError: pyserial is not installed.
    """
    try:
        from covey_boards.serial_link import SerialPortLink
    except ImportError as error:
        raise ConfigurationError("boards need pyserial", hint="pip install 'covey[bridge]'") from error
    from covey_boards.bridge import Bridge

    links = [SerialPortLink(port, device.config.bridge.baud) for port in ports]
    return Bridge(links, device.store, device.clock.synchronised, report)


def collector_role(device: Device, vault: str | None) -> Collector:
    """Return the collector, which says where it lands telemetry: a place that a person names, or the configured one."""
    from covey.adapters.objects.location import open_object_store
    from covey.app.roles.collector import Collector
    from covey.app.roles.node_keys import NodeKeys

    location = vault or str(device.config.vault.location)
    objects = open_object_store(location, Path.cwd() if vault else device.folder.path)
    key_file, identity = device.folder.vault_key, device.node.identity
    key_file.draw(device.clock.wall_us())
    collector = Collector(
        identity,
        NodeKeys(identity, key_file, device.store, objects, secrets.token_bytes),
        device.store,
        objects,
        secrets.token_bytes,
        int(device.config.vault.segment_seconds * 1e6),
        report,
    )
    report("info", f"landing telemetry in {location}; the ingest needs {key_file.path}")
    return collector
