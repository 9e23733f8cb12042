"""`covey.adapters.sensors.mqtt_topics` at a real mosquitto: nothing is acknowledged before it is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from broker_conf.mosquitto.broker import free_port
from covey.adapters.sensors.mqtt_topics import MqttTopics, open_mqtt
from covey.config.sensors import Mqtt, Topic
from covey.errors import SensorError
from covey.ports import Measurement
from tests.open_broker import OpenBroker
from tests.waiting import wait_until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OpenBroker]:
    with OpenBroker(tmp_path) as running:
        yield running


@pytest.fixture
def opened(broker: OpenBroker) -> Callable[[], MqttTopics]:
    options = Mqtt(f"mqtt://127.0.0.1:{broker.port}", client_id="attic", topics=(Topic("z/+", "v"),))
    return lambda: open_mqtt("home", options)


def _next(sensor: MqttTopics) -> Measurement:
    found: list[Measurement] = []

    def measured() -> bool:
        found.append(sensor.read())
        return bool(found[-1].readings)

    wait_until(measured)
    return found[-1]


def _subscribed(sensor: MqttTopics) -> None:
    wait_until(lambda: sensor.read().failure == "")


@pytest.mark.broker
def test_only_uncommitted_messages_are_delivered_again(broker: OpenBroker, opened: Callable[[], MqttTopics]) -> None:
    with closing(opened()) as sensor:
        _subscribed(sensor)
        broker.publish("z/a", '{"v": 1}')
        assert [each.value for each in _next(sensor).readings] == [1]
    with closing(opened()) as sensor:
        measured = _next(sensor)
        assert [each.value for each in measured.readings] == [1]
        assert measured.committed is not None
        measured.committed()
    broker.publish("z/a", '{"v": 2}')
    with closing(opened()) as sensor:
        assert [(each.name, each.value) for each in _next(sensor).readings] == [("a/v", 2)]


@pytest.mark.broker
def test_retained_messages_are_no_readings(broker: OpenBroker, opened: Callable[[], MqttTopics]) -> None:
    broker.publish("z/old", '{"v": 1}', retain=True)
    with closing(opened()) as sensor:
        _subscribed(sensor)
        broker.publish("z/new", '{"v": 2}')
        assert [each.name for each in _next(sensor).readings] == ["new/v"]


@pytest.mark.broker
def test_a_broker_that_restarts_is_come_back_to(broker: OpenBroker, opened: Callable[[], MqttTopics]) -> None:
    with closing(opened()) as sensor:
        _subscribed(sensor)
        broker.stop()
        wait_until(lambda: sensor.read().failure)
        broker.start()
        _subscribed(sensor)
        broker.publish("z/a", '{"v": 3}')
        assert [each.value for each in _next(sensor).readings] == [3]


@pytest.mark.broker
def test_many_held_messages_want_a_commit(broker: OpenBroker, opened: Callable[[], MqttTopics]) -> None:
    with closing(opened()) as sensor:
        _subscribed(sensor)
        for number in range(12):
            broker.publish("z/a", f'{{"v": {number}}}')
        measured = [_next(sensor)]
        while sum(len(each.readings) for each in measured) < 12:
            measured.append(_next(sensor))
        assert measured[-1].urgent
        for each in measured:
            assert each.committed is not None
            each.committed()
        broker.publish("z/a", '{"v": 12}')
        assert not _next(sensor).urgent


def test_a_password_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    file.chmod(0o644)
    with pytest.raises(SensorError, match="other users can read") as refused:
        open_mqtt("home", Mqtt(password_file=str(file), topics=(Topic("z"),)))
    assert "chmod 600" in refused.value.hint
    assert "secret" not in str(refused.value)


def test_an_unreachable_broker_is_reported() -> None:
    options = Mqtt(f"mqtt://127.0.0.1:{free_port()}", topics=(Topic("z"),))
    with closing(open_mqtt("home", options, lasting=False)) as sensor:
        assert "nothing listens at 127.0.0.1" in sensor.read().failure


@pytest.mark.broker
def test_a_message_that_several_topics_match_comes_once(broker: OpenBroker) -> None:
    topics = (Topic("a/+", "x"), Topic("a/#", "y"), Topic("a/k", "z"))
    options = Mqtt(f"mqtt://127.0.0.1:{broker.port}", topics=topics)
    names: list[str] = []
    with closing(open_mqtt("home", options)) as sensor:
        _subscribed(sensor)
        for number in range(3):
            broker.publish("a/k", f'{{"x": {number}, "y": {number}, "z": {number}}}')
        broker.publish("a/end", '{"y": 1}')
        while "end/y" not in names:
            names += [each.name for each in _next(sensor).readings]
    assert sorted(names) == [*["end/y"], *["k/x"] * 3, *["k/y"] * 3, *["z"] * 3]


@pytest.mark.broker
def test_other_topics_are_a_session_without_those_of_before(broker: OpenBroker) -> None:
    address = f"mqtt://127.0.0.1:{broker.port}"
    with closing(open_mqtt("home", Mqtt(address, topics=(Topic("a/+", "x"),)))) as sensor:
        _subscribed(sensor)
    names: list[str] = []
    with closing(open_mqtt("home", Mqtt(address, topics=(Topic("a/#", "x"),)))) as sensor:
        _subscribed(sensor)
        for topic in ("a/k", "a/end"):
            broker.publish(topic, '{"x": 1}')
        while "end/x" not in names:
            names += [each.name for each in _next(sensor).readings]
    assert sorted(names) == ["end/x", "k/x"]
