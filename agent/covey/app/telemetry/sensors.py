"""The configured sensors: list them, and read one now."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from contextlib import closing
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from covey.adapters.clock import SystemClock
from covey.config.kinds import SENSORS, ListedKind, listed_kinds
from covey.config.sensors import KINDS
from covey.core.now import ABSOLUTE_US
from covey.errors import LocalError, SensorError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.app.telemetry.documents import SensorStatus
    from covey.config.sensors import SensorEntry
    from covey.core.telemetry.reading import Reading
    from covey.ports import Measurement


@dataclass(frozen=True, slots=True)
class ListedSensor:
    """A sensor as configured, and as the agent last knew it; 0 seconds: it speaks by itself."""

    name: str
    kind: str
    interval_seconds: float
    state: str
    seconds: int | None
    last_reading_seconds: int | None
    dropped: Mapping[str, int]


def listed_sensors(folder: StateFolder, known: Mapping[str, SensorStatus]) -> list[ListedSensor]:
    """Return every sensor of the configuration, with the state that the running agent gives (`known`, by name).

    Raises:
        ConfigurationError: an entry is wrong.
    """
    found = []
    for entry in folder.configuration.sensors():
        seen = known.get(entry.name)
        about = ("not read yet", None, None, {}) if seen is None else astuple(seen)[1:]
        found.append(ListedSensor(entry.name, entry.kind, entry.interval_seconds, *about))
    return found


def sensor_kinds() -> list[ListedKind]:
    """Return every kind of sensor that an entry may name."""
    return listed_kinds(KINDS, SENSORS)


def entry_named(folder: StateFolder, name: str) -> SensorEntry:
    """Return a sensor of the configuration.

    Raises:
        ConfigurationError: an entry is wrong.
        LocalError: there is none of that name.
    """
    entries = {each.name: each for each in folder.configuration.sensors()}
    if name not in entries:
        known = f"known: {', '.join(entries)}" if entries else "docs/how-to/sensors.md shows how one is written"
        raise LocalError(f"the configuration has no sensor {name}", hint=known)
    return entries[name]


def tried(entry: SensorEntry, seconds: float) -> Measurement:
    """Read a sensor until it says something, for so many seconds at most; nothing is sent.

    Raises:
        SensorError: it does not measure, or says nothing in this time.
    """
    from covey.adapters.sensors.kinds import open_sensor
    from covey.adapters.sensors.worker import read_once

    clock, until = SystemClock(), time.monotonic() + seconds
    try:
        with closing(open_sensor(entry, clock, trial=True)) as sensor:
            while not ((found := read_once(entry.name, sensor, clock)).readings or found.failure):
                if time.monotonic() >= until:
                    raise SensorError(
                        f"{entry.name} gave no reading within {seconds:g} s", hint="wait longer with --seconds N"
                    )
    except (OSError, ValueError, ImportError) as error:
        raise SensorError(f"{entry.name}: {error}") from error
    return found


def as_senml(reading: Reading) -> dict[str, object]:
    """Return a reading as a record of SenML (RFC 8428), its time as Unix time by this machine's clock."""
    clock = SystemClock()
    time_us = reading.time_us or 0
    if time_us < ABSOLUTE_US:
        time_us += clock.wall_us() - clock.monotonic_us()
    record: dict[str, object] = {"n": reading.name, "t": time_us / 1e6}
    if reading.unit:
        record["u"] = reading.unit
    if isinstance(reading.value, bytes):
        return record | {"vd": urlsafe_b64encode(reading.value).decode().rstrip("=")}
    label = {bool: "vb", str: "vs"}.get(type(reading.value), "v")
    return record | {label: reading.value}
