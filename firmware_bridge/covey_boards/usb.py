"""Recognise boards among serial ports by their USB descriptions. Nothing here opens a port.

A port that is neither of a kind listed below nor named in the configuration is somebody else's: it may be shown, and is
never written to. Adapters that anything may hang on (FTDI, CP210x, CH340) are on no list for that reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KNOWN_BOARDS = {
    (0x0D28, 0x0204): "BBC micro:bit",
    (0x2E8A, 0x0005): "Raspberry Pi Pico with MicroPython",
    (0x303A, 0x1001): "ESP32 with native USB",
    (0x303A, 0x4001): "ESP32 with MicroPython",
    (0xF055, 0x9800): "pyboard",
}
"""(vendor, product) → what it is. Boards alone have these."""

_BY_ID = Path("/dev/serial/by-id")


@dataclass(frozen=True, slots=True)
class UsbPort:
    """A port, and what USB says of it; a UART of the machine itself has no numbers."""

    device: str
    vendor: int | None = None
    product: int | None = None
    serial_number: str | None = None
    description: str = ""

    @property
    def identity(self) -> tuple[int, int, str] | None:
        """What stays the same when a board is plugged in elsewhere; None where nothing does."""
        if self.vendor is None or self.product is None or not self.serial_number:
            return None
        return self.vendor, self.product, self.serial_number

    @property
    def kind(self) -> str | None:
        """What it is, if boards alone have its numbers."""
        if self.vendor is None or self.product is None:
            return None
        return KNOWN_BOARDS.get((self.vendor, self.product))


def find_port(name: str, before: UsbPort | None, attached: Iterable[UsbPort]) -> UsbPort:
    """Return a name's port now, or the one that its earlier board has moved to.

    Raises:
        FileNotFoundError: it is not there; or another device is.
    """
    ports = {str(Path(each.device).resolve()): each for each in attached}
    path = Path(name)
    there = ports.get(str(path.resolve()), UsbPort(str(path.resolve()))) if path.exists() else None
    if before is None or before.identity is None:
        if there is None:
            raise FileNotFoundError(f"{name} is not there")
        return there
    if there is not None and there.identity == before.identity:
        return there
    for each in ports.values():
        if each.identity == before.identity:
            return each
    raise FileNotFoundError(f"{name} is now another device" if there is not None else f"{name} is not there")


def lasting_name(port: UsbPort, folder: Path = _BY_ID) -> str:
    """Return the name under `/dev/serial/by-id` that a port keeps, or its own where there is none."""
    if folder.is_dir():
        for link in sorted(folder.iterdir()):
            if link.resolve() == Path(port.device).resolve():
                return str(link)
    return port.device
