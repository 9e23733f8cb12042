"""Home Assistant's door at a real broker: what it would find there, who is there, and what has ended."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.doors.home_assistant import HomeAssistantDoor
from covey.config.doors import HomeAssistant
from covey.core.ids import DeviceKey
from covey.core.telemetry.batch import ClockKind
from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading, KnownDevice
from covey.core.telemetry.drops import Drop
from covey.errors import ConfigurationError, DoorError
from covey.limits.doors import DOOR_SERIES_OF_DEVICE
from tests.house_broker import HouseBroker
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_KEY, _OTHER = DeviceKey(bytes(range(32))), DeviceKey(bytes(range(1, 33)))
_HOSTILE = 'a/b+#\x00\n"{{ x }}</script>'


class _House(HouseBroker):
    """A house's broker, and a door to it."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, **settings)
        self.folder = folder
        self.door = self.open()

    def open(self, **options: str) -> HomeAssistantDoor:
        given = {"url": self.url, "password_file": "home.password", **options}
        return HomeAssistantDoor(HomeAssistant(**given), "home", "door home", self.folder)

    def send(self, *messages: DoorMessage, backlog_us: int = 300_000_000) -> Counter[Drop]:
        now_us = time.time_ns() // 1_000
        return self.door.send(DoorBatch("b", "home", now_us, backlog_us, messages, {_KEY: _HOSTILE}))


def _message(author: DeviceKey, *readings: DoorReading, received_at_us: int = 0) -> DoorMessage:
    received_at_us = received_at_us or time.time_ns() // 1_000
    return DoorMessage("m", author, "00" * 32, received_at_us, ClockKind.SYNCHRONISED, readings)


