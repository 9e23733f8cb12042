"""`StateFolder.wipe`: whatever a crash leaves, the next start goes on, and the device is a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters import state_folder
from covey.adapters.state_folder import StateFolder
from covey.config.schema import Config
from covey.errors import ConfigurationError, StorageError


@pytest.mark.parametrize("crash_after", range(9))
def test_a_crash_half_way_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_after: int
) -> None:  # accepts: 000.23
    folder = StateFolder.at(tmp_path / "state")
    before = folder.create({})
    folder.store(Config(), folder.identity()).close()
    folder.write_relay_password("secret", folder.identity())
    removals = iter(range(100))
    remove = getattr(state_folder, "remove_durably")  # noqa: B009 - where it is used

    def crashing(path: Path) -> None:
        if next(removals) == crash_after:
            raise StorageError("power cut")
        remove(path)

    monkeypatch.setattr(state_folder, "remove_durably", crashing)
    for _ in range(2):  # the first start may crash, too
        try:
            folder.wipe()
            folder.identity()
        except StorageError:
            continue
    after = folder.identity()
    assert after.signing_public != before.signing_public
    assert after.noise_public != before.noise_public
    assert not (folder.path / "relay.password").exists()
    assert not (folder.path / "state.sqlite").exists()
    assert folder.identity() == after


@pytest.mark.parametrize("asked", ["identity", "settings", "doors"])
def test_a_user_without_a_device_is_led_to_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """As a member of the agent's group, whose own state folder is empty; `covey init` would make a second device."""
    (tmp_path / "system").symlink_to("private/covey")  # as for systemd's dynamic users: nobody else may look into it
    monkeypatch.setattr("covey.adapters.state_path.SYSTEM_STATE", tmp_path / "system")
    folder = StateFolder.at(tmp_path / "home")
    ask = {"identity": folder.identity, "settings": folder.configuration.config, "doors": folder.configuration.doors}
    with pytest.raises(ConfigurationError, match=f"the device of this machine is in {tmp_path / 'system'}") as refused:
        ask[asked]()
    assert refused.value.hint.startswith("run the command with sudo")
    assert "covey init" not in refused.value.hint


def test_a_user_without_a_device_is_led_to_an_agent_with_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr("covey.adapters.state_path.SYSTEM_STATE", tmp_path / "nowhere")
    monkeypatch.setattr("covey.adapters.state_path.SYSTEM_RUN", tmp_path / "run")
    with pytest.raises(ConfigurationError, match="an agent of this machine has its state in another folder") as refused:
        StateFolder.at(tmp_path / "home").identity()
    assert refused.value.hint.startswith("name that folder: --state DIR; run the command with sudo")


def test_without_a_device_on_the_machine_one_is_made_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.adapters.state_path.SYSTEM_STATE", tmp_path / "nowhere")
    monkeypatch.setattr("covey.adapters.state_path.SYSTEM_RUN", tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=f"there is no device in {tmp_path / 'home'}$") as refused:
        StateFolder.at(tmp_path / "home").configuration.config()
    assert "covey init" in refused.value.hint


def test_a_lost_configuration_is_no_lost_device(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "state")
    folder.create({})
    folder.configuration.path.unlink()
    with pytest.raises(ConfigurationError, match=r"config\.toml does not exist$") as refused:
        folder.configuration.config()
    folder.configuration.path.touch()  # as the hint says
    assert "create an empty file" in refused.value.hint
    assert folder.configuration.config() == Config()
