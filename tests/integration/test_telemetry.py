"""Readings from the command line and the sensors into a vault, each once, through kills."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker_conf.mosquitto import Broker
from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def _fleet(new_gateway: Callable[[str], Gateway]) -> tuple[Gateway, Gateway]:
    collector, gateway = new_gateway("collector"), new_gateway("gateway")
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    collector.invite(gateway)
    return collector, gateway


def _lines(first: int, last: int) -> str:
    return "".join(f'{{"n":"t","u":"Cel","t":{1_790_000_000 + n},"v":{n}}}\n' for n in range(first, last))


def test_readings_land_once_and_are_then_acknowledged(new_gateway: Callable[[str], Gateway]) -> None:
    # accepts: 004.03, 004.12, 004.13
    collector, gateway = _fleet(new_gateway)
    assert gateway.json("publish", "--batch", "7", "--wait", "300", feed=_lines(0, 100)) == {"queued_readings": 100}
    assert gateway.queued() == 0
    readings = landed(collector)
    assert set(readings.values()) == {1}
    assert sorted(value for _, _, _, value in readings) == list(range(100))


def test_kills_of_collector_and_broker_lose_and_double_nothing(
    broker: Broker, new_gateway: Callable[[str], Gateway]
) -> None:
    collector, gateway = _fleet(new_gateway)
    gateway.start("run", "--no-sensors")
    for start in range(0, 500, 100):
        gateway.ok("publish", "--batch", "5", feed=_lines(start, start + 100))
        collector.kill()
        broker.kill()
        if start % 200:
            broker.forget_queue()
        broker.start()
        collector.start("collect", "--no-sensors")
    wait_until(lambda: gateway.queued() == 0, "the collector has landed everything")
    readings = landed(collector)
    assert len(readings) == 500
    assert set(readings.values()) == {1}


def test_the_machines_own_sensors(new_gateway: Callable[[str], Gateway]) -> None:
    collector, gateway = _fleet(new_gateway)
    gateway.ok("config", "set", "sensors.interval_seconds", "0.1")
    gateway.ok("config", "set", "telemetry.batch_seconds", "0.5")
    gateway.start("run")
    wait_until(lambda: gateway.counters().get("published_readings", 0) > 50, "sensors publish")
    assert gateway.end() == 0
    gateway.start("run", "--no-sensors")
    wait_until(lambda: gateway.queued() == 0, "everything has landed")
    readings = landed(collector)
    assert sum(readings.values()) == gateway.counters()["published_readings"]
    assert set(readings.values()) == {1}
    assert any(name.startswith("memory/") for name, _, _, _ in readings)
