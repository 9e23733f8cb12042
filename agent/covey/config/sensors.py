"""Sensors as their owner writes them, `[[sensor]]` in any file of the configuration, checked as strictly as settings.

[[sensor]]
name = "boiler"          # what all of its readings are called, with what was measured behind it
kind = "w1"
interval_seconds = 10    # of kinds that are asked; 0 for those that speak by themselves

1. What else an entry says depends on its kind: the dataclasses below are the schema, and `covey sensor list` shows it.
2. No operator sets these: an entry may name a program.
3. A kind that is none of ours is one of a package that is installed (`covey.sensors`); it checks its own keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_args, get_type_hints

from covey.config.schema import Value
from covey.config.settings import Setting, nearest
from covey.errors import ConfigurationError
from covey.limits.sensors import MAXIMUM_SENSOR_VALUES, MAXIMUM_SENSORS
from covey.limits.telemetry import MAXIMUM_UNIT_BYTES

_HINT = "docs/sensors.md has an example of each kind"
_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?")
_COMMON = ("name", "kind", "interval_seconds")
_OFTEN = 10.0


def _option(
    default: Value,
    meaning: str,
    example: Value,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    *,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a key of an entry, as `settings.py` does a setting; `choices` are the texts that it may be."""
    about = {"default": default, "meaning": meaning, "example": example, "unit": unit, "bounds": (low, high)}
    return field(default=default, metadata={**about, "choices": choices})


@dataclass(frozen=True, slots=True)
class Hwmon:
    """What the kernel's drivers watch on this machine's boards: temperatures, voltages, currents, powers, fans."""

    chips: tuple[str, ...] = _option((), "chips to read; empty: all", ("nct6775",), high=MAXIMUM_SENSOR_VALUES)
    folder: str = _option("/sys/class/hwmon", "where the kernel shows them", "/sys/class/hwmon")


@dataclass(frozen=True, slots=True)
class Iio:
    """What the kernel's drivers of industrial I/O measure: air, light, converters, on I2C and SPI."""

    devices: tuple[str, ...] = _option((), "devices to read; empty: all", ("bme280",), high=MAXIMUM_SENSOR_VALUES)
    folder: str = _option("/sys/bus/iio/devices", "where the kernel shows them", "/sys/bus/iio/devices")


@dataclass(frozen=True, slots=True)
class OneWire:
    """Thermometers on a 1-Wire bus: DS18B20 and its kin."""

    devices: tuple[str, ...] = _option(
        (), "serial numbers to read; empty: all", ("28-0316a2795e1f",), high=MAXIMUM_SENSOR_VALUES
    )
    folder: str = _option("/sys/bus/w1/devices", "where the kernel shows them", "/sys/bus/w1/devices")


@dataclass(frozen=True, slots=True)
class Exec:
    """A program of the owner's, which prints what it measures."""

    command: tuple[str, ...] = _option(
        (), "the program, by its whole path, and its words", ("/usr/local/bin/tide", "--port=Cuxhaven"), "", 1, 64
    )
    format: str = _option(
        "senml", "what it prints, a line at a time", "line-protocol", choices=("senml", "line-protocol")
    )
    timeout_seconds: float = _option(30.0, "longest run, where it is run for each measurement", 5.0, "s", 0.1, 60)
    silence_seconds: float = _option(
        0.0, "silence after which one that runs on is started anew; 0: it may be silent", 600.0, "s", 0, 86_400
    )
    memory_mib: int = _option(256, "memory that it may take", 64, "MiB", 8, 4_096)


@dataclass(frozen=True, slots=True)
class Topic:
    """What is read out of the messages of some topics: one value, a number, a boolean, or one of two words."""

    topic: str = _option("", "the topics, with the wildcards of MQTT", "zigbee2mqtt/+")
    path: str = _option(
        "", "keys and indexes down to the value, with dots; empty: the payload is it", "AM2301.Humidity"
    )
    name: str = _option("", "what it is called; empty: the last key of `path`", "humidity")
    unit: str = _option("", "its unit, of SenML", "%RH")
    time: str = _option("", "keys down to when it was measured, as Unix seconds or ISO 8601; empty: now", "params.ts")
    on: tuple[str, ...] = _option(("ON", "on", "true"), "words that are true", ("OPEN",), high=16)
    off: tuple[str, ...] = _option(("OFF", "off", "false"), "words that are false", ("CLOSED",), high=16)

    def __post_init__(self) -> None:
        """Refuse a filter of topics that MQTT has not (MQTT 5, section 4.7)."""
        levels = self.topic.split("/")
        hashes = "#" in self.topic and (self.topic.count("#") > 1 or levels[-1] != "#")
        if not self.topic or "\0" in self.topic or hashes or any("+" in each and each != "+" for each in levels):
            raise ValueError(f"topic {self.topic!r} must be a filter of MQTT: + for one level, # for all that follow")


@dataclass(frozen=True, slots=True)
class Mqtt:
    """What others publish at a broker: Zigbee2MQTT, Tasmota, ESPHome, Shelly."""

    url: str = _option("mqtt://127.0.0.1", "the broker", "mqtts://broker.home:8883")
    user_name: str = _option("", "the user name that the broker knows", "covey")
    password_file: str = _option("", "a file with the password, for its owner alone", "/etc/covey/broker.password")
    ca_file: str = _option("", "who vouches for the broker; empty: whom this system believes", "/etc/covey/home-ca.pem")
    client_id: str = _option("", "a name that no other client has; empty: of the machine and the sensor", "covey-attic")
    topics: tuple[Topic, ...] = ()

    def __post_init__(self) -> None:
        """Refuse one that reads nothing, and a broker that is nowhere."""
        if not self.topics:
            raise ValueError('topics must have an entry: [{ topic = "zigbee2mqtt/+", path = "temperature" }]')
        if not re.fullmatch(r"mqtts?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?", self.url):
            raise ValueError("url must be mqtt://HOST:PORT or mqtts://HOST:PORT")


