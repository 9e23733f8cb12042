"""Thermometers on a 1-Wire bus, as the kernel's driver `w1_therm` shows them: `28-0316a2795e1f/temperature`.

Source: Documentation/ABI/testing/sysfs-driver-w1_therm of the kernel: thousandths of a degree; an error where the
thermometer's checksum is wrong or nobody answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.sensors.system_folders import Channel, KernelDevice, SystemFolder, line_of

if TYPE_CHECKING:
    from covey.config.sensors import OneWire
    from covey.ports import SensorOpening


def from_entry(opening: SensorOpening) -> SystemFolder:
    """Open the sensor of an entry."""
    return open_one_wire(opening.options)


def open_one_wire(options: OneWire) -> SystemFolder:
    """Return the sensor; a single named thermometer has the sensor's own name."""
    alone = len(options.devices) == 1

    def device(path: Path) -> KernelDevice | None:
        file = path / "temperature"
        if not file.exists():
            return None
        channel = Channel("temperature", "Cel", lambda: _celsius(line_of(file)))
        return KernelDevice(path.name, "", [channel], in_names=not alone)

    return SystemFolder("thermometer", options.folder, options.devices, device)


def _celsius(text: str) -> float:
    if not text:
        raise ValueError("the thermometer does not answer")
    return float(text) / 1e3
