"""What the kernel's drivers of industrial I/O measure, as readings: `bme280/temp`, `ads1115/voltage0`.

A channel's value is in `_input`; else it is (`_raw` + `_offset`) x `_scale`, where scale and offset may stand for the
channel or for all of its type. Source: Documentation/ABI/testing/sysfs-bus-iio of the kernel.
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
    from covey.config.sensors import Iio

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

_CHANNEL = re.compile(r"in_(?P<channel>(?P<type>[a-z]+)\d*(?:-[a-z]+\d*)?(?:_[a-z0-9]+)*)_(?P<form>input|raw)")


def open_iio(options: Iio) -> SystemFolder:
    """Return the sensor; nothing is opened before it is read."""
    return SystemFolder("device", options.folder, options.devices, _channels)


def _channels(device: Path) -> Channels:
    name = text_of(device / "name") if device.name.startswith("iio:device") else ""
    return name, _inputs(device, segment(name))


def _inputs(device: Path, name: str) -> Iterator[Channel]:
    forms: dict[str, re.Match[str]] = {}
    for path in sorted(device.iterdir()):  # "input" comes before "raw"
        if found := _CHANNEL.fullmatch(path.name):
            forms.setdefault(found["channel"], found)
    for channel, found in forms.items():
        unit, factor = _UNITS.get(found["type"], ("", 1.0))
        yield f"{name}{{}}/{segment(channel)}", unit, partial(_value, device, found, factor)


def _value(device: Path, found: re.Match[str], factor: float) -> float:
    value = float(line_of(device / found[0]))
    if found["form"] == "input":
        return value * factor
    offset = _shared(device, found, "offset")
    scale = _shared(device, found, "scale")
    return (value + float(offset or 0)) * float(scale or 1) * factor


def _shared(device: Path, found: re.Match[str], what: str) -> str:
    """Return a channel's scale or offset: its own, or that of its type."""
    own = text_of(device / f"in_{found['channel']}_{what}")
    return own or text_of(device / f"in_{found['type']}_{what}")
