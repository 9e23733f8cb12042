"""Commands for boards, where their agent has the port: what they do once the board has answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.boards import boards
from covey.app.boards.boards import Board, enrol
from covey.app.device.device import Device, find_state, open_device
from covey.core.crypto import Identity
from covey.errors import LocalError
from covey.ports import AttachedBoard
from tests.command import Here
from tests.fleet import identity

_PORT = "/dev/ttyACM0"


def _note(device: Device, board: Identity, *, enrolled: bool) -> None:
    with device.store.transaction():
        device.store.boards.note(AttachedBoard(_PORT, board.keys, "a board", enrolled, True, 0, {}))


def _trust(_: Board) -> None:
    """Compare nothing."""


@pytest.mark.slow
def test_a_board_of_one_group_is_not_enrolled_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "_wait", lambda _device, _ports, find, _seconds: find())
    kim, orchard = Here(tmp_path, "kim"), identity("orchard")
    for _ in range(2):
        kim.ok("group", "create", "--capability", "collector")
    with open_device(find_state(str(kim.state))) as device:
        first, second = device.node.groups.joined()
        _note(device, orchard, enrolled=False)
        enrol(device, _PORT, first, "orchard", expected=None, confirm=_trust)
        with pytest.raises(LocalError, match=f"the board is in group {first.group_id.hex()[:8]}") as raised:
            enrol(device, _PORT, second, "orchard", expected=None, confirm=_trust)
        assert f"covey group remove {orchard.signing_public.hex()[:8]}" in str(raised.value.hint)
        enrol(device, _PORT, first, "meadow", expected=None, confirm=_trust)
        found = device.node.groups.group(first.group_id).member(orchard.signing_public)
        assert found is not None
        assert found.label == "meadow"
        assert device.node.groups.group(second.group_id).member(orchard.signing_public) is None


@pytest.mark.slow
def test_a_board_that_still_sends_for_an_earlier_group_is_not_enrolled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "_wait", lambda _device, _ports, find, _seconds: find())
    kim, orchard = Here(tmp_path, "kim"), identity("orchard")
    kim.ok("group", "create", "--capability", "collector")
    with open_device(find_state(str(kim.state))) as device:
        [group] = device.node.groups.joined()
        _note(device, orchard, enrolled=True)
        with pytest.raises(LocalError, match="a group that it was in before") as raised:
            enrol(device, _PORT, group, "orchard", expected=None, confirm=_trust)
        assert "covey mcu reset --unenrol" in str(raised.value.hint)
        assert device.node.groups.group(group.group_id).member(orchard.signing_public) is None
