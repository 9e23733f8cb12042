"""What installers of an owner's own may do wrong, and releases that get in each other's way: each ends, and is told."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.gateway import Gateway
from tests.integration.installing import Fleet
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def _site(new_gateway: Callable[[str], Gateway], folder: Path, install: str) -> tuple[Fleet, Gateway]:
    """Return a device whose installer does something wrong when it is to install."""
    fleet = Fleet(new_gateway, folder, ("shed",))
    [shed] = fleet.sheds
    fleet.define_pump(shed)
    script = shed.state / "pump-installer"
    script.write_text(script.read_text().replace("install)\n", f"install)\n    {install}\n", 1))
    fleet.start()
    return fleet, shed


def _left(mark: str) -> list[str]:
    """Return the processes of this machine whose command line says something."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if mark in each.read_bytes().decode(errors="replace").split("\0"):
                found.append(each.parent.name)
    return found


def test_an_installer_that_hangs_is_ended_and_falls_back_and_says_for_what_it_waits(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    """As behind the lock of a package manager that somebody else runs."""
    waits = "echo 'waits for packages.lock, which apt holds' >&2; flock packages.lock true || exit; sleep 86417"
    fleet, shed = _site(new_gateway, tmp_path, f"test -e free || {{ {waits}; }}")
    action = shed.state / "operations.d" / "pump.toml"
    action.write_text(action.read_text().replace("seconds = 300", "seconds = 4", 1))
    with (shed.state / "packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome, code, why = fleet.outcome(fleet.order("good 2\n"))
        assert (outcome, code) == ("failed", "action_rolled_back")
        owner = "stopped after 4 s, the limit that this device's owner set"
        assert why == f"rolled back to good 1: {owner}: waits for packages.lock, which apt holds"
        assert _left("packages.lock") == []
    outcome, _code, why = fleet.outcome(fleet.order("good 2\n"))
    assert (outcome, why) == ("failed", f"rolled back to good 1: {owner}: waits for packages.lock, which apt holds")
    assert ((shed.state / "pump").read_text(), _left("86417")) == ("good 1\n", [])
    (shed.state / "free").touch()
    assert fleet.outcome(fleet.order("good 2\n"))[::2] == ("done", "on good 2")


def test_an_installer_that_leaves_processes_behind_leaves_none(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    many = "for i in $(seq 20); do setsid sleep 86418 & done; setsid sh -c 'setsid sleep 86418 & sleep 86418' &"
    fleet, shed = _site(new_gateway, tmp_path, many)
    outcome, _code, why = fleet.outcome(fleet.order("good 2\n"))
    assert (outcome, why) == ("done", "on good 2")
    assert ((shed.state / "pump").read_text(), _left("86418")) == ("good 2\n", [])


def test_an_installer_that_writes_without_end_is_ended_and_falls_back(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet, shed = _site(new_gateway, tmp_path, "exec yes > endless")
    outcome, code, why = fleet.outcome(fleet.order("good 2\n"))
    assert (outcome, code) == ("failed", "action_rolled_back"), why
    assert "File too large" in why
    assert (shed.state / "endless").stat().st_size == 1 << 30
    (shed.state / "endless").unlink()
    assert (shed.state / "pump").read_text() == "good 1\n"


def test_two_releases_at_once_end_one_after_the_other(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("one", "two"))
    for shed in fleet.sheds:
        fleet.define_pump(shed)
    fleet.start()
    words = ("--installer", "pump", "--soak", "0s", "--patience", "3m", "--waves", "100%")
    both = []
    for number in (2, 3):
        path = tmp_path / f"pump-{number}"
        path.write_text(f"good {number}\n")
        both.append(fleet.hub.start_beside("release", "create", str(path), *words))
    wait_until(lambda: all(each.poll() is not None for each in both), "both have ended", idle_s=60)
    found = fleet.hub.json("release", "list")
    assert [each["state"] for each in found] == ["finished", "finished"]
    last = found[-1]["devices"][0]["why"].removeprefix("on ")
    assert [(shed.state / "pump").read_text().strip() for shed in fleet.sheds] == [last] * 2
    for shed in fleet.sheds:
        assert (shed.state / "steps").read_text().split().count("install") == 2


def test_a_release_for_nobody_is_a_mistake(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("one",))
    fleet.define_pump(fleet.sheds[0])
    fleet.start()
    said = fleet.hub.fails("release", "create", fleet.file("good 2\n"), "--for", "label:nowhere", code=2)
    assert "nowhere" in said
    assert fleet.hub.json("file", "list") == []
    assert fleet.hub.json("release", "list") == []
