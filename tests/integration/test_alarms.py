"""Readings that are alarms, from a rule to a collector's vault: a backlog stands in the way of none."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.integration.gateway import Gateway
from tests.integration.landed import landed, landed_in_order
from tests.waiting import wait_until

_BACKLOG = 2_500  # more than twice what the largest window has on its way
pytestmark = pytest.mark.broker


def test_an_alarm_arrives_before_a_backlog_of_thousands_of_messages(new_gateway: Callable[[str], Gateway]) -> None:
    hub, pump = new_gateway("hub"), new_gateway("pump")
    hub.ok("group", "create", "--capability", "collector")
    hub.start("run", "--no-sensors")
    hub.invite(pump)
    hub.end()
    pump.ok("config", "set", "telemetry.series", "pressure alarm < 2.5")
    lines = [json.dumps({"n": "count", "v": number}) for number in range(_BACKLOG)]
    pump.ok("publish", "--batch", "1", feed="\n".join(lines))
    pump.ok("publish", feed='{"n":"pressure","u":"bar","v":2.4}\n')
    assert pump.counters()["published_alarms"] == 1
    hub.start("collect", "--no-sensors")
    pump.start("run", "--no-sensors")
    wait_until((hub.state / "vault.key").exists, "the vault is made")
    wait_until(lambda: next(landed_in_order(hub), None), "something has landed")
    first, batch = next(landed_in_order(hub))
    assert [(name, value) for name, _, _, value in batch.readings()] == [("pressure", 2.4)], first
    wait_until(lambda: pump.queued() == 0, "all are acknowledged")
    readings = landed(hub)
    assert len(readings) == _BACKLOG + 1
    assert set(readings.values()) == {1}


def test_an_operators_rule_makes_readings_of_running_devices_alarms_at_once(
    new_gateway: Callable[[str], Gateway],
) -> None:
    hub = new_gateway("hub")
    hub.ok("group", "create", "--capability", "collector")
    hub.ok("config", "set", "operations.operators", hub.json("key", "show")["signing_key"])
    hub.ok("config", "set", "api.socket", "api.sock")
    hub.start("collect", "--no-sensors")
    hub.ok("setting", "set", "telemetry.series", "soil alarm > 50 hysteresis 5")
    wait_until(lambda: "soil alarm" in hub.ok("config", "get", "telemetry.series"), "the rule holds")

    def alarms(value: int) -> int:
        hub.ok("publish", feed=json.dumps({"n": "soil", "v": value}) + "\n")
        return hub.counters().get("published_alarms", 0)

    wait_until(lambda: alarms(49) + alarms(51) > 0, "the running agent has the rule")
    assert [alarms(value) for value in (51, 47, 46, 44, 44)] == [1, 1, 1, 2, 2]
    assert hub.json("status")["alarms"] == []


def test_an_alarm_is_shown_until_it_ends_also_after_a_restart(new_gateway: Callable[[str], Gateway]) -> None:
    hub = new_gateway("hub")
    hub.ok("group", "create", "--capability", "collector")
    hub.ok("config", "set", "telemetry.series", "soil alarm > 50")
    hub.start("collect", "--no-sensors")

    def publish(value: int) -> None:
        hub.ok("publish", feed=json.dumps({"n": "soil", "u": "%", "v": value}) + "\n")

    publish(51)
    assert hub.json("status")["alarms"] == ["soil"]
    assert "alarm    soil" in hub.ok("top", "--once", "--interval", "0.2")
    assert "covey_series_in_alarm 1" in hub.ok("metrics")
    wait_until(lambda: "has an alarm of soil" in hub.ok("fleet"), "the alarm is in the vault")
    assert "1, 1 in alarm" in hub.ok("fleet", "--only", "alarm")
    hub.end()
    hub.start("collect", "--no-sensors")
    publish(52)
    assert hub.json("status")["alarms"] == ["soil"]
    publish(49)
    assert hub.json("status")["alarms"] == []
    wait_until(lambda: "has an alarm of soil" not in hub.ok("fleet"), "its end is in the vault")
    [found] = [each for each in hub.json("fleet")["devices"] if each["presence"] == "itself"]
    assert (found["alarms"], [each["alarm"] for each in found["values"]]) == (0, ["ended"])
