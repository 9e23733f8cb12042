"""`covey.adapters.sensors.topic_values`: what others publish, as their documentation shows it, becomes readings."""

from __future__ import annotations

import json

import pytest

from covey.adapters.sensors.topic_values import TopicValues, subscriptions
from covey.config.sensors import Topic
from covey.core.telemetry.drops import Drop
from covey.core.telemetry.names import shown
from covey.core.telemetry.times import UNUSABLE_US
from covey.limits.sensors import MAXIMUM_SENSOR_SERIES, MAXIMUM_SERIES_READINGS_PER_MINUTE


def _found(topic: Topic, where: str, payload: object) -> list[tuple[str, object]]:
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    values = TopicValues((topic,))
    return [(each.name, each.value) for each in values.readings(where, raw, 0.0)] or [("", values.failure())]


@pytest.mark.parametrize(
    ("topic", "where", "payload", "reading"),
    [
        # Zigbee2MQTT, guide/usage/mqtt_topics_and_messages
        (
            Topic("zigbee2mqtt/+", "temperature"),
            "zigbee2mqtt/attic",
            {"temperature": 27.34, "humidity": 44.72},
            ("attic/temperature", 27.34),
        ),
        (Topic("z/#", "occupancy"), "z/hall/pir", {"occupancy": True}, ("hall/pir/occupancy", True)),
        (Topic("zigbee2mqtt/+", "state"), "zigbee2mqtt/lamp", {"state": "ON"}, ("lamp/state", True)),
        # Tasmota, AM2301 and energy
        (
            Topic("tele/+/SENSOR", "$.AM2301.Temperature"),
            "tele/th16/SENSOR",
            {"Time": "2019-01-01T00:00:00", "AM2301": {"Temperature": 24.6, "Humidity": 58.2}, "TempUnit": "C"},
            ("th16/Temperature", 24.6),
        ),
        (
            Topic("tele/+/SENSOR", "ENERGY.Power[1]", "power"),
            "tele/dual/SENSOR",
            {"ENERGY": {"Power": [3, 42]}},
            ("dual/power", 42),
        ),
        # ESPHome, a payload that is the value
        (Topic("garage/sensor/+/state"), "garage/sensor/outside/state", b"21.50", ("outside", 21.5)),
        (Topic("garage/binary_sensor/+/state"), "garage/binary_sensor/door/state", b"OFF", ("door", False)),
        # Shelly, gen2/General/Notifications
        (
            Topic("+/events/rpc", "params.switch:0.apower", "power"),
            "shellyplus1pm-a8032ab12345/events/rpc",
            {"method": "NotifyStatus", "params": {"ts": 1631186545.04, "switch:0": {"id": 0, "apower": 8.9}}},
            ("shellyplus1pm-a8032ab12345/power", 8.9),
        ),
        (
            Topic("doors/+", "", "", "", "", ("OPEN",), ("CLOSED",)),
            "doors/küche nord",
            b"OPEN",
            ("k_xC3BC_che_x20_nord", True),
        ),
        (Topic("alone/level", name="level"), "alone/level", b"7", ("level", 7)),
    ],
)
def test_payloads_become_readings(topic: Topic, where: str, payload: object, reading: tuple[str, object]) -> None:
    assert _found(topic, where, payload) == [reading]


@pytest.mark.parametrize(
    ("payload", "failure"),
    [
        (b'{"temperature": "warm"}', "a/temperature: the published payload is not a value"),
        (b'{"temperature": {"c": 1}}', "a/temperature: the published payload is not a value"),
        (b'{"temperature": NaN}', "a/temperature: the published payload is not a value"),
        (b'{"temperature": null}', ""),
        (b'{"humidity": 3}', ""),
        (b"\xff\xfe", ""),
        (b"[" * 60_000, ""),
        (b"", ""),
    ],
)
def test_malformed_values_are_reported_and_absent_ones_are_not(payload: bytes, failure: str) -> None:
    assert _found(Topic("z/+", "temperature"), "z/a", payload) == [("", failure)]


