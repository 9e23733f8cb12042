"""The roles that an agent is given beyond a plain member's, as its configuration names them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.addresses import host_and_port
from covey.app.pins import somebody_is_pinned
from covey.core.telemetry.names import SENSOR_CONDITION
from covey.errors import MissingPackageError

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.roles.collector import Collector
    from covey.app.roles.publisher import Publisher
    from covey.app.runtime import AgentRole
    from covey.config.schema import Config
    from covey.ports import PiecewiseStore
    from covey_boards.bridge import Bridge


def configured_roles(device: Device, *, sensors: bool = True, serves_mailbox: bool = False) -> list[AgentRole]:
    """Return the roles of every agent: this machine's sensors, unless unwanted, further ones, boards, files nearby.

    Raises:
        ConfigurationError: a setting that cannot be used.
    """
    roles = [*(sensor_roles(device) if sensors else []), *attached_sensor_roles(device), *board_roles(device)]
    roles += nearby_roles(device)
    mailbox = device.config.mailbox
    if mailbox.serve or serves_mailbox or mailbox.wake:
        from covey.app.mailbox_roles import mailbox_roles

        roles += mailbox_roles(device, serve=mailbox.serve or serves_mailbox)
    return roles


def nearby_roles(device: Device) -> list[AgentRole]:
    """Return the role that gives and takes files on this network, or by an object store; mostly none."""
    if not (device.config.content.lan or device.config.content.store):
        return []
    from covey.app.nearby import nearby_role

    return [nearby_role(device)]


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
            from covey.app.roles.attached_sensors import forget_sensors

            forget_sensors(device.store, set(), device.clock.wall_us())
        return []
    from covey.adapters.sensors.kinds import open_sensor
    from covey.adapters.sensors.worker import SensorWorker
    from covey.app.roles.attached_sensors import AttachedSensors
    from covey.app.roles.publisher import Outflow

    publisher = device.publisher()
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


def board_roles(device: Device) -> list[AgentRole]:
    """Return the bridge to boards where the configuration names ports, or an address for boards."""
    config = device.config.bridge
    return [bridge_role(device, config.ports, config.udp_listen)] if config.ports or config.udp_listen else []


def bridge_role(device: Device, ports: Sequence[str], udp_listen: str = "") -> Bridge:
    """Return the bridge to the boards on some ports, and at an address, not opened yet.

    Raises:
        ConfigurationError: the address is none.
        LocalError: it is not this machine's, or taken.
        MissingPackageError: pyserial is not installed.
    """
    try:
        from covey_boards.serial_link import SerialPortLink
    except ImportError as error:
        raise MissingPackageError("a board", "pyserial") from error
    from covey_boards.bridge import Bridge
    from covey_boards.updates import BoardUpdates

    links = [SerialPortLink(port, device.config.bridge.baud) for port in ports]
    orders = None
    if somebody_is_pinned(device):
        from covey.app.board_orders import board_orders

        orders = board_orders(device)
    updates = BoardUpdates(device.folder.board_firmware, device.store, report)
    coming = None
    if udp_listen:
        from covey_boards.udp_socket import UdpSocket

        coming = UdpSocket(*host_and_port(udp_listen, "bridge.udp_listen"))
    return Bridge(links, device.store, device.clock.synchronised, report, orders, updates, coming)


def open_vault_place(device: Device, vault: str | None) -> PiecewiseStore:
    """Return where a device lands telemetry; one that has no vault yet makes nothing before the place has answered.

    Raises:
        ConfigurationError: there can be none at this place.
        StorageError: it refused, or was not reached.
    """
    from covey.adapters.objects.location import open_object_store
    from covey.core.ids import NODE_ID_BYTES, VAULT_ID_BYTES, NodeId, VaultId
    from covey.core.vault.entries import manifest_key

    location = vault or str(device.config.vault.location)
    objects = open_object_store(location, Path.cwd() if vault else device.folder.path)
    if not device.folder.vault_key.exists():
        objects.get(manifest_key(VaultId(bytes(VAULT_ID_BYTES)), NodeId(bytes(NODE_ID_BYTES))), 1)
    return objects


def collector_role(device: Device, vault: str | None) -> Collector:
    """Return the collector, which says where it lands telemetry: a place that a person names, or the configured one."""
    from covey.app.roles.collector import Collector
    from covey.app.roles.node_keys import NodeKeys
    from covey.app.vault_place import note_vault_place

    location, objects = vault or str(device.config.vault.location), open_vault_place(device, vault)
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
    note_vault_place(device, vault)
    report("info", f"landing telemetry in {location}; the ingest needs {key_file.path}")
    return collector
