"""What the kernel's drivers of industrial I/O measure, as readings: `bme280/1-0076/temp`, `ads1115/1-0048/voltage0`.

A channel's value is in `_input`; else it is (`_raw` + `_offset`) x `_scale`. A raw value without a scale is a count
without a unit, and is called so (`voltage0_raw`): no value is scaled by guessing.
Source: Documentation/ABI/testing/sysfs-bus-iio of the kernel.
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
    from covey.config.sensors import Iio
    from covey.ports import SensorOpening

_UNITS = {
    "temp": ("Cel", 1e-3),
    "voltage": ("V", 1e-3),
    "altvoltage": ("V", 1e-3),
    "current": ("A", 1e-3),
    "power": ("W", 1e-3),
    "energy": ("J", 1.0),
    "pressure": ("Pa", 1e3),
    "humidityrelative": ("%RH", 1e-3),
    "illuminance": ("lx", 1.0),
    "accel": ("m/s2", 1.0),
    "anglvel": ("rad/s", 1.0),
    "magn": ("T", 1e-4),
    "resistance": ("Ohm", 1.0),
    "capacitance": ("F", 1e-9),
    "distance": ("m", 1.0),
    "concentration": ("%", 1.0),
    "electricalconductivity": ("S/m", 1.0),
    "ph": ("pH", 1.0),
}
"""Units of SenML, and what the kernel's are multiplied with; a type that is not here goes as it is, without a unit."""

_CHANNEL = re.compile(
    r"in_(?P<channel>(?P<type>[a-z]+)\d*(?:-(?P<against>[a-z]+)\d*)?(?:_[a-z0-9]+)*)_(?P<form>input|raw)"
)


def from_entry(opening: SensorOpening) -> SystemFolder:
    """Open the sensor of an entry."""
    return open_iio(opening.options)


def open_iio(options: Iio) -> SystemFolder:
    """Return the sensor; nothing is opened before it is read."""
    return SystemFolder("device", options.folder, options.devices, _device)


def _device(path: Path) -> KernelDevice | None:
    name = text_of(path / "name") if path.name.startswith("iio:device") else ""
    return KernelDevice(name, address_of(path), _inputs(path)) if name else None


def _inputs(device: Path) -> Iterator[Channel]:
    forms: dict[str, re.Match[str]] = {}
    for path in sorted(device.iterdir()):  # "input" comes before "raw"
        if found := _CHANNEL.fullmatch(path.name):
            forms.setdefault(found["channel"], found)
    for channel, found in forms.items():
        unit, factor = _UNITS.get(found["type"], ("", 1.0))
        scaled = found["form"] == "input" or _attribute(device, found, "scale").exists()
        if scaled:
            yield Channel(segment(channel), unit, partial(_value, device, found, factor))
        else:  # counts of a converter, of which nobody says what they are worth
            yield Channel(f"{segment(channel)}_raw", "", partial(_count, device, found))


def _count(device: Path, found: re.Match[str]) -> float:
    return float(line_of(device / found[0]))


def _value(device: Path, found: re.Match[str], factor: float) -> float:
    value = _count(device, found)
    if found["form"] == "input":
        return value * factor
    offset = text_of(_attribute(device, found, "offset"))
    return (value + float(offset or 0)) * float(line_of(_attribute(device, found, "scale"))) * factor


def _attribute(device: Path, found: re.Match[str], what: str) -> Path:
    """Return the file of a channel's scale or offset; of what the kernel has, the first that there is.

    That is the channel's own; that of all channels of its type, where a difference of two (`voltage0-voltage1`) is a
    type of its own (`voltage-voltage`); that of all channels that go in; or that of the device.
    """
    shared = f"{found['type']}-{found['against']}" if found["against"] else found["type"]
    names = (f"in_{found['channel']}_{what}", f"in_{shared}_{what}", f"in_{what}", what)
    return next((path for path in (device / each for each in names) if path.exists()), device / names[0])
