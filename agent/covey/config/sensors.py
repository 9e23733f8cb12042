"""Sensors as their owner writes them, `[[sensor]]` in any file of the configuration, checked as strictly as settings.

    [[sensor]]
    name = "boiler"          # begins the names of all its readings
    kind = "w1"
    interval_seconds = 10    # for kinds that are polled; 0 for those that send by themselves

1. What else an entry says depends on its kind: `KINDS` has them all, the dataclasses below are their settings, and
   `covey sensor kinds` shows them.
2. No operator sets these: an entry may name a program.
3. A kind that is none of ours is one of a package that is installed (`covey.sensors`), which is loaded, and its keys
   checked, where the sensor is opened: one that is missing stops no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from covey.config.kinds import EntryKind, PackagedOptions, entry_name, is_entry_name, unique_entries
from covey.config.tables import option, table_of, value_of
from covey.core.telemetry.names import segment
from covey.core.telemetry.topic_filters import covers, overlap
from covey.errors import ConfigurationError
from covey.limits.sensors import MAXIMUM_SENSOR_VALUES, MAXIMUM_SENSORS

_HINT = "docs/how-to/sensors.md has an example of each kind"
_COMMON = ("name", "kind", "interval_seconds")
_OFTEN = 10.0
_ORDERS = ("ABCD", "CDAB", "BADC", "DCBA")
_FLOATS = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class Hwmon:
    """What the kernel's drivers watch on this machine's boards: temperatures, voltages, currents, powers, fans."""

    chips: tuple[str, ...] = option((), "chips to read; empty: all", ("nct6775",), high=MAXIMUM_SENSOR_VALUES)
    folder: str = option("/sys/class/hwmon", "folder where the kernel lists them", "/sys/class/hwmon")


@dataclass(frozen=True, slots=True)
class Iio:
    """What the kernel's drivers of industrial I/O measure: air, light, converters, on I2C and SPI."""

    devices: tuple[str, ...] = option((), "devices to read; empty: all", ("bme280",), high=MAXIMUM_SENSOR_VALUES)
    folder: str = option("/sys/bus/iio/devices", "folder where the kernel lists them", "/sys/bus/iio/devices")


@dataclass(frozen=True, slots=True)
class OneWire:
    """Thermometers on a 1-Wire bus: DS18B20 and its kin."""

    devices: tuple[str, ...] = option(
        (), "serial numbers to read; empty: all", ("28-0316a2795e1f",), high=MAXIMUM_SENSOR_VALUES
    )
    folder: str = option("/sys/bus/w1/devices", "folder where the kernel lists them", "/sys/bus/w1/devices")


@dataclass(frozen=True, slots=True)
class Exec:
    """A program of the owner's, which prints what it measures."""

    command: tuple[str, ...] = option(
        (), "program (absolute path) and its arguments", ("/usr/local/bin/tide", "--port=Cuxhaven"), "", 1, 64
    )
    format: str = option("senml", "format of each printed line", "line-protocol", choices=("senml", "line-protocol"))
    timeout_seconds: float = option(30.0, "longest run, if it is started for each measurement", 5.0, "s", 0.1, 60)
    silence_seconds: float = option(
        0.0, "silence after which a program that keeps running is restarted; 0: never", 600.0, "s", 0, 86_400
    )
    memory_mib: int = option(256, "memory limit", 64, "MiB", 8, 4_096)


@dataclass(frozen=True, slots=True)
class Topic:
    """What is read out of the messages of some topics: one value, a number, a boolean, or one of two words."""

    topic: str = option("", "topic filter, with MQTT wildcards", "zigbee2mqtt/+")
    path: str = option("", "dotted path of keys and indexes to the value; empty: the whole payload", "AM2301.Humidity")
    name: str = option("", "name; empty: the last key of `path`", "humidity")
    unit: str = option("", "SenML unit", "%RH")
    time: str = option("", "dotted path to the time, as Unix seconds or ISO 8601; empty: now", "params.ts")
    on: tuple[str, ...] = option(("ON", "on", "true"), "texts that mean true", ("OPEN",), high=16)
    off: tuple[str, ...] = option(("OFF", "off", "false"), "texts that mean false", ("CLOSED",), high=16)

    @property
    def leaf(self) -> str:
        """What stands behind the wildcards in the name of a reading; empty: nothing."""
        keys = re.split(r"[.\[\]]+", self.path.removeprefix("$").strip(".[]"))
        return self.name or segment(keys[-1]) if self.path else self.name

    def may_be_named_as(self, other: Topic) -> bool:
        """Say whether a reading of this and one of another entry may have one name."""
        mine, others = self._pattern(), other._pattern()
        if "#" not in {*mine, *others}:
            return len(mine) == len(others) and all(map(_may_be, mine, others))
        return all(map(_may_be, reversed(mine), reversed(others)))

    def _pattern(self) -> list[str]:
        wild = [each for each in self.topic.split("/") if each in {"+", "#"}]
        return [*wild, *filter(None, self.leaf.split("/"))]

    def __post_init__(self) -> None:
        """Refuse a filter of topics that MQTT has not (MQTT 5, section 4.7)."""
        levels = self.topic.split("/")
        hashes = "#" in self.topic and (self.topic.count("#") > 1 or levels[-1] != "#")
        if not self.topic or "\0" in self.topic or hashes or any("+" in each and each != "+" for each in levels):
            raise ValueError(f"topic {self.topic!r} must be an MQTT filter: + for one level, # for all levels after it")


