"""A device that connects in windows: it rests in between, nobody calls it dead, and what waits goes in the next one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

RESTING = "resting until the next window"


def test_a_device_rests_between_windows_and_is_asleep_for_its_collector(
    new_gateway: Callable[[str], Gateway],
) -> None:
    collector, device = new_gateway("collector"), new_gateway("device")
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    collector.invite(device)
    device.ok("config", "set", "link.connect", "every 1h")
    device.start("run", "--no-sensors")

    def state() -> str:
        return str(device.json("status")["relay"]["state"])

    def presence() -> str:
        members = collector.json("status")["members"]
        return str(members[0]["presence"]) if members else "unknown"

    wait_until(lambda: state() == RESTING and presence() == "asleep", "the window has closed")
    assert device.json("status")["troubles"] == []
    assert "connects every 1h: next window in" in device.ok("status")
    assert device.json("link")["next_seconds"] > 600
    assert "asleep, next in" in collector.ok("status")
    [member] = [each for each in collector.json("fleet")["devices"] if each["presence"] != "itself"]
    assert member["presence"] == "asleep"
    assert member["next_at_us"] > member["seen_at_us"]
    assert "asleep, next at" in collector.ok("fleet")

    device.ok("message", "send", "--text", "from the field")
    collector.ok("message", "send", "--text", "to the field")
    assert (device.queued(), collector.queued()) == (1, 1)

    device.ok("link", "open")
    wait_until(lambda: device.queued() == 0 and collector.queued() == 0, "both messages have arrived")
    wait_until(lambda: state() == RESTING, "the window has closed again")
    assert presence() == "asleep"


def test_a_schedule_that_means_nothing_is_refused(new_gateway: Callable[[str], Gateway]) -> None:
    device = new_gateway("device")
    assert "link.connect" in device.fails("config", "set", "link.connect", "sometimes", code=78)
