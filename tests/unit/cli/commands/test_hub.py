"""`covey hub`: what a second machine is after it has adopted a hub, without a relay between them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.app.relays.recovery import last_saved
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey
from covey.core.pairing.pending import Replacement
from tests.command import Here, covey
from tests.waiting import GUARD_S


@pytest.fixture
def password(tmp_path: Path) -> str:
    path = tmp_path / "passphrase"
    path.touch(0o600)
    path.write_text("correct horse\n")
    return str(path)


@pytest.fixture
def hub(tmp_path: Path) -> Here:
    """A hub of two groups that obeys an operator, with a door's secret."""
    device = Here(tmp_path, "hub")
    device.ok("own", "create")
    device.ok("group", "create", "--capability", "collector")
    (device.state / "cloud.secret").write_text("whsec")
    device.ok("config", "set", "telemetry.batch_seconds", "7")
    return device


def _adopt(tmp_path: Path, hub: Here, password: str) -> Path:
    file = tmp_path / "hub.recovery"
    hub.ok("hub", "save", str(file), "--password-file", password)
    state = tmp_path / "second"
    ended = covey("hub", "adopt", str(file), "--password-file", password, "--state", str(state))
    assert ended.code == 0, ended
    assert "never start the old hub again" in ended.stderr
    return state


@pytest.mark.slow
def test_it_has_the_hubs_keys_groups_and_settings_and_a_life_of_its_own(
    tmp_path: Path, hub: Here, password: str
) -> None:
    key = Identity.from_seeds(bytes(32), bytes(32)).signing_public
    with open_device(find_state(str(hub.state))) as device, device.store.transaction():
        group_id = device.pick_group(None).group_id
        device.store.invited_operators.pin(group_id, [key], key, 5)
    state = _adopt(tmp_path, hub, password)
    with open_device(find_state(str(hub.state))) as old, open_device(find_state(str(state))) as new:
        assert new.node.identity.keys == old.node.identity.keys
        assert new.node.groups.joined() == old.node.groups.joined()
        assert new.store.personal.pinned() == old.store.personal.pinned() is not None
        assert new.store.invited_operators.all() == old.store.invited_operators.all() != []
        assert new.store.incarnations.present() != old.store.incarnations.present()
        assert new.config.telemetry.batch_seconds == 7
    assert (state / "cloud.secret").read_text() == "whsec"
    assert {each.stat().st_mode & 0o077 for each in (state, *state.rglob("*"))} == {0}


def _finding(hub: Here) -> tuple[str, str, str]:
    ended = hub.covey("check", "--offline", "--json")
    (found,) = [each for each in json.loads(ended.stdout)["findings"] if each["check"] == "recovery"]
    return found["level"], found["line"], found["hint"]


@pytest.mark.slow
def test_check_reports_what_changed_since_the_last_recovery_file(tmp_path: Path, hub: Here, password: str) -> None:
    assert _finding(hub)[:2] == ("skipped", "no recovery file was written here (covey hub save FILE)")
    file = str(tmp_path / "hub.recovery")
    hub.ok("hub", "save", file, "--password-file", password)
    level, line, _ = _finding(hub)
    assert (level, line.split(" ago ")[1]) == ("ok", "has the keys, operators and groups of today")
    key = Identity.from_seeds(bytes(32), bytes(32)).signing_public
    with open_device(find_state(str(hub.state))) as device, device.store.transaction():
        device.store.invited_operators.pin(device.pick_group(None).group_id, [key], key, 5)
    hub.ok("group", "create")
    hub.ok("key", "rotate")
    hub.ok("vault", "init")
    level, line, hint = _finding(hub)
    assert (level, hint) == ("warning", "write a new one, and delete the old one: covey hub save FILE")
    assert line.endswith("ago is outdated: changed since: noise key, vault key, operators, groups")
    hub.ok("hub", "save", file, "--password-file", password)
    assert _finding(hub)[0] == "ok"


@pytest.mark.slow
def test_an_adopted_hub_knows_the_file_that_it_came_from(tmp_path: Path, hub: Here, password: str) -> None:
    state = _adopt(tmp_path, hub, password)
    with open_device(find_state(str(state))) as device:
        found = last_saved(device)
    assert found is not None
    assert found.changed == ()


@pytest.mark.slow
def test_an_adopted_hub_changes_its_groups(tmp_path: Path, hub: Here, password: str) -> None:
    state = _adopt(tmp_path, hub, password)
    other = Here(tmp_path, "other").json("key", "show")
    words = "group", "add", other["signing_key"], other["noise_key"], "--label", "other", "--state", str(state)
    assert covey(*words).code == 0
    assert "other" in covey("group", "members", "--state", str(state)).stdout


@pytest.mark.slow
def test_a_machine_that_is_a_device_adopts_nothing(tmp_path: Path, hub: Here, password: str) -> None:
    file = tmp_path / "hub.recovery"
    hub.ok("hub", "save", str(file), "--password-file", password)
    other = Here(tmp_path, "other")
    before = other.json("key", "show")
    said = other.fails("hub", "adopt", str(file), "--password-file", password, code=1)
    assert "already holds a device" in said
    assert other.json("key", "show") == before


