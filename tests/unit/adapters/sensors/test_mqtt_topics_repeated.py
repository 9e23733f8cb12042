"""`covey.adapters.sensors.mqtt_topics`: what a broker sends once more to a next life, packet by packet (MQTT 5)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from covey.adapters.sensors import mqtt_topics
from covey.adapters.sensors.mqtt_topics import MqttTopics, open_mqtt
from covey.config.sensors import Mqtt, Topic
from covey.ports import Measurement
from tests.waiting import wait_until

_CONNACK, _PUBACK, _SUBSCRIBE, _SUBACK = 0x20, 0x40, 0x80, 0x90


@pytest.fixture(autouse=True)
def _reads_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a read that brings nothing end soon: each test begins with one, which connects."""
    monkeypatch.setattr(mqtt_topics, "SENSOR_READ_SECONDS", 0.05)


class _Broker:
    """Takes one connection, answers it, and sends the publications that a test wants, under its identifiers."""

    def __init__(self, *, session: bool) -> None:
        self.acknowledged: list[int] = []
        self.subscribed = 0
        self._session = session
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self._listener.getsockname()[1]}"
        self._line: socket.socket | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def publish(self, identifier: int, value: int, *, repeated: bool = False) -> None:
        payload = f'{{"v": {value}}}'.encode()
        body = b"\0\x03z/a" + identifier.to_bytes(2, "big") + b"\0" + payload
        wait_until(lambda: self._line)
        assert self._line is not None
        self._line.sendall(bytes([0x32 | (0x08 if repeated else 0), len(body)]) + body)

    def close(self) -> None:
        self._listener.close()
        if self._line is not None:
            self._line.close()

    def _run(self) -> None:
        with suppress(OSError, IndexError):
            line, _ = self._listener.accept()
            while True:
                kind, length = line.recv(1)[0], line.recv(1)[0]
                body = line.recv(length, socket.MSG_WAITALL)
                if kind == 0x10:
                    line.sendall(bytes([_CONNACK, 3, int(self._session), 0, 0]))
                    self._line = line
                elif kind == _PUBACK:
                    self.acknowledged.append(int.from_bytes(body[:2], "big"))
                elif kind & 0xF0 == _SUBSCRIBE:
                    line.sendall(bytes([_SUBACK, 4]) + body[:2] + b"\0\x01")
                    self.subscribed += 1


@contextmanager
def _opened(position: bytes, *, session: bool = True) -> Iterator[tuple[_Broker, MqttTopics]]:
    """Give a broker, and a sensor that was opened at a position."""
    broker = _Broker(session=session)
    options = Mqtt(broker.url, client_id="attic", topics=(Topic("z/+", "v"),))
    with closing(broker), closing(open_mqtt("home", options, position)) as sensor:
        yield broker, sensor


def _read(sensor: MqttTopics, until: Callable[[Measurement], object]) -> Measurement:
    found: list[Measurement] = []
    wait_until(lambda: found.append(sensor.read()) or until(found[-1]))
    return found[-1]


def _committed(sensor: MqttTopics) -> tuple[list[object], bytes | None]:
    """Have what comes next committed; return its values, and the position that was committed with them."""
    measured = _read(sensor, lambda each: each.readings)
    assert measured.committed is not None
    measured.committed()
    return [each.value for each in measured.readings], measured.position


def _position(*messages: tuple[int, int]) -> bytes:
    """Return where a sensor is that has committed messages: identifier and value."""
    position: bytes | None = b""
    with _opened(b"") as (broker, sensor):
        sensor.read()
        for identifier, value in messages:
            broker.publish(identifier, value)
            values, position = _committed(sensor)
            assert values == [value]
    assert position is not None
    return position


def test_a_repeated_committed_message_is_no_reading() -> None:
    with _opened(_position((7, 1), (8, 1))) as (broker, sensor):
        sensor.read()
        broker.publish(7, 1, repeated=True)
        broker.publish(8, 1, repeated=True)
        broker.publish(9, 1, repeated=True)  # this one was on its way when the other life ended
        assert _committed(sensor)[0] == [1]
        wait_until(lambda: sensor.read() and broker.acknowledged == [7, 8, 9])


def test_a_first_delivery_or_another_payload_is_a_reading() -> None:
    with _opened(_position((7, 1), (8, 2))) as (broker, sensor):
        sensor.read()
        broker.publish(7, 1)
        assert _committed(sensor)[0] == [1]
        broker.publish(8, 3, repeated=True)
        assert _committed(sensor)[0] == [3]


def test_identifiers_that_a_broker_reuses_at_once_are_not_taken_for_repetitions() -> None:
    position = _position((1, 5), (1, 5))
    assert position == b""
    with _opened(position) as (broker, sensor):
        sensor.read()
        broker.publish(1, 5, repeated=True)
        assert _committed(sensor)[0] == [5]


def test_only_what_may_be_under_way_is_remembered() -> None:
    position = _position(*((identifier, 1) for identifier in range(1, 101)))
    with _opened(position) as (broker, sensor):
        sensor.read()
        broker.publish(36, 1, repeated=True)  # 65 before the last: it was acknowledged long ago
        assert _committed(sensor)[0] == [1]
        broker.publish(38, 1, repeated=True)
        broker.publish(101, 2)
        assert _committed(sensor)[0] == [2]


def test_a_broker_that_sends_more_than_was_asked_for_repeats_none_of_it() -> None:
    """mosquitto 2.0.11 does so after a session has gone on: it counts acknowledgements of what it had sent before."""
    position: bytes | None = b""
    with _opened(b"") as (broker, sensor):
        sensor.read()
        for identifier in range(1, 100):
            broker.publish(identifier, 1)
            position = _read(sensor, lambda each: each.readings).position  # committed, and not acknowledged yet
    assert position is not None
    with _opened(position) as (broker, sensor):
        sensor.read()
        for identifier in range(1, 100):
            broker.publish(identifier, 1, repeated=True)
        broker.publish(100, 2)
        assert _committed(sensor)[0] == [2]
        wait_until(lambda: sensor.read() and broker.acknowledged == [*range(1, 101)])


def test_a_new_session_reads_nothing_before_the_old_position_is_cleared() -> None:
    with _opened(_position((1, 5)), session=False) as (broker, sensor):
        measured = _read(sensor, lambda each: each.committed)
        assert (measured.position, measured.urgent, list(measured.readings)) == (b"", True, [])
        sensor.read()
        assert broker.subscribed == 0
        assert measured.committed is not None
        measured.committed()
        wait_until(lambda: sensor.read() and broker.subscribed)
        broker.publish(1, 5, repeated=True)
        assert _committed(sensor)[0] == [5]
