"""One release for three groups, through a real broker: its operator's laptop is killed, and the phone continues it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_INSTALL = """
summary = "take a model"
argv = ["/bin/sh", "-c", 'echo tried >> "$0/tried"; test ! -e "$0/broken"', "{state}", "{{file}}", "{{group}}"]
idempotent = true
[arguments.file]
text = 64
characters = "0123456789abcdef"
[arguments.group]
text = 64
characters = "0123456789abcdef"
"""
_FAST = ("--installer", "install", "--soak", "0s", "--patience", "10m", "--fleet")


class ThreeGroups:
    """A laptop and a phone of one operator, and three groups: of two devices, of one, and of one."""

    def __init__(self, new_gateway: Callable[[str], Gateway], tmp_path: Path, threshold: int = 1) -> None:
        self.laptop, self.phone = new_gateway("laptop"), new_gateway("phone")
        self.personal = self.laptop.json("own", "create")["group_id"]
        self.laptop.start("run", "--no-sensors")
        self.phone.ok("own", "link", "-", feed=self.laptop.json("own", "link", "--yes", "--no-wait")["uri"])
        self.phone.start("run", "--no-sensors")
        self.operators = ",".join(each.json("key", "show")["signing_key"] for each in (self.laptop, self.phone))
        for each in (self.laptop, self.phone):
            self._pin(each, threshold)
        names = ("shed", "barn", "roof", "lake")
        self.groups = [self.laptop.json("group", "create")["group_id"] for _ in names[1:]]
        self.sheds = [new_gateway(name) for name in names]
        self.places = [self.groups[0], *self.groups]
        for shed, group in zip(self.sheds, self.places, strict=True):
            self._let_in(shed, group, threshold)
        own, obeying = ("own", "groups"), ("history", "log", "--type", "obeying", "--json", "--group")
        wait_until(
            lambda: sum(each["member"] for each in self.phone.json(*own)) == len(self.groups), "the phone joined"
        )
        for own_device in (self.laptop, self.phone):
            for group, devices in zip(self.groups, (2, 1, 1), strict=True):
                wait_until(
                    lambda own=own_device, group=group, devices=devices: (
                        own.ok(*obeying, group).count("obeying") == devices
                    ),
                    "both know who obeys",
                )
        self.file = tmp_path / "model.bin"
        self.file.write_bytes(b"model" * 1_000)

    def _pin(self, each: Gateway, threshold: int) -> None:
        each.ok("config", "set", "operations.operators", self.operators)
        each.ok("config", "set", "operations.threshold", str(threshold))

    def _let_in(self, shed: Gateway, group: str, threshold: int) -> None:
        action = shed.state / "operations.d" / "install.toml"
        action.parent.mkdir(mode=0o700)
        action.write_text(_INSTALL.format(state=shed.state))
        action.chmod(0o600)
        self._pin(shed, threshold)
        shed.ok("config", "set", "operations.commands", "install")
        self.laptop.invite(shed, "--group", group)
        shed.start("run", "--no-sensors")

    def tried(self) -> list[int]:
        """Return how often each device has run its installer."""
        logs = [each.state / "tried" for each in self.sheds]
        return [len(log.read_text().splitlines()) if log.exists() else 0 for log in logs]

    def standing(self, own: Gateway) -> dict[str, Any]:
        """Return the one release as an own device sees it; empty until it has heard of it."""
        found = own.json("release", "list")
        assert len(found) <= 1
        return found[0] if found else {}


def test_the_phone_continues_when_the_laptop_dies_after_the_second_wave(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = ThreeGroups(new_gateway, tmp_path)
    laptop, phone = fleet.laptop, fleet.phone
    laptop.start_beside("release", "create", str(fleet.file), "--waves", "1,2,100%", *_FAST)
    wait_until(lambda: sum(fleet.tried()) >= 2, "two waves have it")
    held = laptop.json("release", "pause", fleet.standing(laptop)["id"], "--why", "to look at it")
    given = len(held["devices"])
    wait_until(lambda: sum(fleet.tried()) == given, "what had begun ends")
    wait_until(lambda: fleet.standing(phone).get("state") == "paused", "the phone knows that it is paused")
    wait_until(lambda: len(fleet.standing(phone)["said"][0]["groups"]) == 3, "in all groups")
    wait_until(
        lambda: [each["outcome"] for each in fleet.standing(phone)["devices"]] == ["done"] * given, "and all results"
    )
    laptop.end(signal.SIGKILL)
    seen = fleet.standing(phone)
    assert (len(seen["groups"]), seen["missing"], len(seen["said"][0]["groups"])) == (3, [], 3)
    done = phone.covey("release", "resume", seen["id"][:8])
    assert done.returncode == 0, (done.stdout, done.stderr)
    found = fleet.standing(phone)
    assert (found["state"], len(found["devices"]), found["others"]) == ("finished", 4, 0)
    assert fleet.tried() == [1, 1, 1, 1]
    phone.ok("group", "remove", fleet.operators.split(",")[0], "--fleet", "--yes")
    resumed = phone.covey("release", "resume", seen["id"][:8])
    assert resumed.returncode == 0, (resumed.stdout, resumed.stderr)
    assert fleet.tried() == [1, 1, 1, 1]


def test_the_phone_announces_a_release_in_groups_that_the_laptop_never_reached(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = ThreeGroups(new_gateway, tmp_path)
    laptop, phone = fleet.laptop, fleet.phone
    laptop.end()
    laptop.ok("relay", "set", "mqtt://127.0.0.1:1", "--password-file", "-", feed="nobody")
    laptop.start_beside("release", "create", str(fleet.file), "--waves", "1,100%", *_FAST)
    wait_until(lambda: fleet.standing(laptop) != {}, "it is written, and nobody has heard of it")
    laptop.end(signal.SIGKILL)
    first = fleet.standing(laptop)["devices"][0]["device"]
    place = next(group for group, shed in zip(fleet.places, fleet.sheds, strict=True) if shed.author == first)
    phone.end()
    for group in (fleet.personal, place):
        laptop.ok("history", "export", str(tmp_path / group), "--group", group)
        phone.ok("history", "import", str(tmp_path / group))
    laptop.ok("file", "export", "model.bin", str(tmp_path / "copy"), "--group", place)
    phone.ok("file", "import", str(tmp_path / "copy"), "--group", place)
    seen = fleet.standing(phone)
    assert (len(seen["groups"]), len(seen["missing"])) == (3, 2)
    assert f"covey release resume {seen['id'][:8]}" in phone.covey("check", "--offline").stdout
    phone.start("run", "--no-sensors")
    done = phone.covey("release", "resume", seen["id"][:8])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "announced in 2 groups that lacked it" in done.stderr
    found = fleet.standing(phone)
    assert (found["state"], len(found["devices"]), found["missing"]) == ("finished", 4, [])
    assert fleet.tried() == [1, 1, 1, 1]


def test_a_bad_release_stops_in_all_groups_and_two_operators_agree_once(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = ThreeGroups(new_gateway, tmp_path, threshold=2)
    laptop, phone = fleet.laptop, fleet.phone
    for shed in fleet.sheds:
        (shed.state / "broken").touch()
    refused = laptop.fails("release", "create", str(fleet.file), "--installer", "install", code=1)
    assert "which group? this device is an operator in 3" in refused
    gives = laptop.start_beside("release", "create", str(fleet.file), "--waves", "1,100%", *_FAST)
    wait_until(lambda: fleet.standing(phone).get("state") == "awaits approval", "the phone has heard of it")
    wait_until(lambda: fleet.standing(phone)["missing"] == [], "in all groups")
    name = fleet.standing(phone)["id"][:8]
    assert sum(fleet.tried()) == 0
    phone.ok("order", "approve", name)
    wait_until(lambda: gives.poll() is not None, "it has stopped", idle_s=60)
    found = fleet.standing(laptop)
    assert (found["state"], len(found["failed"]), found["others"]) == ("stopped", 1, 3)
    assert sum(fleet.tried()) == 1
    assert len(found["said"][0]["groups"]) == 3
    assert [each["kind"] for each in laptop.json("order", "list")] == ["command", "release"]
    [shown] = laptop.json("fleet")["releases"]
    assert (shown["state"], len(shown["groups"])) == ("stopped", 3)
    for shed in fleet.sheds:
        (shed.state / "broken").unlink()
    done = laptop.covey("release", "resume", name, "--accept-failures")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert fleet.tried() == [1, 1, 1, 1], "the second wave needs no further approval"
