"""`covey.app.orders.command_role`: what an owner lets operators have done, and how that is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app import shipped_files
from covey.app.device.device import open_device
from covey.app.orders.command_role import OwnerActions, end_obeying
from covey.config.actions import read_action
from covey.core.actions.commands import ObeyedSince
from covey.core.actions.results import NOT_ALLOWED, NOT_DEFINED
from covey.core.ids import GroupId, OperationId
from covey.errors import ActionError

_SHIPPED = ("fetch-file", "journal", "move-group", "read-now", "reboot", "restart-agent", "support-bundle")


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder.at(tmp_path / "state")
    folder.create({"operations.commands": ("journal", "beep", "gone")})
    folder.actions.mkdir(mode=0o755)
    return folder


def _define(folder: StateFolder, name: str, text: str) -> None:
    path = folder.actions / f"{name}.toml"
    path.write_text(text)
    path.chmod(0o644)


def _code(folder: StateFolder, name: str) -> str:
    with open_device(folder) as device, pytest.raises(ActionError) as caught:
        OwnerActions(device).action(name)
    return caught.value.code


@pytest.mark.parametrize("name", _SHIPPED)
def test_built_in_actions_are_defined_and_off(folder: StateFolder, name: str) -> None:
    action = read_action(name, shipped_files.read(f"operations.d/{name}.toml"), name)
    assert action.summary
    if name != "journal":
        assert _code(folder, name) == NOT_ALLOWED


def test_an_owners_definition_comes_before_the_one_that_covey_brings(folder: StateFolder) -> None:
    with open_device(folder) as device:
        assert OwnerActions(device).action("journal").argv[0] == "/usr/bin/journalctl"
    _define(folder, "journal", 'summary = "mine"\nargv = ["/bin/true"]')
    with open_device(folder) as device:
        assert OwnerActions(device).action("journal").argv == ("/bin/true",)


def test_undefined_and_malformed_actions_are_refused(folder: StateFolder) -> None:
    assert _code(folder, "gone") == NOT_DEFINED
    _define(folder, "beep", "argv = 1")
    assert _code(folder, "beep") == NOT_DEFINED
    assert _code(folder, "restart-pump") == NOT_ALLOWED


def test_obeying_again_begins_at_a_new_point(folder: StateFolder) -> None:
    with open_device(folder) as device:
        group_id = GroupId(bytes(32))
        since = ObeyedSince(OperationId(bytes(32)), 1, device.store.incarnations.present())
        with device.store.transaction():
            device.store.commands.note_obeyed(group_id, since)
        end_obeying(device)
        assert device.store.commands.obeyed_since(group_id) is None
