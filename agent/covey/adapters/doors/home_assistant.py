"""Last values to Home Assistant, by its MQTT discovery (`core/telemetry/door_discovery.py` has the documents).

1. Configurations are retained, and so are values, which the broker drops when they expire.
2. An entity is available while this door is connected (a will says when not) and its device is online.
3. A device that leaves the fleet removes its entities, as far as this process knows them.
4. A value is published once more, some seconds after a configuration of its series: an entity with a changed
   configuration is unavailable until its next value, and Home Assistant may process a value before the configuration
   that it came with.
5. Series are bounded, for each device and in total; readings of others are left out, and counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covey.adapters.doors.http_post import secret_text
from covey.adapters.doors.mqtt_publisher import MqttPublisher, Publication
from covey.adapters.mqtt.settings import is_nearby
from covey.adapters.mqtt.tls import tls_context
from covey.adapters.web_address import web_address
from covey.core.telemetry.door_discovery import (
    STATE_CHARACTERS,
    EntitySeries,
    SeriesRhythm,
    config_document,
    device_topic,
    door_topic,
    measured_at_us,
    series_of,
    state_document,
)
from covey.core.telemetry.drops import Drop
from covey.errors import ConfigurationError
from covey.limits.doors import DOOR_SERIES, DOOR_SERIES_OF_DEVICE

if TYPE_CHECKING:
    from covey.adapters.doors.kinds import DoorOpening
    from covey.config.doors import HomeAssistant
    from covey.core.ids import DeviceKey
    from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading, KnownDevice

_ONLINE, _OFFLINE = b"online", b"offline"
_SETTLES_S = 3.0
"""Seconds in which Home Assistant has taken up a configuration."""
_PORTS = {"mqtt": 1883, "mqtts": 8883}


class _Configured(NamedTuple):
    """The value of a series whose configuration was published at `at` of the monotonic clock (rule 4)."""

    at: float
    state: bytes
    measured_at_us: int


def from_entry(opening: DoorOpening) -> HomeAssistantDoor:
    """Open the door of an entry."""
    return HomeAssistantDoor(opening.options, opening.name, opening.where, opening.folder)


class HomeAssistantDoor:
    """Publishes last values."""

    def __init__(self, options: HomeAssistant, name: str, where: str, folder: Path) -> None:
        """Check what is configured.

        Raises:
            ConfigurationError: no address of a broker, a password that would cross foreign networks in the clear, a
                prefix that is no topic, or no certificates.
        """
        url = web_address(options.url, f"{where}: url", _PORTS)
        assert url.hostname is not None
        if url.path.strip("/") or url.query or url.fragment:
            raise ConfigurationError(f"{where}: url must be a broker's address with nothing after the port")
        if bool(url.username) != bool(options.password_file):
            raise ConfigurationError(
                f"{where}: url needs a user where password_file is set, and the other way round",
                hint='url = "mqtts://covey@homeassistant.local", password_file = "home-assistant.password"',
            )
        if options.password_file and url.scheme == "mqtt" and not is_nearby(url.hostname):
            raise ConfigurationError(f"{where}: outside private networks, a password needs mqtts://")
        prefix = options.discovery_prefix
        if not prefix.isprintable() or set(prefix) & set("+#") or prefix.startswith(("$", "/")) or not prefix:
            raise ConfigurationError(f"{where}: discovery_prefix is not a valid MQTT topic prefix")
        ca_file = folder / options.ca_file if options.ca_file else None
        context = tls_context(ca_file, allow_tls12=True) if url.scheme == "mqtts" else None
        self._name, self._prefix = name, prefix
        self._password_file = folder / options.password_file if options.password_file else None
        self._publisher = MqttPublisher(
            (url.hostname, url.port or _PORTS[url.scheme]),
            context,
            url.username or "",
            Publication(door_topic(name), _OFFLINE),
        )
        self._devices: Mapping[DeviceKey, KnownDevice] = {}
        self._configured: dict[EntitySeries, _Configured] = {}
        self._known: dict[DeviceKey, dict[EntitySeries, SeriesRhythm]] = {}
        self._availability: dict[DeviceKey, bytes] = {}

    def note_devices(self, devices: Mapping[DeviceKey, KnownDevice]) -> None:
        """Publish who is there now; `DoorError` where the broker does not take it."""
        self._devices = devices
        if not self._known:
            return
        self._connect()
        gone = [author for author in self._known if author not in devices]
        left = [Publication(each.config_topic(self._prefix), b"") for author in gone for each in self._known[author]]
        self._publisher.publish([*left, *self._availabilities()])
        for author in gone:
            self._configured = {series: each for series, each in self._configured.items() if series.author != author}
            del self._known[author]
            self._availability.pop(author, None)

    def send(self, batch: DoorBatch) -> Counter[Drop]:
        """Publish the newest value of each series; return how many readings were left out or cut, and why."""
        self._connect()
        self._repeat_values(batch.sent_at_us)
        newest: dict[EntitySeries, tuple[DoorMessage, DoorReading]] = {}
        dropped = Counter[Drop]()
        for message in batch.messages:
            seen = set[EntitySeries]()
            for reading in message.readings:
                series = series_of(message, reading)
                if series is None:
                    dropped[Drop.VALUE] += 1
                    continue
                rhythm = self._rhythm(series)
                if rhythm is None:
                    dropped[Drop.SERIES] += 1
                    continue
                if series not in seen:
                    seen.add(series)
                    rhythm.note(message, is_backlog=batch.is_backlog(message, reading))
                best = newest.get(series)
                if best is None or measured_at_us(message, reading) > measured_at_us(*best):
                    newest[series] = message, reading
        return +(dropped + self._publish(batch, newest))

    def _rhythm(self, series: EntitySeries) -> SeriesRhythm | None:
        own = self._known.setdefault(series.author, {})
        if series not in own:
            if len(own) >= DOOR_SERIES_OF_DEVICE or sum(map(len, self._known.values())) >= DOOR_SERIES:
                return None
            own[series] = SeriesRhythm()
        return own[series]

    def _publish(
        self, batch: DoorBatch, newest: Mapping[EntitySeries, tuple[DoorMessage, DoorReading]]
    ) -> Counter[Drop]:
        dropped = Counter[Drop]()
        cut = set[str]()
        configs, states, published = list[Publication](), list[Publication](), list[tuple[SeriesRhythm, int]]()
        announced = list[tuple[SeriesRhythm, tuple[str, int]]]()
        configured = dict[EntitySeries, _Configured]()
        for series, (message, reading) in newest.items():
            rhythm, at_us = self._known[series.author][series], measured_at_us(message, reading)
            if not rhythm.is_news(at_us, batch.sent_at_us):
                continue
            expire_s, state = rhythm.expire_after_s, state_document(batch, message, reading)
            label = batch.labels.get(series.author, "")
            if rhythm.announced != (label, expire_s):
                config = config_document(series, label, self._name, expire_s)
                configs.append(Publication(series.config_topic(self._prefix), config))
                announced.append((rhythm, (label, expire_s)))
                configured[series] = _Configured(time.monotonic(), state, at_us)
            states.append(Publication(series.state_topic, state, _left_s(expire_s, at_us, batch.sent_at_us)))
            if isinstance(reading.value, str) and len(reading.value) > STATE_CHARACTERS:
                cut.add(series.state_topic)
            published.append((rhythm, min(at_us, batch.sent_at_us)))
        too_large = self._publisher.publish([*configs, *self._availabilities(), *states])
        topics = {each.state_topic: each.config_topic(self._prefix) for each in newest}
        refused = {each.topic for each in states if not too_large.isdisjoint((each.topic, topics[each.topic]))}
        dropped[Drop.REFUSED] += len(refused)
        dropped[Drop.CUT] += len(cut - refused)
        for rhythm, label_and_time in announced:
            rhythm.announced = label_and_time
        for rhythm, at_us in published:
            rhythm.newest_at_us = at_us
        self._configured |= configured
        return dropped

    def idle(self) -> None:
        """Publish values once more whose configuration has been taken up meanwhile (rule 4)."""
        if self._configured and self._publisher.is_connected:
            self._repeat_values(time.time_ns() // 1_000)

    def _repeat_values(self, now_us: int) -> None:
        due = [series for series, each in self._configured.items() if time.monotonic() >= each.at + _SETTLES_S]
        states = []
        for series in due:
            found, rhythm = self._configured[series], self._known.get(series.author, {}).get(series)
            if rhythm is not None and now_us - found.measured_at_us < rhythm.expire_after_s * 1_000_000:
                left_s = _left_s(rhythm.expire_after_s, found.measured_at_us, now_us)
                if rhythm.newest_at_us <= found.measured_at_us:
                    states.append(Publication(series.state_topic, found.state, left_s))
        self._publisher.publish(states)
        for series in due:
            del self._configured[series]

    def _availabilities(self) -> Iterator[Publication]:
        """Yield changes of availability. A device without presence, such as a board, shows by its values."""
        for author in self._known:
            known = self._devices.get(author)
            found = _OFFLINE if known is not None and not known.is_there else _ONLINE
            if self._availability.get(author) != found:
                self._availability[author] = found
                yield Publication(device_topic(author), found)

    def _connect(self) -> None:
        if self._publisher.is_connected:
            return
        self._publisher.connect("" if self._password_file is None else secret_text(self._password_file))
        self._availability.clear()
        for each in self._known.values():  # whatever the broker has forgotten meanwhile
            for rhythm in each.values():
                rhythm.announced = ("", 0)
        self._publisher.publish([Publication(door_topic(self._name), _ONLINE)])

    def close(self) -> None:
        """Leave; the broker publishes the will."""
        self._publisher.close()


def _left_s(expire_s: int, at_us: int, now_us: int) -> int:
    """Return for how many seconds a value is still valid."""
    return max(1, expire_s - max(0, now_us - at_us) // 1_000_000)
