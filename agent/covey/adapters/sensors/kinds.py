"""A sensor out of its entry: each kind's adapter is loaded where an entry names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.config.sensors import KINDS, Exec, FurtherKind, Hwmon, Iio, Modbus, Mqtt, OneWire
from covey.errors import SensorError

if TYPE_CHECKING:
    from covey.config.sensors import SensorEntry
    from covey.ports import Clock, Sensor


def open_sensor(entry: SensorEntry, clock: Clock, position: bytes = b"", *, trial: bool = False) -> Sensor:
    """Open the sensor of an entry, where it had come to; a `trial` takes nothing from an agent that reads it too.

    Raises:
        SensorError: it is not there, or its kind is none that is installed. Packages raise what they like.
    """
    sensor: Sensor
    match entry.options:
        case Hwmon():
            from covey.adapters.sensors.hwmon import open_hwmon

            sensor = open_hwmon(entry.options)
        case Iio():
            from covey.adapters.sensors.iio import open_iio

            sensor = open_iio(entry.options)
        case OneWire():
            from covey.adapters.sensors.one_wire import open_one_wire

            sensor = open_one_wire(entry.options)
        case Exec():
            from covey.adapters.sensors.program import ProgramSensor

            sensor = ProgramSensor(entry.options, clock, runs_on=not entry.interval_seconds)
        case Mqtt():
            from covey.adapters.sensors.mqtt_topics import open_mqtt

            sensor = open_mqtt(entry.name, entry.options, position, lasting=not trial)
        case Modbus():
            from covey.adapters.sensors.modbus import open_modbus

            sensor = open_modbus(entry.options, clock)
        case FurtherKind():
            sensor = _further(entry, entry.options)
    return sensor


def _further(entry: SensorEntry, options: FurtherKind) -> Sensor:
    from importlib.metadata import entry_points

    found = {each.name: each for each in entry_points(group="covey.sensors")}
    if entry.kind not in found:
        raise SensorError(
            f"kind {entry.kind} is none of {', '.join([*KINDS, *found])}", hint="install the package that brings it"
        )
    sensor: Sensor = found[entry.kind].load()(entry.name, options.keys)
    return sensor