@dataclass(frozen=True, slots=True)
class FurtherKind:
    """A kind that an installed package brings; it checks its own keys."""

    keys: Mapping[str, Any]


Options = Hwmon | Iio | OneWire | Exec | Mqtt | FurtherKind


@dataclass(frozen=True, slots=True)
class SensorEntry:
    """One sensor as configured; where `interval_seconds` is 0 it speaks by itself."""

    name: str
    kind: str
    interval_seconds: float
    options: Options


KINDS: dict[str, tuple[type, float, float]] = {
    "hwmon": (Hwmon, _OFTEN, 0.1),
    "iio": (Iio, _OFTEN, 0.1),
    "w1": (OneWire, _OFTEN, 1.0),
    "exec": (Exec, 0.0, 0.0),
    "mqtt": (Mqtt, 0.0, 0.0),
}
"""What each kind's keys are, how often it is read unless somebody says so, and how often at most, in seconds."""


def read_sensors(tables: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[SensorEntry, ...]:
    """Read entries, each with where it stands.

    Raises:
        ConfigurationError: an unknown or missing key, a value that is none of its, or a name that is taken.
    """
    found: dict[str, SensorEntry] = {}
    for where, table in tables:
        entry = _entry(table, where)
        if entry.name in found:
            raise ConfigurationError(f"{where}: there are two sensors named {entry.name}", hint="give each its own")
        found[entry.name] = entry
    if len(found) > MAXIMUM_SENSORS:
        raise ConfigurationError(f"there are more than {MAXIMUM_SENSORS} sensors", hint="one entry may read several")
    return tuple(found.values())


def _entry(table: Mapping[str, Any], where: str) -> SensorEntry:
    name, kind = table.get("name"), table.get("kind")
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ConfigurationError(
            f"{where}: [[sensor]]: name must be at most 32 small letters and digits, with _ and - between them",
            hint=_HINT,
        )
    where = f"{where}: sensor {name}"
    if not (isinstance(kind, str) and _NAME.fullmatch(kind)):
        raise ConfigurationError(f"{where}: kind must be one of {', '.join(KINDS)}, or an installed one's", hint=_HINT)
    schema, often, least = KINDS.get(kind, (FurtherKind, _OFTEN, 0.0))
    about = {"meaning": "time between two looks at it", "example": 10.0, "unit": "s", "choices": ()}
    interval = _take(
        {**about, "default": often, "bounds": (least, 86_400)}, "interval_seconds", table.get("interval_seconds"), where
    )
    own = {key: value for key, value in table.items() if key not in _COMMON}
    options = FurtherKind(own) if schema is FurtherKind else _table(schema, own, where, _COMMON)
    return SensorEntry(name, kind, interval, options)


def _table(schema: type, table: object, where: str, beside: tuple[str, ...] = ()) -> Any:
    """Return a table as a dataclass whose fields are options, or tables, or texts by their names."""
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where} must be a table", hint=_HINT)
    known = {each.name: each for each in fields(schema)}
    for key in table:
        if key not in known:
            near = nearest(key, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join((*beside, *known))}"
            raise ConfigurationError(f"{where}: {key} is nothing that is known here", hint=hint)
    kinds = get_type_hints(schema)
    values = {}
    for key, each in known.items():
        if each.metadata:
            values[key] = _take(each.metadata, key, table.get(key), where)
        elif key in table and kinds[key] == Mapping[str, str]:
            values[key] = _texts(table[key], f"{where}: {key}")
        elif key in table:
            values[key] = _tables(get_args(kinds[key])[0], table[key], f"{where}: {key}")
    try:
        return schema(**values)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}", hint=_HINT) from error


def _take(about: Mapping[str, Any], key: str, value: object, where: str) -> Any:
    low, high = about["bounds"]
    key = f"{where}: {key}"
    setting = Setting(
        *(key, about["default"], about["meaning"], about["example"], about["unit"], low, high),
        local=True,
        choices=about["choices"],
    )
    return setting.check(about["default"] if value is None else value, key)


def _texts(value: object, where: str) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(type(each) is str for each in value.values()):
        raise ConfigurationError(f'{where} must be a table of texts: {{ temperature = "Cel" }}', hint=_HINT)
    if len(value) > MAXIMUM_SENSOR_VALUES or any(len(each.encode()) > MAXIMUM_UNIT_BYTES for each in value.values()):
        raise ConfigurationError(
            f"{where} has at most {MAXIMUM_SENSOR_VALUES} units of at most {MAXIMUM_UNIT_BYTES} bytes", hint=_HINT
        )
    return value


def _tables(schema: type, value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list) or len(value) > MAXIMUM_SENSOR_VALUES:
        raise ConfigurationError(f"{where} must be at most {MAXIMUM_SENSOR_VALUES} tables", hint=_HINT)
    return tuple(_table(schema, each, f"{where} {number}") for number, each in enumerate(value, 1))
