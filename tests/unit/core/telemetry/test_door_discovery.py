"""What a series is to Home Assistant: topics that no device chooses, documents as its discovery wants them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.ids import DeviceKey
from covey.core.telemetry.batch import ClockKind
from covey.core.telemetry.door_discovery import EntitySeries, SeriesRhythm, config_document, series_of, state_document
from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading

_KEY = DeviceKey(bytes(range(32)))
_NOW_US = 1_800_000_000_000_000
_MINUTE_US = 60_000_000


def _message(received_at_us: int = _NOW_US, clock: ClockKind = ClockKind.SYNCHRONISED) -> DoorMessage:
    return DoorMessage("m", _KEY, "00" * 32, received_at_us, clock, ())


@given(st.text(max_size=128), st.text(max_size=32))
def test_no_name_leaves_its_device_s_topics(name: str, unit: str) -> None:
    series = EntitySeries(_KEY, name, unit, "number")
    own = _KEY[:16].hex()
    assert re.fullmatch(rf"covey/readings/{own}/[a-z0-9_]{{8,49}}", series.state_topic)
    config = series.config_topic("homeassistant")
    assert re.fullmatch(rf"homeassistant/sensor/covey_{own}/[a-zA-Z0-9_-]+/config", config)
    document = json.loads(config_document(series, name, "home", 60))
    assert document["name"].isprintable()
    assert document["device"]["name"].isprintable()
    assert document["device"]["name"]


def test_names_units_and_kinds_that_differ_are_entities_of_their_own() -> None:
    found = {
        EntitySeries(_KEY, name, unit, kind).id
        for name in ("air:t", "air/t", "air_t", "AIR:T")
        for unit in ("", "Cel")
        for kind in ("number", "switch", "text")
    }
    assert len(found) == 24


@pytest.mark.parametrize(
    ("unit", "theirs", "device_class"),
    [("Cel", "°C", "temperature"), ("%RH", "%", "humidity"), ("/", None, None), ("ppm", "ppm", None), ("", None, None)],
)
def test_a_number_has_its_unit_as_home_assistant_writes_it(unit: str, theirs: str | None, device_class: str) -> None:
    document = json.loads(config_document(EntitySeries(_KEY, "air:t", unit, "number"), "orchard", "home", 300))
    assert document.get("unit_of_measurement") == theirs
    assert document.get("device_class") == device_class
    assert document["state_class"] == "measurement"
    assert document["expire_after"] == 300
    assert document["unique_id"].startswith(f"covey_{_KEY[:16].hex()}_air_t_")
    assert document["device"]["identifiers"] == [f"covey_{_KEY[:16].hex()}"]
    assert document["availability_mode"] == "all"


def test_an_entity_is_named_as_people_read_it_and_known_by_the_name_as_it_is() -> None:
    series = EntitySeries(_KEY, "home/K_xC3BC_che/t", "Cel", "number")
    document = json.loads(config_document(series, "", "home", 60))
    assert document["name"] == "home/Küche/t"
    assert series.id.startswith("home_k_xc3bc_che_t_")
    assert series.id != EntitySeries(_KEY, "home/K_xC3B6_che/t", "Cel", "number").id


def test_a_switch_is_a_binary_sensor_and_a_text_a_sensor_without_unit() -> None:
    switch = EntitySeries(_KEY, "pump", "", "switch")
    assert switch.config_topic("ha").startswith("ha/binary_sensor/")
    document = json.loads(config_document(switch, "", "home", 60))
    assert (document["payload_on"], document["payload_off"]) == (str(True), str(False))  # as its templates write them
    text = json.loads(config_document(EntitySeries(_KEY, "state", "", "text"), "", "home", 60))
    assert "state_class" not in text


def test_a_value_says_when_it_was_measured_and_whether_it_is_late() -> None:
    said = "{{ x }}" * 99
    late = DoorReading("state", "", _NOW_US - 10 * _MINUTE_US, said)
    message = _message()
    batch = DoorBatch("b", "home", _NOW_US, 5 * _MINUTE_US, (message,), {})
    document = json.loads(state_document(batch, message, late))
    assert (document["backlog"], document["measured_at"]) == (True, (_NOW_US - 10 * _MINUTE_US) / 1e6)
    assert document["value"] == said[:254] + "…", "Home Assistant refuses a longer state"
    assert document["text"] == said
    fits = json.loads(state_document(batch, message, late._replace(value="x" * 255)))
    assert fits["value"] == "x" * 255
    assert "text" not in fits
    unset = _message(clock=ClockKind.UNSYNCHRONISED)
    document = json.loads(state_document(batch, unset, DoorReading("t", "", 7, 1.5)))
    assert (document["backlog"], document["measured_at"], document["value"]) == (False, _NOW_US / 1e6, 1.5)
    assert series_of(message, DoorReading("photo", "", 0, b"x")) is None


@pytest.mark.parametrize(("every_s", "expires_s"), [(1, 60), (10, 60), (60, 300), (300, 1_800), (3_600, 10_800)])
def test_a_value_is_good_for_three_of_its_intervals(every_s: int, expires_s: int) -> None:
    rhythm = SeriesRhythm()
    assert rhythm.expire_after_s == 3_600
    for number in range(6):
        rhythm.note(_message(_NOW_US + number * every_s * 1_000_000), is_backlog=False)
    assert rhythm.expire_after_s == expires_s
    rhythm.note(_message(_NOW_US + 6 * every_s * 1_000_000 + 7_000_000_000), is_backlog=False)  # one outage
    assert rhythm.expire_after_s == expires_s


def test_backlog_that_comes_at_once_says_nothing_of_an_interval() -> None:
    rhythm = SeriesRhythm()
    for number in range(9):
        rhythm.note(_message(_NOW_US + number), is_backlog=True)
    assert rhythm.expire_after_s == 3_600


def test_old_readings_are_no_news() -> None:
    rhythm = SeriesRhythm()
    assert rhythm.is_news(_NOW_US, _NOW_US)
    rhythm.newest_at_us = _NOW_US
    assert not rhythm.is_news(_NOW_US, _NOW_US)
    assert not rhythm.is_news(_NOW_US - 1, _NOW_US)
    assert rhythm.is_news(_NOW_US + 1, _NOW_US + 1)
    assert not rhythm.is_news(_NOW_US + 1, _NOW_US + 3_601_000_000)
