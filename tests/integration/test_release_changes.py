"""Any operator pauses, aborts and goes on with a release; devices heed it, through a real broker."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from covey.cli.main import INTERRUPTED
from demo.device import Process
from tests.integration.gateway import Gateway
from tests.integration.installing import Fleet
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.broker

_NEW = "good 2\n"
_WORDS = ("--installer", "pump", "--soak", "0s", "--patience", "3m")


def _versions(fleet: Fleet) -> list[str]:
    return [(shed.state / "pump").read_text().strip() for shed in fleet.sheds]


def _standing(gateway: Gateway) -> dict[str, Any]:
    found = gateway.json("release", "list")[-1]
    assert isinstance(found, dict)
    return found


def _begun(fleet: Fleet, *words: str) -> Process:
    """Begin a release on the operator's device, and return what gives its waves once the first one is given."""
    process = fleet.hub.start_beside("release", "create", fleet.file(_NEW), *_WORDS, *words)
    wait_until(lambda: len(fleet.hub.json("release", "list")) == 1, "it has begun")
    return process


def _installs(shed: Gateway) -> bool:
    """Say whether a device has begun to install: it has done more than to ask for the version."""
    steps = shed.state / "steps"
    return steps.exists() and "install" in steps.read_text().split()


def test_another_operator_that_is_no_collector_pauses_a_release_and_goes_on_with_it(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("one", "two"), deputies=("deputy",))
    [deputy] = fleet.deputies
    for shed in fleet.sheds:
        fleet.define_pump(shed)
        (shed.state / "wait-install").touch()
    fleet.start()
    gives = _begun(fleet, "--waves", "1,100%")
    wait_until(lambda: any(map(_installs, fleet.sheds)), "the first one has begun")
    wait_until(lambda: len(deputy.json("release", "list")) == 1, "the deputy has heard of it")
    paused = deputy.json("release", "pause", _standing(deputy)["id"][:8], "--why", "the weekend comes")
    assert paused["state"] == "paused"
    wait_until(lambda: _standing(fleet.hub)["state"] == "paused", "the one that began it knows")
    wait_until(lambda: gives.poll() is not None, "it gives no further wave")
    for shed in fleet.sheds:
        (shed.state / "wait-install").unlink()
    wait_until(lambda: _standing(deputy)["devices"][0]["outcome"] == "done", "what had begun ends, and all are told")
    assert sorted(_versions(fleet)) == ["good 1", "good 2"]
    assert "paused by" in deputy.ok("release", "status", paused["id"][:8])
    done = deputy.covey("release", "resume", paused["id"][:8])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert _versions(fleet) == ["good 2"] * 2
    assert [each["state"] for each in _standing(deputy)["said"]] == ["paused", "going"]


def test_a_device_that_sleeps_during_an_abort_never_starts(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("one", "two"))
    for shed in fleet.sheds:
        fleet.define_pump(shed)
    fleet.start()
    sleeper = fleet.sheds[1]
    sleeper.end()
    _begun(fleet, "--waves", "100%")
    wait_until(
        lambda: "done" in {each["outcome"] for each in _standing(fleet.hub)["devices"]},
        "who is awake has it, and is not on trial any more",
    )
    name = _standing(fleet.hub)["id"][:8]
    assert fleet.hub.json("release", "abort", name, "--why", "it overheats")["state"] == "aborted"
    sleeper.start("run", "--no-sensors")
    wait_until(lambda: {each["code"] for each in _standing(fleet.hub)["devices"]} == {"", "action_withdrawn"}, "told")
    assert _versions(fleet) == ["good 2", "good 1"]
    assert not _installs(sleeper)
    assert "was aborted by" in fleet.hub.fails("release", "resume", name, code=1)
    assert "aborted by" in fleet.hub.ok("release", "status", name)


def test_a_trial_is_rolled_back_when_its_release_is_aborted(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("one",))
    [shed] = fleet.sheds
    fleet.define_pump(shed)
    (shed.state / "wait-install").touch()
    fleet.start()
    gives = _begun(fleet, "--waves", "100%")
    gives.send_signal(signal.SIGINT)
    assert gives.wait(GUARD_S) == INTERRUPTED
    ending = f"to start further waves: covey release resume {_standing(fleet.hub)['id'][:8]}"
    assert f"interrupted: devices that have it continue; {ending}" in fleet.hub.log.read_text()
    wait_until(lambda: _installs(shed), "it begins")
    fleet.hub.json("release", "abort", _standing(fleet.hub)["id"][:8])
    wait_until(lambda: "release" in shed.ok("history", "log"), "it has heard of it")
    (shed.state / "wait-install").unlink()
    wait_until(lambda: _standing(fleet.hub)["devices"][0]["code"] == "action_rolled_back", "it has gone back")
    assert _versions(fleet) == ["good 1"]
    assert _standing(fleet.hub)["devices"][0]["why"] == "rolled back to good 1: its release was aborted"


def test_a_release_that_stopped_by_itself_holds_sleepers_and_goes_on_in_spite_of_what_failed(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("one", "two", "three"))
    for shed in fleet.sheds:
        fleet.define_pump(shed)
        shed.state.joinpath("pump-installer").write_text("#!/bin/sh\nexit 9\n")
    fleet.start()
    found = fleet.release(_NEW, "--waves", "1,100%", code=1)
    assert (found["state"], len(found["failed"]), found["said"][0]["state"]) == ("stopped", 1, "paused")
    assert found["said"][0]["why"].startswith("1 failed: ")
    status = fleet.hub.ok("release", "status", found["id"][:8])
    assert found["failed"][0] in status
    assert "--accept-failures" in status
    assert f"release {found['id'][:8]} has stopped: 1 failed" in fleet.hub.covey("check", "--offline").stdout
    [failed] = [shed for shed in fleet.sheds if shed.author[:8] in found["failed"][0]]
    assert "pump is not rolled back" in failed.covey("check", "--offline").stdout
    for shed in fleet.sheds:
        fleet.define_pump(shed)
    done = fleet.hub.covey("release", "resume", found["id"][:8], "--accept-failures")
    assert done.returncode == 0, (done.stdout, done.stderr)
    ended = _standing(fleet.hub)
    assert (ended["state"], ended["failed"], ended["stop_percent"]) == ("finished", [], 2)
    assert ended["accepted"] == found["failed"]
    assert sorted(_versions(fleet)) == ["good 1", "good 2", "good 2"]


def test_two_operators_approve_a_release_plan_once(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("one", "two"), deputies=("deputy",), threshold=2)
    [deputy] = fleet.deputies
    for shed in fleet.sheds:
        fleet.define_pump(shed)
    fleet.start()
    gives = _begun(fleet, "--waves", "1,100%")
    wait_until(lambda: len(deputy.json("release", "list")) == 1, "the deputy has heard of it")
    assert _standing(deputy)["state"] == "awaits approval"
    assert "1 more operator must approve it" in deputy.ok("release", "status", _standing(deputy)["id"][:8])
    assert not any((shed.state / "steps").exists() for shed in fleet.sheds)
    deputy.ok("order", "approve", _standing(deputy)["wave"][:8])
    wait_until(lambda: gives.poll() is not None, "it has been to both", idle_s=60)
    found = _standing(fleet.hub)
    assert (found["state"], found["waves_given"], _versions(fleet)) == ("finished", 2, ["good 2"] * 2)
