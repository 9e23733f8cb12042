"""`covey alert`: a device that goes and comes back is told once each, by a real program."""

from __future__ import annotations

import copy
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def _program(folder: Path) -> Path:
    """Return a program that keeps each message in a file, while there is a folder for it."""
    path = folder / "page-me"
    path.write_text(f"#!/bin/sh\ncat >> {folder}/told/messages && echo >> {folder}/told/messages\n")
    path.chmod(stat.S_IRWXU)
    return path


def _received(folder: Path) -> list[str]:
    path = folder / "told" / "messages"
    return [json.loads(line)["text"] for line in path.read_text().splitlines()] if path.exists() else []


def test_a_trouble_is_reported_once_and_so_is_its_end(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    hub, device = new_gateway("hub"), new_gateway("orchard")
    assert "no alert target" in hub.fails("alert", "test", code=78)
    assert "no alert target" in hub.fails("alert", "watch", code=78)
    for key, value in {
        "label": "hub",
        "alerts.program": str(_program(tmp_path)),
        "alerts.silent_minutes": "0.0001",
        "alerts.settle_seconds": "0",
        "alerts.restart_seconds": "0",
    }.items():
        hub.ok("config", "set", key, value)
    for key, value in {"label": "orchard", "presence.interval_seconds": "1"}.items():
        device.ok("config", "set", key, value)
    assert hub.json("alert", "list")["watched"] is False
    assert "no process watches the fleet" in hub.covey("alert", "list").stderr
    hub.ok("group", "create", "--capability", "collector")
    assert "program: " in hub.covey("alert", "test").stdout
    (tmp_path / "told").mkdir()
    assert hub.ok("alert", "test") == "program: sent\n"
    assert _received(tmp_path) == ["This is a test of hub's alerts."]

    watcher = copy.copy(hub)
    watcher.log = tmp_path / "watcher.log"
    hub.start("collect", "--no-sensors")
    hub.invite(device)
    device.start("run", "--no-sensors")
    wait_until(lambda: "1 online" in hub.json("fleet")["summary"], "the device is seen to be there")
    watcher.start("alert", "watch", "--interval", "0.1")
    try:
        wait_until(lambda: hub.json("alert", "list")["watched"])
        _goes_and_comes_back(hub, device, tmp_path)
    finally:
        watcher.kill()


def _goes_and_comes_back(hub: Gateway, device: Gateway, tmp_path: Path) -> None:
    device.kill()
    wait_until(lambda: any("orchard is silent since " in each for each in _received(tmp_path)), "its silence is told")
    (alert,) = hub.json("alert", "list")["alerts"]
    assert (alert["kind"], alert["label"], alert["announced"]) == ("silent", "orchard", True)
    assert "already watches alerts" in hub.fails("alert", "watch", code=1)
    device.start("run", "--no-sensors")
    wait_until(lambda: any("orchard is back after " in each for each in _received(tmp_path)), "its return is told")
    assert sum("orchard" in each for each in _received(tmp_path)) == 2
    assert hub.json("alert", "list")["alerts"] == []


def test_a_watcher_that_is_killed_before_or_after_it_has_told_loses_nothing(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    """What is committed and not sent comes after a start; what was taken, and that not committed, under the same id."""
    hub, folder = new_gateway("hub"), tmp_path / "told"
    folder.mkdir()
    program = _program(tmp_path)
    lines = program.read_text().splitlines()
    kills = "if [ -e {0}/{1} ]; then rm {0}/{1}; kill -9 $PPID; exit 1; fi"
    program.write_text(
        "\n".join([lines[0], kills.format(folder, "first"), *lines[1:], kills.format(folder, "then"), ""])
    )
    for key, value in {
        "label": "hub",
        "alerts.program": str(program),
        "alerts.settle_seconds": "0",
        "alerts.restart_seconds": "0",
    }.items():
        hub.ok("config", "set", key, value)
    hub.ok("group", "create", "--capability", "collector")
    for when in ("first", "then"):
        (folder / when).touch()
        watcher = copy.copy(hub)
        watcher.log = tmp_path / f"{when}.log"
        watcher.start("alert", "watch", "--interval", "0.1")
        wait_until(lambda when=when: not (folder / when).exists(), "its program has killed it")
        watcher.kill()
        (target,) = hub.json("alert", "list")["targets"]
        assert target["waiting"] == 1
    hub.start("alert", "watch", "--interval", "0.1")
    wait_until(lambda: hub.json("alert", "list")["targets"][0]["waiting"] == 0, "it is told")
    messages = [json.loads(line) for line in (folder / "messages").read_text().splitlines()]
    assert len(messages) == 2, "once before it could be noted, and once more"
    assert len({each["id"] for each in messages}) == 1
    assert "receives nothing" in messages[0]["text"]