def _may_be(one: str, other: str) -> bool:
    return one == other or bool({"+", "#"} & {one, other})


@dataclass(frozen=True, slots=True)
class Mqtt:
    """What others publish at a broker: Zigbee2MQTT, Tasmota, ESPHome, Shelly."""

    url: str = option("mqtt://127.0.0.1", "the broker", "mqtts://broker.home:8883")
    user_name: str = option("", "user name at the broker", "covey")
    password_file: str = option("", "file with the password, mode 0600", "/etc/covey/broker.password")
    ca_file: str = option("", "file with trusted CA certificates; empty: the system's", "/etc/covey/home-ca.pem")
    client_id: str = option(
        "", "client id, unique at the broker; empty: made of the machine and the sensor", "covey-attic"
    )
    topics: tuple[Topic, ...] = ()

    def __post_init__(self) -> None:
        """Refuse one that reads nothing, and a broker that is nowhere."""
        if not self.topics:
            raise ValueError('topics must have an entry: [{ topic = "zigbee2mqtt/+", path = "temperature" }]')
        if not re.fullmatch(r"mqtts?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?", self.url):
            raise ValueError("url must be mqtt://HOST:PORT or mqtts://HOST:PORT")
        for one, other in combinations(self.topics, 2):
            covered = covers(one.topic, other.topic) or covers(other.topic, one.topic)
            if overlap(one.topic, other.topic) and not covered:
                raise ValueError(
                    f"topics {one.topic} and {other.topic} overlap: a message that matches both would be read twice; "
                    f"use one topic that covers both, or two sensors"
                )
            if one.may_be_named_as(other):
                raise ValueError(
                    f"values of {one.topic} ({one.path or 'the payload'}) and {other.topic} "
                    f'({other.path or "the payload"}) may get the same name; give one of them another: name = "..."'
                )


@dataclass(frozen=True, slots=True)
class Register:
    """One value of a Modbus device: where it stands, what its bits mean, and what it is called."""

    name: str = option("", "name", "power")
    address: int = option(
        -1, "address in the table, counted from 0: 0 if a manual says 40001 or 30001", 52, "", 0, 65_535
    )
    table: str = option("holding", "table to read", "input", choices=("holding", "input", "coil", "discrete"))
    type: str = option(
        "",
        "type; empty: uint16, or bool for coils and discrete inputs",
        "float32",
        choices=("", "bool", *(f"{kind}{bits}" for bits in (16, 32, 64) for kind in ("int", "uint")), *_FLOATS),
    )
    bit: int = option(0, "for a bool in a register: the bit, 0 is the lowest", 3, "", 0, 15)
    order: str = option("", "byte order; empty: the sensor's", "CDAB", choices=("", *_ORDERS))
    scale: float = option(1.0, "factor to multiply with", 0.1)
    unit: str = option("", "SenML unit after multiplying", "W")
    unit_id: int = option(-1, "unit id of the device; -1: the sensor's", 17, "", -1, 255)

    @property
    def meaning(self) -> str:
        """What its bits mean."""
        return self.type or ("bool" if self.bits else "uint16")

    @property
    def bits(self) -> bool:
        """Whether its table is one of single bits."""
        return self.table in {"coil", "discrete"}

    @property
    def size(self) -> int:
        """How many places it takes in its table: registers of 16 bits, or bits."""
        return 1 if self.meaning == "bool" else int(self.meaning[-2:]) // 16

    def __post_init__(self) -> None:
        """Refuse one without a name, or with a meaning that its table or place has no room for."""
        if not self.name:
            raise ValueError("name is missing")
        if self.bits and self.meaning != "bool":
            raise ValueError(f"{self.name}: an entry of table {self.table} is a bool, not {self.type}")
        if self.meaning == "bool" and self.scale != 1:
            raise ValueError(f"{self.name}: a bool cannot have a scale")
        if self.address + self.size > 65_536:
            raise ValueError(f"{self.name}: {self.type} at {self.address} ends after the last register, 65535")


