"""What the kernel's hardware monitors watch, as readings.

Units of the files: Documentation/hwmon/sysfs-interface.rst of the kernel. A reading is called CHIP/LABEL, or CHIP/temp1
where the driver gives no label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.sensors.system_folders import Channel, Channels, SystemFolder, line_of, text_of
from covey.core.telemetry.names import segment

if TYPE_CHECKING:
    from covey.config.sensors import Hwmon

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


def open_hwmon(options: Hwmon) -> SystemFolder:
    """Return the sensor; nothing is opened before it is read."""
    return SystemFolder("chip", options.folder, options.chips, _channels)


def _channels(chip: Path) -> Channels:
    name = text_of(chip / "name")
    return name, _inputs(chip, segment(name))


def _inputs(chip: Path, name: str) -> Iterator[Channel]:
    for path in sorted(chip.iterdir()):
        if found := _INPUT.fullmatch(path.name):
            unit, divisor = _UNITS[found[1]]
            what = segment(text_of(chip / f"{found[1]}{found[2]}_label")) or f"{found[1]}{found[2]}"
            yield f"{name}{{}}/{what}", unit, partial(_value, path, divisor)


def _value(path: Path, divisor: float) -> float:
    return float(line_of(path)) / divisor
