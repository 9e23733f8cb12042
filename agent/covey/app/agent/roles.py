"""The roles that every agent is given beyond a plain member's, as its configuration names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.app.boards.bridge_role import board_roles
from covey.app.telemetry.sensor_roles import attached_sensor_roles, package_roles, sensor_roles

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole


def configured_roles(device: Device, *, sensors: bool = True, serves_mailbox: bool = False) -> list[AgentRole]:
    """Return the roles of every agent: this machine's sensors, unless unwanted, further ones, boards, files nearby.

    Raises:
        ConfigurationError: a setting that cannot be used.
    """
    roles = [
        *(sensor_roles(device) if sensors else []),
        *package_roles(device),
        *attached_sensor_roles(device),
        *board_roles(device),
    ]
    roles += nearby_roles(device)
    mailbox = device.config.mailbox
    if mailbox.serve or serves_mailbox or mailbox.wake:
        from covey.app.relays.mailbox_role import mailbox_roles

        roles += mailbox_roles(device, serve=mailbox.serve or serves_mailbox)
    return roles


def nearby_roles(device: Device) -> list[AgentRole]:
    """Return the role that gives and takes files on this network, or by an object store; mostly none."""
    if not (device.config.content.lan or device.config.content.store):
        return []
    from covey.app.content.nearby_files import nearby_role

    return [nearby_role(device)]
