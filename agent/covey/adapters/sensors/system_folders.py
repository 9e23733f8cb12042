"""What the sensors that the kernel shows as files (`hwmon`, `iio`, `w1`) have in common.

A file that says an error is one channel's failure: the others are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from covey.core.telemetry.senml import Reading
from covey.errors import SensorError
from covey.limits.sensors import MAXIMUM_SENSOR_VALUES
from covey.ports import Measurement

Channel = tuple[str, str, Callable[[], float]]
"""What a reading is called below the sensor, its unit, and what reads it; which may raise OSError or ValueError."""

_MOST_BYTES = 4096


class SystemFolder:
    """A sensor whose channels are files, found anew at each look: what is plugged in later is read, too."""

    def __init__(self, what: str, folder: str, wanted: Iterable[str], channels: Callable[[Path], Channels]) -> None:
        self._what = what
        self._folder = Path(folder)
        self._wanted = frozenset(wanted)
        self._channels = channels

    def read(self) -> Measurement:
        """Read every channel that there is."""
        try:
            found = self._found()
        except OSError as error:
            raise SensorError(f"{self._folder} cannot be read: {error.strerror}: is the driver loaded?") from error
        readings, failures = [], []
        for name, unit, read in found:
            try:
                readings.append(Reading(name, unit, None, read()))
            except (OSError, ValueError) as error:
                failures.append(f"{name}: {error}")
        if not readings:
            raise SensorError(failures[0] if failures else f"no {self._what} to read in {self._folder}")
        return Measurement(readings, failures[0] if failures else "")

    def close(self) -> None:
        """Nothing is held."""

    def _found(self) -> list[Channel]:
        """Return the channels of the devices that are wanted; two devices of one name get numbers."""
        found: list[Channel] = []
        seen: dict[str, int] = {}
        missing = set(self._wanted)
        for device in sorted(self._folder.iterdir()):
            name, channels = self._channels(device)
            if not name or (self._wanted and name not in self._wanted):
                continue
            missing.discard(name)
            seen[name] = seen.get(name, 0) + 1
            number = f":{seen[name]}" if seen[name] > 1 else ""
            found += [(f"{where.format(number)}", unit, read) for where, unit, read in channels]
        if missing:
            found.append((min(missing), "", _gone))
        return found[:MAXIMUM_SENSOR_VALUES]


Channels = tuple[str, Iterator[Channel]]
"""A device's name, empty where it is none, and its channels; `{}` in a name is where a number may stand."""


def _gone() -> float:
    raise OSError("is not there")


def line_of(path: Path) -> str:
    """Return what a file of the kernel says; it says an error in the kernel's words."""
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace").strip()


def text_of(path: Path) -> str:
    """Return what a file says, or nothing where there is none."""
    try:
        return line_of(path)
    except OSError:
        return ""
