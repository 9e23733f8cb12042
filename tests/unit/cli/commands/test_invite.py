"""`covey invite --batch`: files for a fleet, and what becomes of them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from covey.adapters.broker.mosquitto_passwords import share_enrolment
from covey.app.pairing.invite_file import read_invite_file
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
        (("--list", "--no-wait"), "--no-wait has no effect with --list"),
        (("--cancel", "--capability", "collector"), "--capability has no effect with --cancel"),
        (("--batch", "1", "-o", "x", "--command", "no name"), "is not an action name"),
        (("--batch", "1", "-o", "x", "--command", "read-now", "--operator", "none"), "no operator is named"),
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
