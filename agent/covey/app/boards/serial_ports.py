"""This machine's serial ports: which are boards', and which of them a person means. Nothing here opens one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.core.group.device_labels import DeviceLabels
from covey.core.ids import device_name, printable
from covey.errors import LocalError, MissingPackageError, UsageError
from covey.ports import UDP_PREFIX

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey_boards.usb import UsbPort


@dataclass(frozen=True, slots=True)
class SerialPort:
    """A port: what USB says of it (ids, and the kind where boards alone have these), and which board was seen there."""

    port: str
    usb: str | None
    kind: str | None
    description: str
    configured: bool
    missing: bool
    board: str | None
    label: str


_NO_BOARD = (None, "")


def scan_ports(device: Device) -> list[SerialPort]:
    """Return the ports of this machine, and configured sensors and that are not there.

    Raises:
        MissingPackageError: pyserial is not installed.
    """
    from covey_boards.usb import lasting_name

    labels = DeviceLabels(device.node.groups.joined())
    keys = {board.port: board.keys.signing_public for board in device.store.boards.all()}
    known = {port: (device_name(key), labels.label(key)) for port, key in keys.items()}
    configured = {str(Path(port).resolve()): port for port in device.config.bridge.ports}
    found = []
    for port in _attached():
        ours = configured.pop(str(Path(port.device).resolve()), None)
        name = ours or lasting_name(port)
        usb = None if port.vendor is None or port.product is None else f"{port.vendor:04x}:{port.product:04x}"
        seen = known.get(name, _NO_BOARD)
        found.append(SerialPort(name, usb, port.kind, port.description, ours is not None, False, *seen))
    return found + [
        SerialPort(name, None, None, "", True, not Path(name).exists(), *known.get(name, _NO_BOARD))
        for name in configured.values()
    ]


def pick_port(device: Device, name: str | None) -> str:
    """Return the port that a person means, as the configuration calls it if it does.

    Raises:
        LocalError: nothing is named, and none or several may be meant.
        UsageError: what is named is not known to be a board's.
        MissingPackageError: pyserial is not installed.
    """
    from covey_boards.usb import lasting_name

    configured = device.config.bridge.ports
    over_udp = [each.port for each in device.store.boards.all() if each.port.startswith(UDP_PREFIX)]
    boards = [port for port in _attached() if port.kind is not None]
    if name is None:
        found = [*configured, *over_udp] or [lasting_name(port) for port in boards]
        if len(found) == 1:
            return found[0]
        if not found:
            raise LocalError("no port with a board was found", hint="connect a board; 'covey mcu scan' lists all ports")
        raise LocalError(f"{len(found)} ports may have a board; choose one", hint="'covey mcu scan' lists them")
    if name in over_udp:
        return name
    path = Path(name).resolve()
    for each in configured:
        if Path(each).resolve() == path:
            return each
    for port in boards:
        if Path(port.device).resolve() == path:
            return lasting_name(port)
    raise UsageError(
        f"{printable(name)} is not known to be a board, so Covey does not open it",
        hint="if it is one: covey config set bridge.ports PORT",
    )


def _attached() -> list[UsbPort]:
    try:
        from covey_boards.serial_link import attached_ports
    except ImportError as error:
        raise MissingPackageError("a board", "pyserial") from error
    return attached_ports()
