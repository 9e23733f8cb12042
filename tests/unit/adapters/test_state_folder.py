"""`StateFolder.wipe`: whatever a crash leaves, the next start goes on, and the device is a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters import state_folder
from covey.adapters.state_folder import StateFolder
from covey.config.schema import Config
from covey.errors import StorageError


@pytest.mark.parametrize("crash_after", range(9))
def test_a_crash_half_way_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_after: int
) -> None:  # accepts: 000.23
    folder = StateFolder.at(tmp_path / "state")
    before = folder.create({})
    folder.store(Config()).close()
    folder.write_relay_password("secret")
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
