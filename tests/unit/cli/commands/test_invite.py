"""`covey invite --batch`: files for a fleet, and what becomes of them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from covey.adapters.broker.mosquitto_passwords import share_enrolment
from covey.app.device.device import find_state, open_device
from covey.app.pairing.invite_file import read_invite_file
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member
from covey.core.ids import DeviceKey, EpochId, GroupId
from covey.core.pairing.pending import Replacement
from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.pairing import MAXIMUM_PREPARED_INVITES
from tests.command import Here, covey

_NOWHERE = "mqtt://127.0.0.1:9"


@pytest.fixture
def hub(tmp_path: Path) -> Here:
    """A device in a group, with authority over its relay."""
    device = Here(tmp_path, "hub")
    passwords = tmp_path / "broker" / "passwords"
    passwords.parent.mkdir()
    share_enrolment(passwords, "shared")
    device.ok("relay", "set", _NOWHERE)
    device.ok("config", "set", "broker.password_file", str(passwords))
    device.ok("group", "create")
    return device


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "files"


def accounts(hub: Here) -> set[str]:
    """Return the accounts at the relay but for the one that joiners share."""
    lines = (hub.state.parent / "broker" / "passwords").read_text().splitlines()
    return {line.partition(":")[0] for line in lines} - {"enrol"}


def listed(hub: Here) -> list[tuple[str, str]]:
    found = [json.loads(line) for line in hub.ok("invite", "--list", "--json").splitlines()]
    return [(each["label"], each["state"]) for each in found]


def refused(hub: Here, *words: str) -> str:
    ended = hub.covey("invite", *words)
    assert ended.code != 0
    assert ended.stderr.count("error: ") == 1
    return ended.stderr


def test_each_device_has_a_file_and_an_account_of_its_own(hub: Here, files: Path) -> None:
    hub.ok("invite", "--batch", "12", "-o", str(files), "--label-prefix", "barn ", "--capability", "relayer")
    paths = sorted(files.iterdir())
    assert [path.name for path in paths][:2] == ["barn-01.covey", "barn-02.covey"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (*paths, files)} == {0o600, 0o700}
    found = [read_invite_file(path) for path in paths]
    assert [each.label for each in found] == [f"barn {number:02}" for number in range(1, 13)]
    assert accounts(hub) == {each.account for each in found}
    assert len({each.credential for each in found}) == len({each.invite.rendezvous for each in found}) == 12
    assert all(each.invite.enrolment is None for each in found)
    assert listed(hub) == [(each.label, "open") for each in found]


@pytest.mark.parametrize(("words", "noted"), [((), True), (("--operator", "none"), False)])
def test_a_batch_without_operators_warns_that_the_devices_obey_none(
    hub: Here, files: Path, words: tuple[str, ...], noted: bool
) -> None:
    ended = hub.covey("invite", "--batch", "1", "-o", str(files), *words)
    assert (ended.code, "these devices will obey no operator" in ended.stderr) == (0, noted)


def test_labels_come_from_a_file(hub: Here, files: Path, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("greenhouse\n\n  north field \nsüd/west\n")
    hub.ok("invite", "--labels", str(names), "-o", str(files))
    found = {path.name: read_invite_file(path).label for path in files.iterdir()}
    assert found == {
        "greenhouse.covey": "greenhouse",
        "north-field.covey": "north field",
        "süd-west.covey": "süd/west",
    }


@pytest.mark.slow
def test_one_is_taken_back_by_its_label_or_id_and_all_at_once(hub: Here, files: Path) -> None:
    hub.ok("invite", "--batch", "4", "-o", str(files))
    shown = [json.loads(line) for line in hub.ok("invite", "--list", "--json").splitlines()]
    assert "cancelled: 1" in hub.ok("invite", "--cancel", "gateway-2")
    assert "cancelled: 1" in hub.ok("invite", "--cancel", shown[2]["id"])
    assert listed(hub) == [("gateway-1", "open"), ("gateway-4", "open")]
    assert "is called 'gateway-2'" in refused(hub, "--cancel", "gateway-2")
    assert "cancelled: 2" in hub.ok("invite", "--cancel")
    assert listed(hub) == []


@pytest.mark.slow
def test_useless_batch_options_are_refused_and_leave_nothing(hub: Here, files: Path, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("one\none\n")
    assert "already exists" in refused(hub, "--labels", str(names), "-o", str(files))
    assert "no folder" in refused(hub, "--batch", "2")
    assert "takes 1 to" in refused(hub, "--batch", "0", "-o", str(files))
    assert "takes 1 to" in refused(hub, "--batch", str(MAXIMUM_PREPARED_INVITES + 1), "-o", str(files))
    assert "out of bounds" in refused(hub, "--batch", "2", "-o", str(files), "--valid", "91d")
    assert "exclude each other" in refused(hub, "--batch", "2", "--labels", str(names), "-o", str(files))
    names.write_text("x" * 65)
    assert "is not a label" in refused(hub, "--labels", str(names), "-o", str(files))
    assert not files.exists()
    gone = tmp_path / "gone" / "passwords"
    gone.parent.mkdir()
    gone.touch()
    hub.ok("config", "set", "broker.password_file", str(gone))
    gone.unlink()
    gone.parent.rmdir()
    assert "cannot be changed" in refused(hub, "--batch", "2", "-o", str(files))
    assert (list(files.iterdir()), listed(hub)) == ([], [])


def test_no_authority_no_account(hub: Here, files: Path) -> None:
    hub.ok("config", "unset", "broker.password_file")
    assert "each device needs one first" in hub.covey("invite", "--batch", "1", "-o", str(files)).stderr
    (path,) = files.iterdir()
    found = read_invite_file(path)
    assert (found.credential, found.invite.rendezvous) == ("", None)


@pytest.mark.slow
def test_a_device_with_an_account_asks_at_once_and_is_called_what_the_file_says(
    hub: Here, files: Path, tmp_path: Path
) -> None:
    hub.ok("config", "unset", "broker.password_file")
    hub.ok("invite", "--batch", "1", "-o", str(files))
    state = ("--state", str(tmp_path / "pi"))
    ended = covey("join", *state, str(files / "gateway-1.covey"), "--timeout", "0")
    assert (ended.code, "no answer yet" in ended.stderr) == (124, True), ended
    assert covey("config", "get", *state, "relay.url").stdout.strip() == _NOWHERE
    assert covey("config", "get", *state, "label").stdout.strip() == "gateway-1"


@pytest.mark.slow
def test_an_invite_file_names_the_operators_and_the_actions_they_may_order(
    hub: Here, files: Path, tmp_path: Path
) -> None:
    hub.ok("config", "unset", "broker.password_file")
    key = hub.json("key", "show")["signing_key"]
    words = ("--operator", key, "--command", "restart-agent", "--command", "read-now")
    hub.ok("invite", "--batch", "2", "-o", str(files), *words)
    for name, options, obeyed in (("1", (), 1), ("2", ("--obey-nobody",), 0)):
        pi = Here(tmp_path, f"pi{name}")
        pi.covey("join", str(files / f"gateway-{name}.covey"), "--timeout", "0", *options)
        assert len(pi.json("status")["operators"]["obeyed"]) in {obeyed, 0}  # it is in no group yet
        commands = pi.json("config", "get", "operations.commands")["value"]
        assert commands == (["restart-agent", "read-now"] if obeyed else [])


@pytest.mark.slow
def test_a_hub_that_invites_obeying_devices_learns_to_approve_itself(hub: Here, files: Path, tmp_path: Path) -> None:
    hub.ok("relay", "set", _NOWHERE)
    key = hub.json("key", "show")["signing_key"]
    approval = f"covey config set operations.operators {key}"
    words = "invite", "--batch", "1", "--operator", key, "-o"
    assert approval in hub.covey(*words, str(files)).stderr
    assert approval in hub.fails("order", "run", "greet", code=1)
    hub.ok("config", "set", "operations.operators", key)
    done = hub.covey(*words, str(tmp_path / "more"))
    assert (done.code, "cannot give orders" in done.stderr) == (0, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--labels", "-", "-o", "x", "--label-prefix", "p"), "--label-prefix has no effect with --labels"),
        (("--batch", "2", "-o", "x", "--yes"), "--yes has no effect with --batch"),
        (("--batch", "2", "-o", "x", "--to", "pi"), "--to has no effect with --batch"),
        (("--valid", "3d"), "--valid has no effect with an invite without --batch or --labels"),
        (("--command", "read-now"), "--command has no effect with an invite without"),
        (("--fleet", "--to", "pi"), "--fleet has no effect with --to"),
        (("--fleet", "--group", "5c"), "--fleet and --group exclude each other"),
        (("--list", "--fleet"), "--fleet has no effect with --list"),
        (("--replace", "pump", "--batch", "2", "-o", "x"), "--batch has no effect with --replace"),
        (("--replace", "pump", "--fleet"), "--fleet has no effect with --replace"),
        (("--replace", "pump", "-o", "x", "--yes"), "--yes has no effect with --output"),
        (("--replace", "pump"), "no member matches 'pump'"),
        (("--list", "--no-wait"), "--no-wait has no effect with --list"),
        (("--cancel", "--capability", "collector"), "--capability has no effect with --cancel"),
        (("--batch", "1", "-o", "x", "--command", "no name"), "is not an action name"),
        (("--batch", "1", "-o", "x", "--command", "read-now", "--operator", "none"), "no operator is named"),
        (("--batch", "1", "-o", "x", "--command", "read-now"), "no operator is named"),
    ],
)
def test_an_option_without_effect_is_a_mistake(hub: Here, words: tuple[str, ...], said: str) -> None:
    assert said in refused(hub, *words)


def test_a_file_that_is_no_invite_is_reported(tmp_path: Path) -> None:
    pi = Here(tmp_path, "pi")
    broken = tmp_path / "broken.covey"
    for content in ("", "label = 7\n", 'label = "x', 'label = "x"\ninvite = "covey://join/1/AA"\n', "x" * 70_000):
        broken.write_text(content)
        ended = pi.covey("join", str(broken))
        assert (ended.code != 0, ended.stderr.count("error: ")) == (True, 1), content[:20]
    assert "cannot be read" in pi.covey("join", str(tmp_path / "missing.covey")).stderr


def _fill(hub: Here, group: str, members: int) -> None:
    """Let the group have so many members."""
    with open_device(find_state(str(hub.state))) as device, device.store.transaction():
        group_id = GroupId(bytes.fromhex(group))
        missing = members - len(device.node.groups.group(group_id).members)
        seeds = [
            (number.to_bytes(16, "big") + bytes(16), bytes(12) + number.to_bytes(4, "big") + bytes(16))
            for number in range(missing)
        ]
        newcomers = [Member(Identity.from_seeds(*pair).keys, f"old-{number}") for number, pair in enumerate(seeds)]

        def grown(draft: GroupManifest, _: EpochId) -> GroupManifest:
            for each in newcomers:
                draft = draft.adding(each)
            return draft

        device.node.membership.change(group_id, grown, device.now().wall_us)


def _groups_of(files: Path) -> dict[str, str]:
    """Return the beginning of the group's id for each label."""
    found = [read_invite_file(path) for path in files.iterdir()]
    return {each.label: each.invite.group_id.hex() for each in found}