@dataclass(frozen=True, slots=True)
class Modbus:
    """What devices on a Modbus line measure: meters, inverters, controllers; by TCP, or RTU on a serial port."""

    url: str = option("", "tcp://HOST:PORT, or rtu:// and a serial port", "rtu:///dev/ttyUSB0")
    unit_id: int = option(1, "unit id (slave address) of the device", 17, "", 0, 255)
    order: str = option(
        "ABCD", "byte order of numbers: CDAB is low word first, BADC is bytes swapped", "CDAB", choices=_ORDERS
    )
    baud_rate: int = option(9_600, "baud rate", 19_200, "Bd", 300, 4_000_000)
    parity: str = option("none", "parity", "even", choices=("none", "even", "odd"))
    stop_bits: int = option(1, "stop bits", 2, "", 1, 2)
    timeout_seconds: float = option(2.0, "time to wait for an answer", 5.0, "s", 1, 30)
    registers: tuple[Register, ...] = ()

    def __post_init__(self) -> None:
        """Refuse one that reads nothing or the same twice, and a line that is nowhere."""
        if not re.fullmatch(r"tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?|rtu:///\S+", self.url):
            raise ValueError("url must be tcp://HOST:PORT or rtu:///dev/ttyUSB0")
        if not self.registers:
            raise ValueError('registers must have an entry: [{ name = "power", address = 52, type = "float32" }]')
        names = [each.name for each in self.registers]
        if twice := next((each for each in names if names.count(each) > 1), ""):
            raise ValueError(f"two registers are named {twice}")


@dataclass(frozen=True, slots=True)
class SensorEntry:
    """A configured sensor; `options` has its kind's settings. With `interval_seconds` 0 it sends readings by itself."""

    name: str
    kind: str
    interval_seconds: float
    options: Any


@dataclass(frozen=True, slots=True)
class SensorKind(EntryKind):
    """A kind of sensor: `opens` takes a `ports.SensorOpening` and returns a `ports.Sensor`.

    The texts are its row in docs/reference/doors.md: a reading's name, unit and time, what its source repeats after a
    crash, and why no reading is stored twice. With `interval_seconds` 0 the sensor sends readings by itself.
    """

    reading: str
    unit: str
    time: str
    repeats: str = "nothing"
    once: str = "a new measurement replaces it"
    interval_seconds: float = 10.0
    least_interval_seconds: float = 0.1


_WHEN_READ = "when it was read"
KINDS: dict[str, SensorKind] = {
    "exec": SensorKind(
        Exec,
        "covey.adapters.sensors.program:from_entry",
        reading="SENSOR`/`, then the printed name",
        unit="as printed",
        time="as printed; else when it was read",
        once="each line is read once",
        interval_seconds=0.0,
        least_interval_seconds=0.0,
    ),
    "iio": SensorKind(
        Iio,
        "covey.adapters.sensors.iio:from_entry",
        reading="SENSOR`/`DEVICE`/`ADDRESS`/`CHANNEL",
        unit="SenML's, by the channel's type",
        time=_WHEN_READ,
    ),
    "w1": SensorKind(
        OneWire,
        "covey.adapters.sensors.one_wire:from_entry",
        reading="SENSOR`/`SERIAL`/temperature`",
        unit="`Cel`",
        time=_WHEN_READ,
        least_interval_seconds=1.0,
    ),
    "hwmon": SensorKind(
        Hwmon,
        "covey.adapters.sensors.hwmon:from_entry",
        reading="SENSOR`/`CHIP`/`ADDRESS`/`INPUT`:`LABEL",
        unit="SenML's, by the channel's type",
        time=_WHEN_READ,
    ),
    "modbus": SensorKind(
        Modbus,
        "covey.adapters.sensors.modbus:from_entry",
        reading="SENSOR`/`NAME",
        unit="as the entry says",
        time="when the device answered",
    ),
    "mqtt": SensorKind(
        Mqtt,
        "covey.adapters.sensors.mqtt_topics:from_entry",
        reading="SENSOR`/`WILDCARDS`/`NAME",
        unit="as the entry says",
        time="the key that `time` names; else the arrival",
        repeats="messages without acknowledgement",
        once="the outbox stores packet identifier and digest with the readings (ADR 74)",
        interval_seconds=0.0,
        least_interval_seconds=0.0,
    ),
}
"""Every kind of sensor that Covey brings."""


def read_sensors(tables: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[SensorEntry, ...]:
    """Read entries, each with its place in the configuration.

    Raises:
        ConfigurationError: an unknown or missing key, a value of another type, or a duplicate name.
    """
    entries = ((where, _entry(table, where)) for where, table in tables)
    named = ((where, entry.name, entry) for where, entry in entries)
    return unique_entries("sensor", named, MAXIMUM_SENSORS, "one entry can read several values")


def _entry(table: Mapping[str, Any], where: str) -> SensorEntry:
    name, kind = entry_name(table, "sensor", where, _HINT), table.get("kind")
    where = f"{where}: sensor {name}"
    if not is_entry_name(kind):
        raise ConfigurationError(
            f"{where}: kind must be one of {', '.join(KINDS)}, or one of an installed package", hint=_HINT
        )
    known = KINDS.get(kind)
    often, least = (known.interval_seconds, known.least_interval_seconds) if known else (_OFTEN, 0.0)
    about = {"meaning": "time between readings", "example": 10.0, "unit": "s", "choices": ()}
    interval = value_of(
        {**about, "default": often, "bounds": (least, 86_400)},
        table.get("interval_seconds"),
        f"{where}: interval_seconds",
    )
    own = {key: value for key, value in table.items() if key not in _COMMON}
    options = table_of(known.settings, own, where, _COMMON, _HINT) if known else PackagedOptions(own)
    return SensorEntry(name, kind, interval, options)
