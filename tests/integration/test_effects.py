"""What a command refuses has changed nothing: all of its checks come before its first effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.device import device
from covey.core.crypto import DeviceKeys
from covey.core.ids import GroupId, key_from_text
from covey.core.pairing.invite import Invite
from tests.command import Here, covey
from tests.fleet import identity

_RELAY = "mqtt://127.0.0.1:1"


@pytest.fixture
def one(tmp_path: Path) -> Here:
    here = Here(tmp_path, "one")
    here.ok("relay", "set", _RELAY)
    return here


def _files(here: Here) -> dict[str, bytes]:
    """Return the settings and keys of a device."""
    return {each.name: each.read_bytes() for each in here.state.iterdir() if each.suffix in {".toml", ".keys"}}


def _add(one: Here, other: Here, label: str, *words: str) -> str:
    keys = other.json("key", "show")
    return str(one.json("group", "add", keys["signing_key"], keys["noise_key"], "--label", label, *words)["uri"])


def _uri(other: str, relay_url: str, expires_at_us: int = 2**62) -> str:
    keys = identity(other)
    pinned = DeviceKeys(keys.signing_public, keys.noise_public)
    return Invite(GroupId(bytes(32)), pinned, bytes(16), expires_at_us, relay_url).to_uri()


def _become_plain_member(here: Here, of: Here) -> None:
    """Give a device the group of another one, as if its answer had come."""
    with (
        device.open_device(device.find_state(str(of.state))) as theirs,
        device.open_device(device.find_state(str(here.state))) as ours,
        ours.store.transaction(),
    ):
        for group in theirs.node.groups.joined():
            ours.store.groups.save_manifest(group.group_id, group.hash, group.version, group.raw, 0)


def test_a_member_is_named_by_its_label_while_that_is_changed(one: Here, tmp_path: Path) -> None:
    two = Here(tmp_path, "two")
    one.ok("group", "create")
    _add(one, two, "two")
    [shown] = one.json("group", "profile", "two", "--label", "new")
    assert shown["label"] == "new"
    assert "no option --mode" in one.fails("group", "profile", "--mode", "public", code=2)
    one.fails("group", "profile", "two", "--label", "newer", code=1)
    assert one.json("group", "show")["version"] == 3


@pytest.mark.parametrize("mode", ["admin-invites", "public"])
def test_a_member_that_may_not_invite_makes_no_invite(one: Here, tmp_path: Path, mode: str) -> None:  # accepts: 003.07
    two, three = Here(tmp_path, "two"), Here(tmp_path, "three")
    admin = one.json("group", "create", "--mode", mode)["members"][0]["name"]
    _add(one, two, "two")
    two.ok("relay", "set", _RELAY)
    _become_plain_member(two, one)
    keys = three.json("key", "show")
    for words in (
        ("invite", "--no-wait"),
        ("invite", "--yes", "--no-wait"),
        ("group", "add", keys["signing_key"], keys["noise_key"]),
    ):
        said = two.fails(*words, code=1)
        assert "only an admin" in said
        assert f"hint: ask an admin: {admin}" in said
    assert two.json("invite", "--cancel") == {"cancelled": 0}


def test_nor_does_a_group_of_two_that_are_both_there(one: Here, tmp_path: Path) -> None:
    two, three = Here(tmp_path, "two"), Here(tmp_path, "three")
    one.ok("group", "create", "--mode", "one-to-one", "--with", two.json("key", "show")["signing_key"])
    keys = three.json("key", "show")
    assert "for one other device" in one.fails("group", "add", keys["signing_key"], keys["noise_key"], code=1)
    _add(one, two, "two")
    assert "both are in it" in one.fails("invite", "--no-wait", code=1)
    assert one.json("invite", "--cancel") == {"cancelled": 0}


def test_two_groups_of_the_same_two_are_both_kept(one: Here, tmp_path: Path) -> None:  # accepts: 003.56
    two = Here(tmp_path, "two")
    key = two.json("key", "show")["signing_key"]
    groups = [one.json("group", "create", "--mode", "one-to-one", "--with", key)["group_id"] for _ in range(2)]
    for group in groups:
        one.ok("group", "profile", "--group", group, "--title", f"with two, {group[:4]}")
    found = [one.json("group", "show", "--group", group) for group in groups]
    assert [each["title"] for each in found] == [f"with two, {group[:4]}" for group in groups]


def test_a_banned_device_is_not_added(one: Here, tmp_path: Path) -> None:
    two = Here(tmp_path, "two")
    one.ok("group", "create")
    _add(one, two, "two")
    one.ok("group", "ban", "two", "--yes")
    keys = two.json("key", "show")
    assert "banned" in one.fails("group", "add", keys["signing_key"], keys["noise_key"], code=1)
    assert one.json("group", "show")["version"] == 3


@pytest.mark.parametrize(
    ("relay_url", "expires_at_us", "code", "words"),
    [(_RELAY, 1, 1, "expired"), ("ftp://elsewhere", 2**62, 78, "must be mqtt://HOST")],
)
def test_a_join_that_is_refused_sets_no_relay(
    tmp_path: Path, relay_url: str, expires_at_us: int, code: int, words: str
) -> None:
    two = Here(tmp_path, "two")
    before = _files(two)
    assert words in two.fails("join", "-", feed=_uri("inviter", relay_url, expires_at_us), code=code)
    assert _files(two) == before
    assert two.json("status")["pending_joins"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("mqtt://elsewhere", "--password-file", "/nowhere"),
        ("mqtt://elsewhere", "--password-file", "/dev/null"),
        ("mqtt://elsewhere", "--certificate", "/nowhere"),
        ("mqtt://elsewhere", "--ca-file", "/nowhere"),
        ("mqtt://elsewhere", "--key", "/nowhere"),
        ("nothing", "--ca-file", "/etc/hostname"),
    ],
)
def test_a_relay_that_cannot_be_set_whole_is_not_set_at_all(one: Here, words: tuple[str, ...]) -> None:
    before = _files(one)
    assert one.covey("relay", "set", *words).code in {1, 2, 78}
    assert _files(one) == before


def test_a_device_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    for number, named in enumerate(("/nowhere", "/dev/null")):
        state = tmp_path / str(number)
        assert covey("init", "--state", str(state), "--passphrase-file", named).code in {1, 2, 78}, named
        assert not state.exists(), named


def test_settings_are_all_checked_before_one_is_changed(one: Here) -> None:
    before = _files(one)
    for words in (("set", "label", "new", "outbox.maximum_bytes", "1"), ("set", "label", "x" * 100)):
        assert one.covey("config", *words).code in {1, 2, 78}
    assert _files(one) == before


def test_a_group_uri_is_a_public_groups_and_nobody_elses(one: Here, tmp_path: Path) -> None:  # accepts: 003.07, 003.86
    one.ok("group", "create")
    assert "covey invite" in one.fails("group", "uri", code=1)
    one.ok("group", "leave", "--yes")
    group_id = one.json("group", "create", "--mode", "public")["group_id"]
    shown = one.json("group", "uri")
    assert shown["group_id"] == group_id
    assert one.ok("group", "uri").strip() == shown["uri"]
    assert "already in that group" in one.fails("join", shown["uri"], code=1)
    two = Here(tmp_path, "two")
    before = _files(two)
    assert "damaged" in two.fails("join", "-", feed=shown["uri"][:-3], code=1)
    assert _files(two) == before
    assert "no answer yet" in two.fails("join", shown["uri"], "--timeout", "0.1", code=124)
    assert two.json("status")["pending_joins"] == 1
    assert f'url = "{_RELAY}"' in (two.state / "config.toml").read_text()


@pytest.mark.parametrize("mode", ["invites-only", "admin-invites"])
def test_a_ban_may_name_what_is_no_member(one: Here, tmp_path: Path, mode: str) -> None:  # accepts: 003.43
    two, three = Here(tmp_path, "two"), Here(tmp_path, "three")
    one.ok("group", "create", "--mode", mode)
    _add(one, two, "two")
    keys, invite = three.json("key", "show"), one.json("invite", "--no-wait")
    assert "no member, known device" in one.fails("group", "ban", "three", "--yes", code=1)
    assert "neither a signing key" in one.fails("group", "ban", keys["noise_key"], "--yes", code=1)
    assert "another group" in one.fails("group", "ban", _uri("four", _RELAY), "--yes", code=1)
    banned = one.json("group", "ban", keys["signing_key"], "--yes")["banned"]
    key = key_from_text("sign", keys["signing_key"]).hex()
    assert banned == [key]
    assert one.json("group", "ban", invite["uri"], "--yes")["banned"] == sorted([*banned, invite["id"]])
    assert "banned" in one.fails("group", "add", keys["signing_key"], keys["noise_key"], code=1)
    for target in (invite["id"], key):
        one.fails("group", "ban", target, "--yes", code=1)
    for target in (invite["id"][:8], key[:8]):
        shown = one.json("group", "unban", target)
    assert (shown["banned"], len(shown["members"])) == ([], 2)
    one.ok("group", "ban", invite["id"][:8], "--yes")
    one.ok("group", "remove" if mode == "invites-only" else "ban", "two", "--yes")
    if mode == "invites-only":
        one.ok("group", "ban", "two", "--yes")
    assert len(one.json("group", "show")["banned"]) == 2