@pytest.mark.parametrize("where", ["z", "z/a/b", "y/a", "$SYS/a"])
def test_another_topic_says_nothing(where: str) -> None:
    assert _found(Topic("z/+"), where, b"1") == [("", "")]
    assert _found(Topic("+/a"), "$SYS/a", b"1") == [("", "")]


@pytest.mark.parametrize(
    ("at", "time_us"),
    [
        (1_631_186_545.5, 1_631_186_545_500_000),
        ("2021-09-09T13:22:25.5+02:00", 1_631_186_545_500_000),
        ("2021-09-09T11:22:25Z", 1_631_186_545_000_000),
        ("2021-09-09T11:22:25", UNUSABLE_US),  # without a zone
        (1_631_186_545_500, UNUSABLE_US),  # milliseconds
        (True, UNUSABLE_US),
        (1e300, UNUSABLE_US),
        (0, UNUSABLE_US),
        (None, UNUSABLE_US),
    ],
)
def test_a_payload_may_say_when_and_no_time_costs_a_value(at: object, time_us: int) -> None:
    values = TopicValues((Topic("z", "v", time="at"),))
    found = values.readings("z", json.dumps({"v": 1, "at": at}).encode(), 0.0)
    assert [(each.value, each.time_us) for each in found] == [(1, time_us)]
    assert values.failure() == ""


def test_rooms_that_differ_outside_ascii_are_two_series() -> None:
    values = TopicValues((Topic("z/+", "t"),))
    topics = ["z/客厅", "z/卧室", "z/Küche", "z/Köche", "z/a b", "z/a_b", "z/a/b", "z/", "z/_"]
    names = [each.name for topic in topics for each in values.readings(topic, b'{"t": 1}', 0.0)]
    assert len(set(names)) == len(names) == 8
    assert [shown(name) for name in names[:5]] == ["客厅/t", "卧室/t", "Küche/t", "Köche/t", "a b/t"]


def test_each_message_is_subscribed_to_once() -> None:
    topics = tuple(Topic(each, "t") for each in ("a/+", "a/#", "a/b/c", "b/+/c", "b/x/c", "$SYS/a", "c"))
    assert subscriptions(topics) == ["$SYS/a", "a/#", "b/+/c", "c"]
    assert subscriptions((Topic("#"), Topic("a"), Topic("$SYS/#"))) == ["#", "$SYS/#"]


def test_dropped_values_are_counted_by_reason() -> None:
    values = TopicValues((Topic("z/+"),))
    for _ in range(MAXIMUM_SERIES_READINGS_PER_MINUTE + 3):
        values.readings("z/a", b"1", 0.0)
    for number in range(MAXIMUM_SENSOR_SERIES + 1):
        values.readings(f"z/n{number}", b"1", 0.0)
    values.readings("z/a", b"warm", 0.0)
    assert values.dropped() == {Drop.RATE: 3, Drop.SERIES: 2, Drop.VALUE: 1}
    assert not values.dropped()


def test_publishers_can_create_a_limited_number_of_names() -> None:
    values = TopicValues((Topic("z/+"),))
    found = [values.readings(f"z/{n}", b"1", 0.0) for n in range(MAXIMUM_SENSOR_SERIES + 10)]
    assert sum(map(len, found)) == MAXIMUM_SENSOR_SERIES
    assert f"dropped, there are {MAXIMUM_SENSOR_SERIES} names" in values.failure()
    assert values.readings("z/5", b"2", 0.0)


def test_a_flood_of_one_name_is_cut() -> None:
    values = TopicValues((Topic("z/+"),))
    found = [values.readings("z/a", b"1", 0.01 * n) for n in range(2 * MAXIMUM_SERIES_READINGS_PER_MINUTE)]
    assert sum(map(len, found)) == MAXIMUM_SERIES_READINGS_PER_MINUTE
    assert "more than 600 a minute" in values.failure()
    assert values.readings("z/a", b"1", 61.0)
    assert values.failure() == ""
