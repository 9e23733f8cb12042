"""Which groups `--fleet` means: those that the person's own devices created, and those that the person added."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.app.groups.own import retire
from covey.app.groups.own_devices import own_devices
from covey.core.group.manifest import read_manifest
from covey.core.ids import DeviceKey
from tests.command import Here
from tests.operated_fleet import OperatedFleet


@pytest.fixture
def kim(tmp_path: Path) -> Here:
    """An operator's laptop with a group that it created."""
    device = Here(tmp_path, "kim")
    device.ok("own", "create")
    device.ok("group", "create")
    device.ok("config", "set", "operations.operators", device.json("key", "show")["signing_key"])
    return device


@pytest.fixture
def mallory(tmp_path: Path, kim: Here) -> str:
    """The id of a group that another device created, and let the laptop into."""
    other = Here(tmp_path, "mallory")
    group: str = other.json("group", "create")["group_id"]
    keys = kim.json("key", "show")
    other.ok("group", "add", keys["signing_key"], keys["noise_key"], "--label", "kim", "--group", group)
    _carry(other, kim)
    return group


def _carry(source: Here, to: Here, *, skip_first: bool = False) -> None:
    """Bring the manifests and secrets of all groups of one device to another one."""
    with (
        open_device(find_state(str(source.state))) as here,
        open_device(find_state(str(to.state))) as there,
        there.store.transaction(),
    ):
        for group in here.node.groups.joined():
            chain = [read_manifest(raw) for raw in here.store.groups.manifests_from(group.group_id, 1)]
            for each in chain[1:] if skip_first else chain:
                there.store.groups.save_manifest(group.group_id, each.hash, each.version, each.raw, 0)
            secret = here.store.groups.secret(group.group_id, group.epoch_id)
            if secret is not None:
                there.store.groups.save_secret(group.group_id, group.epoch_id, secret, 0)


def _fleet(kim: Here) -> dict[str, tuple[bool, str]]:
    return {each["group_id"]: (each["fleet"], each["why"]) for each in kim.json("group", "list") if each["operator"]}


@pytest.mark.slow
def test_a_group_that_others_created_gets_no_order_for_the_fleet_until_a_person_adds_it(
    kim: Here, mallory: str
) -> None:
    [own] = set(_fleet(kim)) - {mallory}
    assert _fleet(kim) == {own: (True, "created by your devices"), mallory: (False, "created by other devices")}
    words = "setting", "set", "app.mode", "eco", "--fleet", "--json"
    given = kim.covey(*words)
    assert given.code == 0
    assert f"1 group not of your fleet skipped: {mallory[:8]}" in given.stderr
    assert "app.mode" not in kim.ok("history", "log", "--group", mallory)
    kim.ok("group", "add-to-fleet", "--group", mallory)
    assert _fleet(kim)[mallory] == (True, "added")
    assert sorted(kim.json(*words)["groups"]) == sorted([own, mallory])
    kim.ok("group", "remove-from-fleet", "--group", own)
    assert _fleet(kim)[own] == (False, "removed from the fleet")
    assert kim.json(*words)["groups"] == [mallory]


@pytest.mark.slow
def test_where_no_group_belongs_to_the_fleet_the_command_says_how_to_add_one(kim: Here, mallory: str) -> None:
    for group in _fleet(kim):
        kim.ok("group", "remove-from-fleet", "--group", group)
    refusal = kim.fails("order", "run", "greet", "--fleet", code=1)
    assert "belongs to your fleet" in refusal
    assert "covey group add-to-fleet" in refusal
    assert "which group?" in kim.fails("order", "run", "greet", code=1), "each of them can still be named"
    assert mallory[:8] in kim.fails("order", "run", "greet", code=1)


@pytest.mark.slow
def test_a_public_group_cannot_be_added(kim: Here) -> None:
    public = kim.json("group", "create", "--mode", "public")["group_id"]
    assert "anyone can join it" in kim.fails("group", "add-to-fleet", "--group", public, code=2)
    assert not next(each for each in kim.json("group", "list") if each["group_id"] == public)["fleet"]


@pytest.mark.slow
def test_a_group_is_not_of_the_fleet_while_its_first_manifest_is_missing(tmp_path: Path, kim: Here) -> None:
    other = Here(tmp_path, "lee")
    group = other.json("group", "create")["group_id"]
    keys = kim.json("key", "show")
    other.ok("group", "add", keys["signing_key"], keys["noise_key"], "--group", group)
    _carry(other, kim, skip_first=True)
    assert _fleet(kim)[group] == (False, "its creator is not known here yet")


@pytest.mark.slow
def test_groups_stay_in_the_fleet_when_the_device_that_created_them_is_retired(tmp_path: Path) -> None:
    fleet = OperatedFleet(tmp_path, groups=2, devices=1)
    assert fleet.phone is not None
    assert sum(each for each, _ in _fleet(fleet.phone).values()) == 2, "the laptop created them"
    with fleet.open(fleet.laptop) as opened:
        laptop: DeviceKey = opened.node.identity.signing_public
        with opened.store.transaction():
            assert {each.what for each in own_devices(opened).turn("laptop", opened.now())} == {"told"}
    fleet.carry([fleet.personal])
    with fleet.open(fleet.phone) as opened:
        retire(opened, laptop)
    assert [*_fleet(fleet.phone).values()] == [(True, "created by your devices")] * 2
    assert not fleet.phone.json("own", "devices")[1:], "the laptop is none of them any more"