@pytest.mark.slow
def test_newcomers_to_the_fleet_join_the_group_with_the_most_room(hub: Here, files: Path) -> None:
    small = hub.json("group", "create")["group_id"]
    (large,) = (each["group_id"] for each in hub.json("group", "list") if each["group_id"] != small)
    _fill(hub, large, 4)
    said = hub.covey("invite", "--fleet", "--batch", "4", "-o", str(files)).stderr
    assert f"4 devices for group {small[:8]} with 1 member" in said
    assert set(_groups_of(files).values()) == {small}
    assert hub.json("invite", "--fleet", "--no-wait")["group_id"] == large, "open invites take room as members do"
    assert hub.json("invite", "--no-wait", "--group", small)["group_id"] == small


@pytest.mark.slow
def test_a_batch_is_divided_where_no_group_has_room_for_all(hub: Here, files: Path, tmp_path: Path) -> None:
    groups = [each["group_id"] for each in hub.json("group", "list")]
    groups.append(hub.json("group", "create")["group_id"])
    _fill(hub, groups[0], MAXIMUM_MEMBERS - 2)
    _fill(hub, groups[1], MAXIMUM_MEMBERS - 3)
    assert "room for 5 more devices, not for 6" in refused(hub, "--fleet", "--batch", "6", "-o", str(files))
    assert not files.exists()
    assert listed(hub) == []
    hub.ok("invite", "--fleet", "--batch", "5", "-o", str(files))
    found = _groups_of(files)
    assert [found[f"gateway-{number}"] for number in range(1, 6)] == [groups[1]] * 3 + [groups[0]] * 2
    assert "room for 0 more devices, not for 1" in refused(hub, "--fleet", "--no-wait")
    assert "which group?" in refused(hub, "--batch", "1", "-o", str(tmp_path / "more"))


