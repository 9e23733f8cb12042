"""Open a sensor from its entry; its kind's module is loaded only if an entry names it (`config.sensors.KINDS`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.config.kinds import SENSORS, PackagedOptions, opener, packaged_kind, packaged_kinds
from covey.config.sensors import KINDS, SensorKind
from covey.config.tables import table_of
from covey.errors import SensorError
from covey.ports import SensorOpening

if TYPE_CHECKING:
    from covey.config.sensors import SensorEntry
    from covey.ports import Clock, Sensor


def open_sensor(entry: SensorEntry, clock: Clock, position: bytes = b"", *, trial: bool = False) -> Sensor:
    """Open the sensor of an entry, where it had come to; a `trial` takes nothing from an agent that reads it too.

    Raises:
        SensorError: it is not there, or its kind is none that is installed. Packages raise what they like.
        ConfigurationError: a package's kind does not know what the entry says.
    """
    kind, options = KINDS.get(entry.kind), entry.options
    if isinstance(options, PackagedOptions):
        kind = packaged_kind(SENSORS, entry.kind, SensorKind)
        if kind is None:
            known = ", ".join([*KINDS, *packaged_kinds(SENSORS)])
            raise SensorError(
                f"kind {entry.kind} is unknown; known: {known}", hint="install the package that provides it"
            )
        options = table_of(kind.settings, options.keys, f"sensor {entry.name}")
    assert kind is not None
    opening = SensorOpening(entry.name, options, entry.interval_seconds, clock, position, trial)
    sensor: Sensor = opener(kind)(opening)
    return sensor
