"""`covey own` as a person with two devices uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import Member, read_manifest
from covey.core.ids import DeviceKey, NoisePublic, key_from_text
from covey.limits.personal import MAXIMUM_PREFERENCE_VALUE_BYTES
from tests.command import Here


@pytest.fixture
def laptop(tmp_path: Path) -> Here:
    device = Here(tmp_path, "laptop")
    device.ok("own", "create")
    return device


def test_a_device_alone(laptop: Here) -> None:
    [own] = laptop.json("own", "devices")
    assert (own["label"], own["this"], own["presence"], own["groups"]) == ("laptop", True, None, [])


def test_the_group_of_own_devices_is_no_commands_only_group(laptop: Here) -> None:
    fleet = laptop.json("group", "create")["group_id"]
    assert laptop.json("group", "show")["group_id"] == fleet


def test_a_second_one_is_refused(laptop: Here) -> None:
    ended = laptop.covey("own", "create")
    assert ended.code == 1
    assert "already" in ended.stderr
    assert "hint: 'covey own devices'" in ended.stderr
    assert laptop.covey("own", "link", "1-abandon-ability-able", "--relay", "mqtts://nowhere").code == 1


def test_without_one_the_way_to_it_is_shown(tmp_path: Path) -> None:
    device = Here(tmp_path, "laptop")
    for words in (("devices",), ("groups",), ("link",), ("preference", "theme", "dark")):
        ended = device.covey("own", *words)
        assert ended.code == 1
        assert "covey own create" in ended.stderr


def test_a_device_in_the_wrong_kind_of_group_learns_how_to_leave(laptop: Here) -> None:
    personal = laptop.json("group", "show")["group_id"]
    with open_device(find_state(str(laptop.state))) as device, device.store.transaction():
        device.store.personal.unpin()
    assert f"covey group leave --group {personal[:8]}" in laptop.fails("own", "devices", code=1)
    laptop.ok("group", "leave", "--yes", "--group", personal[:8])
    assert "covey own create" in laptop.fails("own", "devices", code=1)


def test_a_person_who_left_can_create_another_group(laptop: Here) -> None:
    laptop.ok("group", "leave", "--yes")
    assert laptop.covey("own", "devices").code == 1
    laptop.ok("own", "create")


@pytest.mark.slow
def test_preferences(laptop: Here) -> None:  # accepts: 003.61
    laptop.ok("own", "preference", "theme", "dark")
    laptop.ok("own", "preference", "theme", "light")
    laptop.ok("own", "preference", "units", "SI")
    assert [(each["key"], each["value"]) for each in laptop.json("own", "preference")] == [
        ("theme", "light"),
        ("units", "SI"),
    ]
    laptop.ok("own", "preference", "units", "--unset")
    assert [each["key"] for each in laptop.json("own", "preference")] == ["theme"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("theme", "x" * (MAXIMUM_PREFERENCE_VALUE_BYTES + 1)), "at most 1024 bytes"),
        (("k" * 65, "dark"), "at most 64 bytes"),
        (("", "dark"), "needs a name"),
        (("--unset",), "--unset takes a name"),
        (("muted", "yes", "--group", "ff"), "0 of your groups match"),
    ],
)
def test_a_preference_that_is_none(laptop: Here, words: tuple[str, ...], said: str) -> None:
    ended = laptop.covey("own", "preference", *words)
    assert ended.code in {1, 2}
    assert said in ended.stderr
    assert "hint: " in ended.stderr


def test_an_ordinary_group_is_never_made_personal(laptop: Here) -> None:
    assert laptop.covey("group", "create", "--mode", "personal").code == 2


def test_statements_of_own_devices_are_in_the_history(laptop: Here) -> None:
    laptop.ok("own", "preference", "theme", "dark")
    entry = json.loads(laptop.ok("history", "log", "--json"))
    assert (entry["kind"], entry["text"]) == ("preference", "theme = dark")


@pytest.mark.slow
def test_groups_with_one_other_device_go_with_it(laptop: Here, tmp_path: Path) -> None:  # accepts: 003.55
    key = Here(tmp_path, "pump").json("key", "show")["signing_key"]
    pair = laptop.json("group", "create", "--mode", "one-to-one", "--with", key)["group_id"]
    fleet, digits = laptop.json("group", "create")["group_id"], key_from_text("sign", key).hex()[:8]
    assert laptop.covey("group", "leave", "--with", digits, "--group", pair).code == 2
    assert laptop.json("group", "leave", "--with", digits, "--delete-now", "--yes") == {"left": [pair]}
    assert laptop.json("group", "show")["group_id"] == fleet
    assert laptop.covey("group", "leave", "--with", digits, "--yes").code == 1


@pytest.mark.slow
def test_an_old_device_is_retired(laptop: Here, tmp_path: Path) -> None:
    keys = Here(tmp_path, "old").json("key", "show")
    assert "that is this device" in laptop.covey("own", "retire", "laptop", "--yes").stderr
    _list_among_own(laptop, keys, "old")
    shared = laptop.json("group", "create")["group_id"]
    laptop.ok("group", "add", keys["signing_key"], keys["noise_key"], "--label", "old", "--group", shared)
    admins = _group_of_somebody_else(tmp_path, laptop, keys)
    assert laptop.covey("own", "retire", "old").code == 2, "nobody is there to ask"
    said = laptop.ok("own", "retire", "old", "--yes")
    assert "old from your own devices" in said
    assert f"removed it from group {shared[:8]}" in said
    ban = f"covey group ban {key_from_text('sign', keys['signing_key']).hex()[:8]} --group {admins[:8]}"
    assert f"still a member of group {admins[:8]}: on an admin's device: {ban}\n" in said
    assert [each["label"] for each in laptop.json("own", "devices")] == ["laptop"]
    assert [each["label"] for each in laptop.json("group", "members", "--group", shared)] == ["laptop"]
    assert len(laptop.json("group", "members", "--group", admins)) == 3


def _list_among_own(here: Here, keys: dict[str, str], label: str) -> None:
    """Let a device into the group of own devices, as `covey own link` does where both are there."""
    signing, noise = key_from_text("sign", keys["signing_key"]), key_from_text("noise", keys["noise_key"])
    newcomer = Member(DeviceKeys(DeviceKey(signing), NoisePublic(noise)), label)
    with open_device(find_state(str(here.state))) as device, device.store.transaction():
        [personal] = device.node.groups.joined()
        device.node.actions.add_device(personal.group_id, newcomer, "", device.now())


def _group_of_somebody_else(folder: Path, *members: Here | dict[str, str]) -> str:
    """Have another device, its only admin, make a group of these, and let the first know of it; return its id."""
    kim, this = Here(folder, "kim"), members[0]
    assert isinstance(this, Here)
    group_id: str = kim.json("group", "create", "--mode", "admin-invites")["group_id"]
    for each in members:
        keys = each.json("key", "show") if isinstance(each, Here) else each
        kim.ok("group", "add", keys["signing_key"], keys["noise_key"])
    with open_device(find_state(str(kim.state))) as device:
        manifests = [raw for _, _, raw in device.store.groups.manifests()]
    with open_device(find_state(str(this.state))) as device, device.store.transaction():
        for raw in manifests:
            said = read_manifest(raw)
            device.store.groups.save_manifest(said.group_id, said.hash, said.version, raw, 0)
    return group_id
