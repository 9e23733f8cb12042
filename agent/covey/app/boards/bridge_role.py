"""The role that bridges boards on serial ports, or at a network address, to this device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.device.addresses import host_and_port
from covey.app.device.pins import somebody_is_pinned
from covey.app.loop.link_windows import ask_for_window
from covey.errors import MissingPackageError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole
    from covey.core.now import Now
    from covey_boards.bridge import Bridge


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

    def urgent(now: Now) -> None:
        ask_for_window(device.store, now)

    links = [SerialPortLink(port, device.config.bridge.baud) for port in ports]
    orders = None
    if somebody_is_pinned(device):
        from covey.app.boards.orders import board_orders

        orders = board_orders(device)
    updates = BoardUpdates(device.folder.board_firmware, device.store, report)
    coming = None
    if udp_listen:
        from covey_boards.udp_socket import UdpSocket

        coming = UdpSocket(*host_and_port(udp_listen, "bridge.udp_listen"))
    return Bridge(links, device.store, device.clock.synchronised, report, orders, updates, coming, urgent)