@pytest.mark.slow
def test_the_fleet_has_no_groups_of_others(hub: Here, tmp_path: Path) -> None:
    other = Here(tmp_path, "other")
    keys = other.json("key", "show")
    hub.ok("group", "add", keys["signing_key"], keys["noise_key"])
    ended = other.covey("invite", "--fleet", "--no-wait")
    assert (ended.code, "can add members to no group of your fleet" in ended.stderr) == (1, True), ended


def test_the_list_of_groups_names_their_collectors(hub: Here) -> None:
    hub.ok("group", "create", "--capability", "collector")
    assert sorted(each["collectors"] for each in hub.json("group", "list")) == [[], ["hub"]]
    head, *rows = hub.ok("group", "list").splitlines()
    assert "collectors" in head
    assert sorted(row.split()[3] for row in rows) == ["hub", "none"]


def test_a_replacement_has_the_members_label_and_roles_and_waits_for_its_newcomer(hub: Here, files: Path) -> None:
    keys = Identity.from_seeds(bytes(32), bytes([1]) * 32).keys
    group = hub.json("group", "show")["group_id"]
    with open_device(find_state(str(hub.state))) as device, device.store.transaction():
        pump = Member(keys, "pump", capabilities=("relayer",))
        device.node.membership.change(
            GroupId(bytes.fromhex(group)), lambda draft, _: draft.adding(pump), device.now().wall_us
        )
    hub.ok("invite", "--replace", "pump", "-o", str(files))
    assert listed(hub) == [("pump", "open")]
    with open_device(find_state(str(hub.state))) as device:
        ((invite,), (waiting,)) = device.store.invites.all(), device.store.replacements.waiting()
        assert invite.capabilities == ("relayer",)
        assert (waiting.secret_hash, waiting.replaced, waiting.label) == (
            invite.secret_hash,
            keys.signing_public,
            "pump",
        )
    assert "cannot replace itself" in refused(hub, "--replace", "hub", "-o", str(files))


def test_a_replacement_of_a_replacement_continues_the_series_of_both(hub: Here) -> None:
    first, second, third = (DeviceKey(bytes([number]) * 32) for number in (1, 2, 3))
    with open_device(find_state(str(hub.state))) as device, device.store.transaction():
        group_id = device.pick_group(None).group_id
        for number, (old, new) in enumerate(((first, second), (second, third))):
            device.store.replacements.open(Replacement(bytes([number]), group_id, old, "pump"))
            device.store.replacements.finish(bytes([number]), new)
        assert device.store.replacements.replaced_by(third) == [second, first]
        assert device.store.replacements.replaced_by(first) == []
        assert device.store.replacements.waiting() == []
        device.store.replacements.forget(group_id)
        assert device.store.replacements.replaced_by(third) == []