@pytest.mark.slow
def test_a_wrong_passphrase_leaves_nothing(tmp_path: Path, hub: Here, password: str) -> None:
    file = tmp_path / "hub.recovery"
    hub.ok("hub", "save", str(file), "--password-file", password)
    wrong = tmp_path / "wrong"
    wrong.touch(0o600)
    wrong.write_text("incorrect horse\n")
    state = tmp_path / "second"
    ended = covey("hub", "adopt", str(file), "--password-file", str(wrong), "--state", str(state))
    assert (ended.code, "the passphrase is wrong" in ended.stderr, state.exists()) == (78, True, False), ended
    (tmp_path / "empty").touch()
    ended = covey("hub", "adopt", str(tmp_path / "empty"), "--password-file", password, "--state", str(state))
    assert (ended.code, "not a recovery file" in ended.stderr, state.exists()) == (78, True, False), ended


@pytest.mark.slow
def test_an_adoption_that_a_power_cut_ended_is_repeated(tmp_path: Path, hub: Here, password: str) -> None:
    state = _adopt(tmp_path, hub, password)
    for name in ("identity.key", "identity.key.copy"):  # which is written last
        (state / name).unlink(missing_ok=True)
    file = str(tmp_path / "hub.recovery")
    assert covey("hub", "adopt", file, "--password-file", password, "--state", str(state)).code == 0
    with open_device(find_state(str(hub.state))) as old, open_device(find_state(str(state))) as new:
        assert new.node.groups.joined() == old.node.groups.joined()


@pytest.mark.slow
def test_a_replaced_gateway_stays_replaced(tmp_path: Path, hub: Here, password: str) -> None:
    old, new = DeviceKey(bytes([1]) * 32), DeviceKey(bytes([2]) * 32)
    with open_device(find_state(str(hub.state))) as device, device.store.transaction():
        device.store.replacements.open(Replacement(bytes(32), device.pick_group(None).group_id, old, "pump"))
        device.store.replacements.finish(bytes(32), new)
    state = _adopt(tmp_path, hub, password)
    with open_device(find_state(str(state))) as adopted:
        assert adopted.store.replacements.replaced_by(new) == [old]


def _obeys(hub: Here, *operators: Here) -> None:
    keys = []
    for each in operators:
        with open_device(find_state(str(each.state))) as device:
            keys.append(device.node.identity.signing_public)
    with open_device(find_state(str(hub.state))) as device, device.store.transaction():
        for group in device.node.groups.joined():
            device.store.invited_operators.pin(group.group_id, keys, keys[0], 5)


def _adopting(file: str, state: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "covey.cli.main", "hub", "adopt", file, "--state", str(state)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_of_three_operators_make_another_machine_the_hub(tmp_path: Path, hub: Here) -> None:
    operators = [Here(tmp_path, f"op{number}") for number in range(3)]
    _obeys(hub, *operators)
    file, state = str(tmp_path / "hub.recovery"), tmp_path / "second"
    hub.ok("hub", "save", file, "--operators", "2")
    assert _finding(hub)[0] == "ok"
    with _adopting(file, state) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert "2 of these operators must approve: " in process.stderr.readline()
        request = process.stderr.readline().split()[-1]
        assert len(process.stderr.readline().split()[-1].split("-")) == 4, "a fingerprint"
        refused = operators[0].fails("hub", "approve", file, request, code=2)
        assert "there is no terminal to ask" in refused
        for each in (operators[2], operators[2], operators[0]):
            process.stdin.write(each.ok("hub", "approve", file, request, "--yes"))
            process.stdin.flush()
        assert process.wait(GUARD_S) == 0, process.stderr.read()
    with open_device(find_state(str(hub.state))) as old, open_device(find_state(str(state))) as new:
        assert new.node.identity.keys == old.node.identity.keys
        assert new.node.groups.joined() == old.node.groups.joined()


@pytest.mark.slow
def test_a_machine_with_too_few_approvals_is_no_hub(tmp_path: Path, hub: Here, password: str) -> None:
    operators = [Here(tmp_path, f"op{number}") for number in range(2)]
    file, state = str(tmp_path / "hub.recovery"), tmp_path / "second"
    assert "obeys 0 others" in hub.fails("hub", "save", file, "--operators", "1", code=1)
    _obeys(hub, *operators)
    hub.ok("hub", "save", file, "--operators", "2")
    ended = covey("hub", "adopt", file, "--state", str(state), feed="covey-approval-00\n")
    assert ended.code == 1
    assert "this is no approval of this request" in ended.stderr
    assert "error: 0 of 2 approvals\n" in ended.stderr
    assert not state.exists()
    hub.fails("hub", "save", file, "--operators", "2", "--password-file", password, code=2)
    hub.ok("hub", "save", file, "--password-file", password)
    said = operators[0].fails("hub", "approve", file, "covey-request-" + "00" * 32, "--yes", code=2)
    assert "has a passphrase" in said
