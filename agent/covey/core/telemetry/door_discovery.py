"""Home Assistant MQTT discovery of a series: documents, topics and expiry times.

1. A topic consists of our own words, hex, and the characters `a-z0-9_` of a series' name: so a device's topics are
   always below its own key.
2. `unique_id` is derived from key, name, unit and kind, so an entity stays the same when its device is renamed.
3. A value expires after three of its intervals, as observed here; then the entity is unavailable.
4. An older value is not published, because Home Assistant uses the time of arrival as its time.

https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from covey.core import crypto
from covey.core.ids import DeviceKey, printable
from covey.core.telemetry.batch import ClockKind
from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading
from covey.core.telemetry.names import shown
from covey.core.wire import cbor

_ROOT = "covey/readings"
_DEVICE_BYTES, _SERIES_BYTES = 16, 4
_NAMED = 64
STATE_CHARACTERS = 255
"""Home Assistant refuses a state that is longer. A longer text is cut, and stands whole among the attributes."""

_STEPS_S = (60, 120, 300, 600, 1_800, 3_600, 10_800, 43_200, 86_400, 604_800)
"""What a value is said to be good for: few steps, so that an interval that varies changes no entity."""

_AT_FIRST_S = 3_600
_ARRIVALS = 8
_INTERVALS = 3

NUMBER, SWITCH, TEXT = "number", "switch", "text"

_UNITS: Mapping[str, tuple[str, str]] = {
    "Cel": ("°C", "temperature"),
    "K": ("K", "temperature"),
    "%RH": ("%", "humidity"),
    "%EL": ("%", "battery"),
    "Pa": ("Pa", "pressure"),
    "V": ("V", "voltage"),
    "A": ("A", "current"),
    "W": ("W", "power"),
    "VA": ("VA", "apparent_power"),
    "Hz": ("Hz", "frequency"),
    "lx": ("lx", "illuminance"),
    "m": ("m", "distance"),
    "g": ("g", "weight"),
    "kg": ("kg", "weight"),
    "m/s": ("m/s", "speed"),
    "s": ("s", "duration"),
    "/": ("", ""),
}
"""SenML's units (RFC 8428, section 12.1) as Home Assistant writes them, and its device class."""


class EntitySeries(NamedTuple):
    """A series of a device's: what an entity is made of."""

    author: DeviceKey
    name: str
    unit: str
    kind: str

    @property
    def device(self) -> str:
        """What its device is called in topics and ids: half of its key, in hex."""
        return device_id(self.author)

    @property
    def id(self) -> str:
        """What it is called there: as much of its name as is safe, and a digest of all of it."""
        plain = re.sub(r"[^a-z0-9]+", "_", self.name.lower())[:40].strip("_")
        digest = crypto.digest(b"covey/1 series", cbor.encode([self.name, self.unit, self.kind]))[:_SERIES_BYTES].hex()
        return f"{plain}_{digest}" if plain else digest

    @property
    def unique_id(self) -> str:
        """The constant id of its entity in Home Assistant."""
        return f"covey_{self.device}_{self.id}"

    @property
    def state_topic(self) -> str:
        """Where its values are published."""
        return f"{_ROOT}/{self.device}/{self.id}"

    def config_topic(self, prefix: str) -> str:
        """Return where its configuration is published."""
        component = "binary_sensor" if self.kind == SWITCH else "sensor"
        return f"{prefix}/{component}/covey_{self.device}/{self.id}/config"


def device_id(author: DeviceKey) -> str:
    """Return what a device is called in topics and ids."""
    return author[:_DEVICE_BYTES].hex()


def device_topic(author: DeviceKey) -> str:
    """Return where a device's availability is published."""
    return f"{_ROOT}/{device_id(author)}"


def door_topic(door: str) -> str:
    """Return where a door's own availability is published; no device's id is a word."""
    return f"{_ROOT}/door-{door}"