def _reading(name: str, value: float | bool | str | bytes, age_s: float = 0, unit: str = "") -> DoorReading:
    return DoorReading(name, unit, time.time_ns() // 1_000 - int(age_s * 1e6), value)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[_House]:
    found = _House(tmp_path)
    try:
        yield found
    finally:
        found.door.close()
        found.broker.stop()


def test_retained_topics_are_configuration_last_value_and_availability(house: _House) -> None:
    readings = (_reading("air:t", 20.0, 60, "Cel"), _reading("air:t", 21.5, 1, "Cel"), _reading(_HOSTILE, "x"))
    assert house.send(_message(_KEY, *readings, _reading("pump", True), _reading("photo", b"x"))) == {Drop.VALUE: 1}
    found = house.retained()
    configs = [json.loads(found[topic]) for topic in found if topic.endswith("/config")]
    assert len(configs) == 3
    (air,) = (each for each in configs if each["name"] == "air:t")
    assert (air["unit_of_measurement"], air["device_class"], air["expire_after"]) == ("°C", "temperature", 3_600)
    assert json.loads(found[air["state_topic"]])["value"] == 21.5
    assert all(found[each["topic"]] == b"online" for each in air["availability"])
    assert air["json_attributes_topic"] == air["state_topic"]
    assert {topic.count("/") for topic in found if topic.endswith("/config")} == {4}
    house.door.close()
    (door, device) = (each["topic"] for each in air["availability"])
    wait_until(lambda: house.retained()[door] == b"offline", "the will says that nobody sends on")
    assert house.retained()[device] == b"online"


def test_only_what_is_new_and_young_is_published(house: _House) -> None:
    house.send(_message(_KEY, _reading("t", 1.0, 10)))
    house.send(_message(_KEY, _reading("t", 2.0, 20)))
    house.send(_message(_KEY, _reading("u", 3.0, 7_000)))
    house.send(_message(_KEY, _reading("v", 4.0, 1_000)))
    found = [json.loads(text) for topic, text in house.retained().items() if topic.count("/") == 3]
    assert sorted((each["value"], each["backlog"]) for each in found) == [(1.0, False), (4.0, True)]


def test_the_broker_drops_a_value_that_no_longer_exists(house: _House) -> None:
    now_us = time.time_ns() // 1_000
    old = (_message(_KEY, _reading("t", 1.0, 3_599 - n / 10), received_at_us=now_us) for n in range(1))
    house.send(*old)
    topics = [topic for topic in house.retained() if topic.count("/") == 3]
    wait_until(lambda: not [each for each in house.retained() if each.count("/") == 3], "the value is gone")
    assert len(topics) <= 1


def test_a_device_that_is_away_is_unavailable_and_one_that_left_takes_its_entities_along(house: _House) -> None:
    house.send(_message(_KEY, _reading("t", 1.0)), _message(_OTHER, _reading("t", 1.0)))
    here, away = KnownDevice("x", is_there=True), KnownDevice("x", is_there=False)
    house.door.note_devices({_KEY: away, _OTHER: here})
    found = house.retained()
    assert found[f"covey/readings/{_KEY[:16].hex()}"] == b"offline"
    assert found[f"covey/readings/{_OTHER[:16].hex()}"] == b"online"
    house.door.note_devices({_OTHER: here})
    (left,) = (topic for topic in house.retained() if topic.endswith("/config"))
    assert _OTHER[:16].hex() in left


def test_a_broker_that_returns_receives_everything_again(house: _House) -> None:
    house.send(_message(_KEY, _reading("t", 1.0, 9)))
    house.broker.stop()
    with pytest.raises(DoorError):
        house.send(_message(_KEY, _reading("t", 2.0, 8)))
    house.broker.start()
    house.send(_message(_KEY, _reading("t", 2.0, 8)))
    found = house.retained()
    assert [json.loads(text)["value"] for topic, text in found.items() if topic.count("/") == 3] == [2.0]
    assert len([topic for topic in found if topic.endswith("/config")]) == 1


def test_a_value_is_published_again_when_its_entity_is_reconfigured(house: _House) -> None:
    """Home Assistant 2024.3 has such an entity unavailable: it takes the value up before the configuration."""
    client = house.client()
    client.subscribe("covey/readings/+/+")
    house.send(_message(_KEY, _reading("t", 1.0)))
    assert json.loads(client.next_message()[1])["value"] == 1.0
    house.door.idle()  # a moment too early for it

    def has_come() -> bool:
        house.door.idle()
        return not client.messages.empty()

    wait_until(has_come, "it is told again")
    assert json.loads(client.next_message()[1])["value"] == 1.0
    house.door.idle()
    house.send(_message(_KEY, _reading("t", 2.0)))
    assert json.loads(client.next_message()[1])["value"] == 2.0
    client.close()


def test_series_of_one_device_are_bounded_and_hide_no_other(house: _House) -> None:
    flood = _message(_KEY, *(_reading(f"s{n}", float(n)) for n in range(DOOR_SERIES_OF_DEVICE + 9)))
    assert house.send(flood, _message(_OTHER, _reading("t", 1.0))) == {Drop.SERIES: 9}
    found = house.retained()
    assert len([topic for topic in found if topic.endswith("/config")]) == DOOR_SERIES_OF_DEVICE + 1


def test_a_value_that_is_too_large_for_the_broker_stops_no_other(tmp_path: Path) -> None:
    small = _House(tmp_path, max_packet_size="2000")
    try:
        readings = (_reading("text", "x" * 4_000), _reading("air:t", 21.5), _reading("pump", True))
        assert small.send(_message(_KEY, *readings)) == {Drop.REFUSED: 1}
        states = [json.loads(each) for topic, each in small.retained().items() if b'"value"' in each]
        assert sorted(str(each["value"]) for each in states) == ["21.5", "True"]
        assert small.send(_message(_KEY, _reading("text", "short"), _reading("air:t", 22.0))) == {}
    finally:
        small.door.close()
        small.broker.stop()


def test_a_wrong_password_or_a_dangerous_address_is_said(house: _House, tmp_path: Path) -> None:
    (tmp_path / "home.password").write_text("wrong")
    with pytest.raises(DoorError, match=r"^127\.0\.0\.1: the server refuses"):
        house.open().send(DoorBatch("b", "home", 0, 1, (), {}))
    for options, why in (
        ({"url": "mqtt://home@example.org"}, "needs mqtts://"),
        ({"url": "mqtt://127.0.0.1"}, "where password_file is set"),
        ({"url": "mqtt://home@127.0.0.1/x"}, "nothing after the port"),
        ({"discovery_prefix": "home/+"}, "not a valid MQTT topic prefix"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            house.open(**options)
