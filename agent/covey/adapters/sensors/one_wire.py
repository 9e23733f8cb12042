"""Thermometers on a 1-Wire bus, as the kernel's driver `w1_therm` shows them: `28-0316a2795e1f/temperature`.

Source: Documentation/ABI/testing/sysfs-driver-w1_therm of the kernel: thousandths of a degree; an error where the
thermometer's checksum is wrong or nobody answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.sensors.system_folders import Channel, Channels, SystemFolder, line_of
from covey.core.telemetry.names import segment

if TYPE_CHECKING:
    from covey.config.sensors import OneWire


def open_one_wire(options: OneWire) -> SystemFolder:
    """Return the sensor; one thermometer that is named stands for the sensor itself."""
    alone = len(options.devices) == 1

    def channels(device: Path) -> Channels:
        path = device / "temperature"
        return device.name if path.exists() else "", _temperature(path, "" if alone else segment(device.name))

    return SystemFolder("thermometer", options.folder, options.devices, channels)


def _temperature(path: Path, name: str) -> Iterator[Channel]:
    yield f"{name}/temperature" if name else "temperature", "Cel", lambda: _celsius(line_of(path))


def _celsius(text: str) -> float:
    if not text:
        raise ValueError("the thermometer does not answer")
    return float(text) / 1e3
