"""Joins a device and what it does about its person's other devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.groups.own_devices_role import OwnDevicesRole

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.node import Node
    from covey.core.own.own_devices import OwnDevices


def own_devices(device: Device, node: Node | None = None) -> OwnDevices:
    """Return what a device does as one of its person's; `node` is the one that is in use, if not the opened one's."""
    from covey.core.own.own_devices import OwnDevices  # most devices are nobody's own: it spares the memory

    node = node or device.node
    return OwnDevices(node.identity, node.groups, node.history, node.actions, device.store)


def own_devices_role(device: Device) -> OwnDevicesRole:
    """Return the role that does what the person's other devices make necessary."""
    return OwnDevicesRole(
        device.store,
        device.store.personal.pinned,
        lambda node: own_devices(device, node),
        lambda: device.config.label,
        report,
    )
