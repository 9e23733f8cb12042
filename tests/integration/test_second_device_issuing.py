"""The second implementation of a device makes a group, lets real agents in and out, and ends a conflict."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.integration.second import Second
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def _members(gateway: Gateway) -> set[str]:
    return {member["signing_public"] for member in gateway.json("group", "show")["members"]}


def _believes(second: Second) -> set[str]:
    return set(second.said("members")[-1]["members"])


def _conflict(second: Second) -> bool:
    conflict: bool = second.said("members")[-1]["conflict"]
    return conflict


def test_agents_join_its_group_deliver_there_and_go_when_it_removes_them(
    new_gateway: Callable[[str], Gateway], second: Second
) -> None:
    kim, gateway = new_gateway("kim"), new_gateway("gateway")
    second.start("--create", "--commands", "--label", "shed", "--count", "40", "--every", "20")
    kim.ok("join", "-", feed=second.invite("collector"))
    kim.start("collect", "--no-sensors")
    wait_until((kim.state / "vault.key").exists, "the collector has a vault")
    wait_until(lambda: len(landed(kim)) == 40, "its readings land at the collector that it has invited")
    gateway.ok("join", "-", feed=second.invite())
    gateway.start("run", "--no-sensors")
    gateway.ok("publish", "--wait", "300", feed='{"n":"level","v":7}\n')
    wait_until(lambda: ("level", 7) in {(name, value) for name, _, _, value in landed(kim)}, "the other's land as well")
    assert _members(kim) == _members(gateway) == {second.key, kim.author, gateway.author}
    gateway.ok("history", "post", "before the removal")
    wait_until(lambda: second.said("operations"), "the note comes")

    version = kim.json("group", "show")["version"]
    second.do("rotate")
    wait_until(lambda: kim.json("group", "show")["version"] == version + 1, "the collector knows its new noise key")
    gateway.ok("history", "post", "sealed for the new key")
    wait_until(lambda: len(second.said("operations")) == 2, "that note comes, too")
    second.do(f"remove {gateway.author[:8]}")
    wait_until(lambda: _members(kim) == {second.key, kim.author}, "the collector knows of the removal")
    wait_until(lambda: "this device was removed" in gateway.log.read_text(), "the removed one, too")
    second.do("leave")
    wait_until(lambda: _members(kim) == {kim.author}, "it has left")


def test_a_conflict_ends_with_the_same_members_everywhere(
    new_gateway: Callable[[str], Gateway], second: Second
) -> None:
    kim, gateway = new_gateway("kim"), new_gateway("gateway")
    second.start("--create", "--commands")
    for each in (kim, gateway):
        each.ok("join", "-", feed=second.invite())
        each.start("run", "--no-sensors")
        wait_until(lambda each=each: each.author in _believes(second), "it is let in")
    wait_until(lambda: len(_members(kim)) == 3, "both know all")
    third = new_gateway("third")
    kim.end()
    kim.ok("group", "remove", "gateway", "--yes")
    third.ok("join", "-", feed=second.invite())
    third.start("run", "--no-sensors")
    wait_until(lambda: third.author in _believes(second), "the second device has let a third one in meanwhile")
    kim.start("run", "--no-sensors")
    everybody = {second.key, kim.author, third.author}
    wait_until(lambda: _believes(second) == everybody and not _conflict(second), "it knows the members of both")
    wait_until(lambda: _members(kim) == _members(third) == everybody, "and so does everybody")
