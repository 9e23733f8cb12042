"""What the kernel's hardware monitors watch, as readings.

Units of the files: Documentation/hwmon/sysfs-interface.rst of the kernel. A reading is called
CHIP/ADDRESS/INPUT:LABEL, `coretemp/coretemp.0/temp1:Package_x20_id_x20_0`; without a label CHIP/ADDRESS/INPUT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.sensors.system_folders import Channel, KernelDevice, SystemFolder, address_of, line_of, text_of
from covey.core.telemetry.names import segment

if TYPE_CHECKING:
    from covey.config.sensors import Hwmon
    from covey.ports import SensorOpening

_UNITS = {
    "temp": ("Cel", 1e3),
    "in": ("V", 1e3),
    "curr": ("A", 1e3),
    "power": ("W", 1e6),
    "energy": ("J", 1e6),
    "humidity": ("%RH", 1e3),
    "fan": ("1/min", 1.0),
}
_INPUT = re.compile(r"(temp|in|curr|power|energy|humidity|fan)(\d{1,3})_input")


def from_entry(opening: SensorOpening) -> SystemFolder:
    """Open the sensor of an entry."""
    return open_hwmon(opening.options)


def open_hwmon(options: Hwmon) -> SystemFolder:
    """Return the sensor; nothing is opened before it is read."""
    return SystemFolder("chip", options.folder, options.chips, chip_of)


def chip_of(path: Path) -> KernelDevice | None:
    """Return the chip in a folder of the kernel's."""
    name = text_of(path / "name")
    return KernelDevice(name, address_of(path), _inputs(path)) if name else None


def temperatures_of(path: Path) -> KernelDevice | None:
    """Return the chip in a folder of the kernel's with its temperatures alone; None where it has none."""
    chip = chip_of(path)
    channels = [] if chip is None else [each for each in chip.channels if each.unit == "Cel"]
    return chip._replace(channels=channels) if chip is not None and channels else None


def _inputs(chip: Path) -> Iterator[Channel]:
    for path in sorted(chip.iterdir()):
        if found := _INPUT.fullmatch(path.name):
            unit, divisor = _UNITS[found[1]]
            what = f"{found[1]}{found[2]}"
            label = text_of(chip / f"{what}_label")  # two inputs of a chip may have one label, of a fan and its heat
            yield Channel(f"{what}:{segment(label)}" if label else what, unit, partial(_value, path, divisor))


def _value(path: Path, divisor: float) -> float:
    return float(line_of(path)) / divisor
