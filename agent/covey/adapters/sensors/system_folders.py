"""What the sensors that the kernel shows as files (`hwmon`, `iio`, `w1`) have in common.

1. A file that says an error is one channel's failure: the others are read.
2. A device is called what its driver calls it, and where it is: `bme280/1-0076`, the second on another bus
   `bme280/3-0076`. The kernel's own numbers (`hwmon2`, `iio:device1`) follow from the order in which drivers were
   loaded, so no name has them. Where two devices have one name and no address, neither is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from covey.core.telemetry.drops import Drop
from covey.core.telemetry.names import segment
from covey.core.telemetry.reading import Reading
from covey.errors import SensorError
from covey.limits.sensors import MAXIMUM_SENSOR_VALUES
from covey.ports import Measurement

_MOST_BYTES = 4096
_address = re.compile(
    r"[0-9]+-[0-9a-f]{4}"  # I2C: bus and address
    r"|spi[0-9]+\.[0-9]+"
    r"|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"  # PCI
    r"|[0-9]+-[0-9.]+:[0-9]+\.[0-9]+"  # USB: port and interface
).fullmatch
_KERNELS_OWN = re.compile(r"hwmon[0-9]*|iio:device[0-9]+|nvme[0-9]+")


class Channel(NamedTuple):
    """What a reading is called below its device, its unit, and what reads it; which may raise OSError or ValueError."""

    name: str
    unit: str
    read: Callable[[], float]


class KernelDevice(NamedTuple):
    """A device: what its driver calls it, where it is (empty: nobody says), and its channels.

    `in_names`: whether its readings are called after it.
    """

    name: str
    address: str
    channels: Iterable[Channel]
    in_names: bool = True

    @property
    def segments(self) -> str:
        """How the names of its readings begin."""
        return "/".join(map(segment, filter(None, [self.name, self.address])))

    def named(self, channel: Channel) -> str:
        """Return what a channel's reading is called below the sensor."""
        return f"{self.segments}/{channel.name}" if self.in_names else channel.name


class SystemFolder:
    """A sensor whose channels are files, listed again at each read: so devices plugged in later are read, too."""

    def __init__(
        self, what: str, folder: str, wanted: Iterable[str], device: Callable[[Path], KernelDevice | None]
    ) -> None:
        self._what = what
        self._folder = Path(folder)
        self._wanted = frozenset(wanted)
        self._device = device

    def read(self) -> Measurement:
        """Read every channel that there is."""
        try:
            devices = list(self._wanted_devices())
        except OSError as error:
            raise SensorError(f"{self._folder} cannot be read: {error.strerror}: is the driver loaded?") from error
        readings: list[Reading] = []
        failures: list[str] = []
        left_out = 0
        for each in self._distinct(devices, failures):
            for channel in each.channels:
                if len(readings) + len(failures) >= MAXIMUM_SENSOR_VALUES:
                    left_out += 1
                    continue
                name = each.named(channel)
                try:
                    readings.append(Reading(name, channel.unit, None, channel.read()))
                except (OSError, ValueError) as error:
                    failures.append(f"{name}: {error}")
        if left_out:
            failures.append(f"{left_out} values beyond {MAXIMUM_SENSOR_VALUES} are not read: name the devices to read")
        if not readings:
            raise SensorError(failures[0] if failures else f"{self._folder} contains no readable {self._what}")
        dropped = {Drop.UNREAD: len(failures) - bool(left_out), Drop.SERIES: left_out}
        return Measurement(readings, failures[0] if failures else "", dropped=dropped)

    def close(self) -> None:
        """Nothing is held."""

    def _wanted_devices(self) -> Iterator[KernelDevice]:
        for path in sorted(self._folder.iterdir()):
            found = self._device(path)
            if found is not None and (not self._wanted or self._wanted & {found.name, f"{found.name}/{found.address}"}):
                yield found

    def _distinct(self, devices: list[KernelDevice], failures: list[str]) -> Iterator[KernelDevice]:
        times = Counter(each.segments for each in devices)
        failures += [
            f"{number} devices are called {name}, and nothing tells them apart"
            for name, number in times.items()
            if number > 1
        ]
        there = {name for each in devices for name in (each.name, f"{each.name}/{each.address}")}
        failures += [f"{each}: is not there" for each in sorted(self._wanted - there)]
        yield from (each for each in devices if times[each.segments] == 1)


def address_of(device: Path) -> str:
    """Return where a device is: the nearest address on a bus above it, else what the kernel has it below."""
    real = device.resolve()
    if not device.is_symlink():
        return ""
    above = [each.name for each in real.parents if each.name and not _KERNELS_OWN.fullmatch(each.name)]
    return next(filter(_address, above), above[0] if above else "")


def line_of(path: Path) -> str:
    """Return what a file of the kernel says; it says an error in the kernel's words."""
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="surrogateescape").strip()


def text_of(path: Path) -> str:
    """Return what a file says, or nothing where there is none; one that cannot be read is an OSError."""
    try:
        return line_of(path)
    except FileNotFoundError:
        return ""
