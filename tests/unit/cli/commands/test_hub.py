"""`covey hub`: what a second machine is after it has adopted a hub, without a relay between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.app.relays.recovery import last_saved
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey
from covey.core.pairing.pending import Replacement
from tests.command import Here, covey


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


def test_an_adopted_hub_knows_the_file_that_it_came_from(tmp_path: Path, hub: Here, password: str) -> None:
    state = _adopt(tmp_path, hub, password)
    with open_device(find_state(str(state))) as device:
        found = last_saved(device)
    assert found is not None
    assert found.changed == ()


def test_an_adopted_hub_changes_its_groups(tmp_path: Path, hub: Here, password: str) -> None:
    state = _adopt(tmp_path, hub, password)
    other = Here(tmp_path, "other").json("key", "show")
    words = "group", "add", other["signing_key"], other["noise_key"], "--label", "other", "--state", str(state)
    assert covey(*words).code == 0
    assert "other" in covey("group", "members", "--state", str(state)).stdout


def test_a_machine_that_is_a_device_adopts_nothing(tmp_path: Path, hub: Here, password: str) -> None:
    file = tmp_path / "hub.recovery"
    hub.ok("hub", "save", str(file), "--password-file", password)
    other = Here(tmp_path, "other")
    before = other.json("key", "show")
    said = other.fails("hub", "adopt", str(file), "--password-file", password, code=1)
    assert "already holds a device" in said
    assert other.json("key", "show") == before


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


def test_an_adoption_that_a_power_cut_ended_is_repeated(tmp_path: Path, hub: Here, password: str) -> None:
    state = _adopt(tmp_path, hub, password)
    for name in ("identity.key", "identity.key.copy"):  # which is written last
        (state / name).unlink(missing_ok=True)
    file = str(tmp_path / "hub.recovery")
    assert covey("hub", "adopt", file, "--password-file", password, "--state", str(state)).code == 0
    with open_device(find_state(str(hub.state))) as old, open_device(find_state(str(state))) as new:
        assert new.node.groups.joined() == old.node.groups.joined()


def test_a_replaced_gateway_stays_replaced(tmp_path: Path, hub: Here, password: str) -> None:
    old, new = DeviceKey(bytes([1]) * 32), DeviceKey(bytes([2]) * 32)
    with open_device(find_state(str(hub.state))) as device, device.store.transaction():
        device.store.replacements.open(Replacement(bytes(32), device.pick_group(None).group_id, old, "pump"))
        device.store.replacements.finish(bytes(32), new)
    state = _adopt(tmp_path, hub, password)
    with open_device(find_state(str(state))) as adopted:
        assert adopted.store.replacements.replaced_by(new) == [old]