def series_of(message: DoorMessage, reading: DoorReading) -> EntitySeries | None:
    """Return the series of a reading; None for data, which no state can hold."""
    value = reading.value
    if isinstance(value, bytes):
        return None
    kind = SWITCH if isinstance(value, bool) else TEXT if isinstance(value, str) else NUMBER
    return EntitySeries(message.author, reading.name, reading.unit, kind)


@dataclass(slots=True)
class SeriesRhythm:
    """When values of a series came, and what was announced of it. Times are microseconds since 1970."""

    newest_at_us: int = 0
    announced: tuple[str, int] = ("", 0)
    """The label, and after how many seconds a value is none, as its configuration says."""
    arrivals: deque[int] = field(default_factory=lambda: deque(maxlen=_ARRIVALS))

    def note(self, message: DoorMessage, *, is_backlog: bool) -> None:
        """Note that a message with a value of it came; what was late says nothing of its rhythm."""
        if not is_backlog and (not self.arrivals or message.received_at_us > self.arrivals[-1]):
            self.arrivals.append(message.received_at_us)

    def is_news(self, at_us: int, now_us: int) -> bool:
        """Say whether a value is newer than what was published, and young enough to be one; a clock may be ahead."""
        return at_us > min(self.newest_at_us, now_us) and now_us - at_us < self.expire_after_s * 1_000_000

    @property
    def expire_after_s(self) -> int:
        """After how many seconds a value is none."""
        times = sorted(later - earlier for earlier, later in zip(self.arrivals, [*self.arrivals][1:], strict=False))
        if not times:
            return _AT_FIRST_S
        wanted_s = _INTERVALS * times[len(times) // 2] / 1e6
        return next((each for each in _STEPS_S if each >= wanted_s), _STEPS_S[-1])


def measured_at_us(message: DoorMessage, reading: DoorReading) -> int:
    """Return when a value was measured; by a clock that nobody has set, when it landed."""
    return message.received_at_us if message.clock is ClockKind.UNSYNCHRONISED else reading.at_us


def home_unit(unit: str) -> tuple[str, str]:
    """Return a unit of SenML as Home Assistant writes it, and its device class; empty where it has none."""
    return _UNITS.get(unit, (printable(unit, 32), ""))


def config_document(series: EntitySeries, label: str, door: str, expire_after_s: int) -> bytes:
    """Return the Home Assistant configuration of a series."""
    unit, device_class = home_unit(series.unit)
    found: dict[str, object] = {
        "name": printable(shown(series.name), _NAMED),
        "unique_id": series.unique_id,
        "state_topic": series.state_topic,
        "value_template": "{{ value_json.value }}",
        "json_attributes_topic": series.state_topic,
        "expire_after": expire_after_s,
        "availability": [{"topic": door_topic(door)}, {"topic": device_topic(series.author)}],
        "availability_mode": "all",
        "device": {
            "identifiers": [f"covey_{series.device}"],
            "name": printable(label, _NAMED) or f"covey {series.device[:8]}",
            "manufacturer": "Covey",
        },
        "origin": {"name": "covey"},
    }
    if series.kind == SWITCH:
        found |= {"payload_on": "True", "payload_off": "False"}
    if series.kind == NUMBER:
        found |= {"state_class": "measurement"}
        found |= {"unit_of_measurement": unit} if unit else {}
        found |= {"device_class": device_class} if device_class else {}
    return _json(found)


def state_document(batch: DoorBatch, message: DoorMessage, reading: DoorReading) -> bytes:
    """Return a value with when it was measured, and whether it is backlog."""
    value = reading.value
    found: dict[str, object] = {
        "value": value,
        "measured_at": measured_at_us(message, reading) / 1e6,
        "clock": message.clock.name.lower(),
        "backlog": batch.is_backlog(message, reading),
    }
    if isinstance(value, str) and len(value) > STATE_CHARACTERS:
        found |= {"value": value[: STATE_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}", "text": value}
    return _json(found)


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
