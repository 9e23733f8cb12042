"""An operator changes settings of a fleet, through a real broker: what holds, what is told, and a device twin."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from covey.client import Client
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def _fleet(new_gateway: Callable[[str], Gateway]) -> tuple[Gateway, Gateway]:
    """Return an operator's device, and one whose owner has pinned it; both run."""
    kim, shed = new_gateway("kim"), new_gateway("shed")
    key = kim.json("key", "show")["signing_key"]
    for each in (kim, shed):
        each.ok("config", "set", "operations.operators", key)
        each.ok("config", "set", "api.socket", "api.sock")
    kim.ok("group", "create")
    kim.start("run", "--no-sensors")
    kim.invite(shed)
    shed.start("run")
    return kim, shed


def _differences(kim: Gateway, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = kim.json("setting", "diff", key, "--all", "--for", "label:shed")
    return found


def _becomes(kim: Gateway, key: str, state: str) -> dict[str, Any]:
    """Wait until the device has reported this of a setting."""
    wait_until(lambda: [each["state"] for each in _differences(kim, key)] == [state], f"{key} is {state}")
    return _differences(kim, key)[0]


def test_an_operator_changes_settings_and_sees_the_results(new_gateway: Callable[[str], Gateway]) -> None:
    kim, shed = _fleet(new_gateway)
    wait_until(lambda: len(kim.json("group", "members")) == 2, "the device is in")
    assert kim.json("setting", "set", "telemetry.batch_seconds", "2.5", "--for", "label:shed")["devices"] == 1
    assert _becomes(kim, "telemetry.batch_seconds", "applied")["agrees"]
    holds = shed.json("config", "get", "telemetry.batch_seconds")
    assert (holds["value"], holds["origin"]) == (2.5, f"set by {kim.json('status')['device']}")
    assert f"set by: {kim.json('status')['device']} kim\n" in shed.ok("config", "list", "telemetry.batch_seconds")
    kim.ok("setting", "set", "outbox.maximum_bytes", "5000000")
    refused = _becomes(kim, "outbox.maximum_bytes", "refused")
    assert (refused["code"], refused["agrees"]) == ("setting_not_allowed", False)
    assert "does not let operators set" in kim.ok("setting", "diff")
    outcomes = [each["outcomes"] for each in kim.json("order")]
    assert outcomes[0] == {"applied": 1}
    assert outcomes[1]["refused"] >= 1
    kim.ok("setting", "set", "presence.interval_seconds", "9")  # which no running part follows
    _becomes(kim, "presence.interval_seconds", "applied")
    kim.ok("setting", "unset", "telemetry.batch_seconds")
    wait_until(lambda: shed.json("config", "get", "telemetry.batch_seconds")["origin"] == "default", "it is its own")
    assert [each["value"] for each in kim.json("setting", "history", "telemetry.batch_seconds")] == ["2.5", None]
    assert "code" in json.dumps(shed.json("setting", "get"))


def test_waiting_for_a_setting_ends_by_what_devices_say(new_gateway: Callable[[str], Gateway]) -> None:
    kim, shed = _fleet(new_gateway)
    wait_until(lambda: len(kim.json("group", "members")) == 2, "the device is in")
    assert "in use on 1 of 1 device" in kim.ok(
        "setting", "set", "telemetry.batch_seconds", "2", "--for", "label:shed", "--wait"
    )
    shed.end()
    late = kim.covey("setting", "set", "app.mode", "eco", "--for", "label:shed", "--wait", "--timeout", "0.1")
    assert (late.returncode, "in use on 0 of 1 device" in late.stdout) == (124, True)
    shed.start("run")
    refused = kim.covey("setting", "set", "outbox.maximum_bytes", "5000000", "--for", "label:shed", "--wait")
    assert refused.returncode == 1
    assert "does not let operators set" in refused.stdout


def test_a_program_has_its_settings_from_operators_and_answers(new_gateway: Callable[[str], Gateway]) -> None:
    kim, shed = _fleet(new_gateway)
    kim.ok("setting", "set", "app.mode", "eco")
    client = Client(shed.state / "api.sock")
    wait_until(client.answers, "the agent answers")
    following = client.settings(follow_s=60)
    setting = next(each for each in following if each.state == "handed_over")
    following.close()
    assert (setting.key, setting.value) == ("app.mode", "eco")
    assert client.report_setting(setting, "eco")
    assert _becomes(kim, "app.mode", "applied")["value"] == "eco"
    kim.ok("setting", "set", "app.mode", "turbo")
    following = client.settings(follow_s=60)
    setting = next(each for each in following if each.value == "turbo")
    following.close()
    assert client.report_setting(setting, "eco", refused="the pump is too old")
    reported = _becomes(kim, "app.mode", "refused")
    assert (reported["value"], reported["code"], reported["why"]) == ("eco", "program", "the pump is too old")
    kim.ok("setting", "set", "app.token", "--secret", feed="hunter2\n")
    following = client.settings(follow_s=60)
    setting = next(each for each in following if each.key == "app.token")
    following.close()
    assert (setting.value, setting.secret) == ("hunter2", True)
    assert client.report_setting(setting, "hunter2")
    assert _becomes(kim, "app.token", "applied")["value"] is None
    events = list(client.events("0", types=("setting",), follow_s=0))
    assert "hunter2" not in repr(setting) + repr(events) + shed.ok("setting", "get")


def test_a_device_that_is_not_an_operator_cannot_set_values(new_gateway: Callable[[str], Gateway]) -> None:
    _, shed = _fleet(new_gateway)
    assert "not an operator" in shed.fails("setting", "set", "app.mode", "eco", code=1)
