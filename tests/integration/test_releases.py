"""A file comes to one wave of devices after the other, through a real broker, and goes no further where that fails."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_INSTALL = """
summary = "take a model, where there is none that is to stay"
argv = ["/bin/sh", "-c", 'echo tried >> "$0/tried"; test ! -e "$0/broken"', "{state}", "{{file}}", "{{group}}"]
idempotent = true
[arguments.file]
text = 64
characters = "0123456789abcdef"
[arguments.group]
text = 64
characters = "0123456789abcdef"
"""
_FAST = ("--installer", "install", "--soak", "0s", "--patience", "2m")


class Fleet:
    """An operator's device, and three that obey it; their installers fail where a file says so."""

    def __init__(self, new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
        self.hub, *self.sheds = [new_gateway(name) for name in ("hub", "one", "two", "three")]
        for each in (self.hub, *self.sheds):
            each.ok("config", "set", "operations.operators", self.hub.json("key", "show")["signing_key"])
        for each in self.sheds:
            action = each.state / "operations.d" / "install.toml"
            action.parent.mkdir(mode=0o700)
            action.write_text(_INSTALL.format(state=each.state))
            action.chmod(0o600)
            each.ok("config", "set", "operations.commands", "install,fetch-file")
        self.hub.ok("group", "create")
        self.watcher = copy.copy(self.hub)
        """For a further process of the operator's device."""
        self.watcher.log = tmp_path / "watcher.log"
        self.hub.start("run", "--no-sensors")
        for each in self.sheds:
            self.hub.invite(each)
            each.start("run", "--no-sensors")
        wait_until(lambda: self.hub.ok("history", "log", "--json").count("obeying") == 3, "all obey")
        self.file = tmp_path / "model.bin"
        self.file.write_bytes(b"model" * 1_000)

    def break_all(self, *, broken: bool) -> None:
        """Have every installer fail from now on, or none."""
        for each in self.sheds:
            (each.state / "broken").touch() if broken else (each.state / "broken").unlink()

    def tried(self) -> list[int]:
        """Return how often each device has run its installer."""
        logs = [each.state / "tried" for each in self.sheds]
        return [len(log.read_text().splitlines()) if log.exists() else 0 for log in logs]

    def release(self, *words: str, code: int) -> dict[str, Any]:
        """Run `covey release`, which is to end with a code; return the release that it has printed."""
        done = self.hub.covey("release", *words)
        assert done.returncode == code, (done.stdout, done.stderr)
        [found] = self.hub.json("release", "list")
        assert isinstance(found, dict)
        return found


@pytest.fixture
def fleet(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> Fleet:
    return Fleet(new_gateway, tmp_path)


def test_a_release_reaches_all_wave_by_wave(fleet: Fleet) -> None:
    found = fleet.release("create", str(fleet.file), "--waves", "1,50%,100%", *_FAST, code=0)
    assert (found["state"], found["waves_given"], found["others"]) == ("finished", 3, 0)
    assert fleet.tried() == [1, 1, 1]
    second = fleet.release("resume", found["id"][:8], code=0)
    assert (second["waves_given"], fleet.tried()) == (3, [1, 1, 1])


def test_a_new_version_is_released_as_a_patch_of_the_one_before(fleet: Fleet) -> None:
    at_once = ("--waves", "100%", "--soak", "0s", "--patience", "2m")
    fleet.file.write_bytes(random.Random(4).randbytes(200_000))
    fleet.hub.ok("release", "create", str(fleet.file), *at_once)
    fleet.file.write_bytes(fleet.file.read_bytes() + b"and more")
    words = ("release", "create", str(fleet.file), "--name", "next.bin", "--base", "model.bin", *at_once)
    assert "devices that have 'model.bin' fetch a patch of" in fleet.hub.ok(*words)
    for each in fleet.sheds:
        here = [found["name"] for found in each.json("file", "list") if found["state"] == "here"]
        assert "next.bin" in here
        assert any(name.endswith(".covey-patch") for name in here), "fetched as a patch"


def test_a_bad_release_reaches_one_wave_and_goes_on_when_a_person_says_so(fleet: Fleet) -> None:
    fleet.break_all(broken=True)
    found = fleet.release("create", str(fleet.file), "--waves", "1,100%", *_FAST, code=1)
    assert (found["state"], found["waves_given"], found["others"]) == ("stopped", 1, 2)
    assert (len(found["failed"]), sum(fleet.tried())) == (1, 1)
    assert "stopped" in fleet.hub.ok("release", "show", found["id"][:8])
    found = fleet.release("resume", found["id"][:8], code=1)
    assert sum(fleet.tried()) == 1
    fleet.break_all(broken=False)
    found = fleet.release("resume", found["id"][:8], "--stop-at", "100%", code=0)
    assert (found["state"], found["waves_given"], len(found["devices"])) == ("finished", 2, 3)
    assert fleet.tried() == [1, 1, 1]


def test_a_release_that_stops_is_seen_and_told_with_its_end(fleet: Fleet, tmp_path: Path) -> None:
    reports, program = tmp_path / "told", tmp_path / "page-me"
    program.write_text(f"#!/bin/sh\ncat >> {reports} && echo >> {reports}\n")
    program.chmod(0o700)
    for key, value in {"alerts.program": str(program), "alerts.settle_seconds": "0"}.items():
        fleet.hub.ok("config", "set", key, value)
    fleet.break_all(broken=True)
    identifier = fleet.release("create", str(fleet.file), "--waves", "1,100%", *_FAST, code=1)["id"]
    found = fleet.hub.json("fleet")
    [shown], [offered] = found["releases"], found["files"]
    assert (shown["state"], shown["given"], shown["failed"], shown["others"]) == ("stopped", 1, 1, 2)
    assert (offered["name"], offered["state"]) == ("model.bin", "here")
    assert any(f"covey release show {identifier[:8]}" in each["hint"] for each in found["troubles"])
    assert "stopped, wave 1 of 2" in fleet.hub.ok("fleet")
    fleet.watcher.start("alert", "watch", "--interval", "0.1")
    try:
        words = f"release {identifier[:8]} (install for all) has stopped in wave 1: 1 failed"
        wait_until(lambda: reports.exists() and words in reports.read_text(), "it is told")
        fleet.break_all(broken=False)
        fleet.release("resume", identifier[:8], "--stop-at", "100%", code=0)
        wait_until(lambda: "is no longer stopped" in reports.read_text(), "its end is told")
        assert reports.read_text().count(f"release {identifier[:8]}") == 2
    finally:
        fleet.watcher.kill()


def test_mistakes_in_a_release_come_before_the_file(fleet: Fleet) -> None:
    hub, file = fleet.hub, str(fleet.file)
    assert "is not a list of waves" in hub.fails("release", "create", file, "--waves", "1,all", code=2)
    assert "is not a list of waves" in hub.fails("release", "create", file, "--waves", "0", code=2)
    assert "not a percentage" in hub.fails("release", "create", file, "--stop-at", "some", code=2)
    assert "operator" in fleet.sheds[0].fails("release", "create", file, code=1)
    assert "no release's id" in hub.fails("release", "show", "abc", code=1)
    assert hub.json("file", "list") == []
    assert "no releases" in hub.ok("release")


def test_another_operators_device_goes_on_where_one_died(fleet: Fleet, new_gateway: Callable[[str], Gateway]) -> None:
    hub, deputy = fleet.hub, new_gateway("deputy")
    operators = ",".join(each.json("key", "show")["signing_key"] for each in (hub, deputy))
    hub.invite(deputy, "--capability", "collector")  # a collector is told what becomes of all orders
    deputy.start("run", "--no-sensors")
    for shed in fleet.sheds:
        wait_until(lambda shed=shed: "deputy" in shed.ok("group", "show"), "all know whom to report to")
    for each in (hub, deputy, *fleet.sheds):
        each.end()
        each.ok("config", "set", "operations.operators", operators)
    for each in (deputy, *fleet.sheds):
        each.start("run", "--no-sensors")
    words = ("--installer", "install", "--waves", "1,100%", "--soak", "10s")
    hub.start("release", "create", str(fleet.file), *words)
    wait_until(lambda: sum(fleet.tried()) == 1, "the first wave has it")
    hub.kill()  # within the soak, however long the deputy takes to hear of it
    wait_until(lambda: "1 of 1 done" in deputy.ok("release", "list"), "the deputy knows")
    [found] = deputy.json("release", "list")
    assert (found["waves_given"], found["others"]) == (1, 2)
    done = deputy.covey("release", "resume", found["id"][:8])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert fleet.tried() == [1, 1, 1]
