"""Boards that are hostile while a firmware lies there: what they can have a gateway write, log and send is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covey.app.boards.orders import BoardOrders, PinnedBoardOrders, board_orders
from covey.app.device.device import Device, find_state, open_device
from covey.core.ids import DeviceKey, key_text
from covey.core.now import Now
from covey.errors import DiskFullError
from covey.limits.board import BOARD_PART_BYTES
from covey_boards.bridge import Bridge
from covey_boards.images import read_image
from covey_boards.shared import line_orders
from covey_boards.updates import FAILED, FIRMWARE_CONDITION, RECEIVING, RUNS, TRIED, BoardUpdates
from tests.board import BoardOnLine, MemoryLine
from tests.command import Here

_BOARD = DeviceKey(bytes(range(32)))
_NOW = Now(1_000_000, 1_780_000_000_000_000)


class _Talker(BoardOnLine):
    """Notes what it is brought."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.brought: list[int] = []

    def _receive(self, kind: int, *fields: Any) -> None:
        self.brought.append(kind)
        super()._receive(kind, *fields)


class _Gateway(Here):
    """A gateway with a firmware for its boards, and what it reports."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "kim")
        self.ok("group", "create", "--capability", "collector")
        self.lines: list[str] = []
        self.image = find_state(str(self.state)).board_firmware
        self.ok("mcu", "pack", str(self.image))

    def report(self, *line: str) -> None:
        self.lines.append(" ".join(line))

    def updates(self, device: Device) -> BoardUpdates:
        return BoardUpdates(self.image, device.store, self.report)

    def noted(self, device: Device) -> dict[str, str]:
        found = device.store.conditions.values()
        return {name: value for name, (value, _) in found.items() if name.startswith(FIRMWARE_CONDITION)}


@pytest.fixture
def gateway(tmp_path: Path) -> _Gateway:
    return _Gateway(tmp_path)


@pytest.fixture
def device(gateway: _Gateway) -> Iterator[Device]:
    with open_device(find_state(str(gateway.state))) as opened:
        yield opened


def _later(seconds: float) -> Now:
    return Now(_NOW.monotonic_us + int(1e6 * seconds), _NOW.wall_us + int(1e6 * seconds))


@pytest.mark.slow
def test_a_board_that_says_something_else_each_time_is_noted_seldom(gateway: _Gateway, device: Device) -> None:
    updates, digest = gateway.updates(device), read_image(gateway.image.read_bytes()).digest
    for number in range(1_000):
        updates.next_message(_BOARD, _later(0.01 * number))
        updates.receive(_BOARD, digest, FAILED, 0, f"it is no good, {number}", device.node, _later(0.01 * number))
        updates.begin(_BOARD)
    assert len(gateway.lines) <= 3
    assert len(gateway.noted(device)) == 1


@pytest.mark.slow
def test_an_early_firmware_answer_is_asked_for_again(gateway: _Gateway, device: Device) -> None:
    updates, digest = gateway.updates(device), read_image(gateway.image.read_bytes()).digest
    assert updates.next_message(_BOARD, _later(0)) is not None
    updates.receive(_BOARD, digest, RECEIVING, 0, "", device.node, _later(0))
    updates.receive(_BOARD, digest, TRIED, 0, "", device.node, _later(1))
    updates.receive(_BOARD, digest, FAILED, 0, "does not start", device.node, _later(1))
    updates.next_message(_BOARD, _later(1))
    assert updates.next_message(_BOARD, _later(2)) is None
    assert updates.next_message(_BOARD, _later(20)) is not None
    updates.receive(_BOARD, digest, FAILED, 0, "does not start", device.node, _later(20))
    [noted] = gateway.noted(device).values()
    assert noted.endswith("failed does not start")
    assert updates.next_message(_BOARD, _later(1_000)) is None, "that is final"


@pytest.mark.slow
def test_a_report_that_a_full_disk_refused_is_noted_when_it_comes_again(
    gateway: _Gateway, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates, digest = gateway.updates(device), read_image(gateway.image.read_bytes()).digest
    updates.next_message(_BOARD, _later(0))

    def refuse(*_: object) -> None:
        raise DiskFullError("full")

    with monkeypatch.context() as full:
        full.setattr(type(device.store.conditions), "set", refuse)
        with pytest.raises(DiskFullError):
            updates.receive(_BOARD, digest, RUNS, 0, "", device.node, _later(0))
    updates.receive(_BOARD, digest, RUNS, 0, "", device.node, _later(1))  # the line holds the message until then
    [noted] = gateway.noted(device).values()
    assert noted.endswith(" runs")
    assert len(gateway.lines) == 1


@pytest.mark.slow
def test_a_part_is_under_way_once_however_often_it_is_asked_for(gateway: _Gateway, device: Device) -> None:
    updates, digest = gateway.updates(device), read_image(gateway.image.read_bytes()).digest
    kinds = []
    for seconds, offset in ((0, 0), (1, 0), (2, BOARD_PART_BYTES), (3, BOARD_PART_BYTES)):
        updates.next_message(_BOARD, _later(seconds))
        updates.receive(_BOARD, digest, RECEIVING, offset, "", device.node, _later(seconds))
        kinds.append(updates.next_message(_BOARD, _later(seconds)))
    assert [kind is not None for kind in kinds] == [True, False, True, False], "an announcement answered twice"
    assert updates.next_message(_BOARD, _later(70)) is not None, "announced anew, as nothing came of it"
    updates.receive(_BOARD, digest, RECEIVING, BOARD_PART_BYTES, "", device.node, _later(70))
    assert updates.next_message(_BOARD, _later(70)) is not None


@pytest.mark.slow
def test_a_board_in_no_group_gets_no_firmware(gateway: _Gateway, device: Device) -> None:
    member, stranger = _Talker("orchard"), _Talker("mallory")
    keys = [key_text("sign", member.key), key_text("noise", member.keys.noise_public)]
    gateway.ok("group", "add", *keys, "--label", "orchard", "--capability", "board")
    device.node.refresh()
    member.collector = stranger.collector = device.node.groups.joined()[0].members[0].keys
    lines = [MemoryLine(each, f"/dev/{each.name}") for each in (member, stranger)]
    bridge = Bridge([*lines], device.store, lambda: True, gateway.report, board_orders(device), gateway.updates(device))
    digest = read_image(gateway.image.read_bytes()).digest
    for turn in range(60):
        for line in lines:
            line.pass_bytes(50)
        if turn == 30:
            stranger.say(line_orders.PROGRESS, digest, FAILED, 0, "no good")
        bridge.turn(device.node, _later(0.05 * turn))
    assert line_orders.FIRMWARE in member.brought
    assert line_orders.FIRMWARE not in stranger.brought
    assert FIRMWARE_CONDITION + stranger.key.hex() not in gateway.noted(device)


@pytest.mark.slow
def test_unreadable_order_reports_of_a_board_are_reported_once(gateway: _Gateway, device: Device) -> None:
    talker = _Talker("orchard")
    keys = [key_text("sign", talker.key), key_text("noise", talker.keys.noise_public)]
    gateway.ok("group", "add", *keys, "--label", "orchard", "--capability", "board")
    device.node.refresh()
    orders = BoardOrders(device.store, PinnedBoardOrders(device), gateway.report)
    for number in range(50):
        assert orders.receive(talker.key, bytes([number]), bytes(64), device.node, _later(number))
        assert orders.receive(DeviceKey(bytes([number]) * 32), b"", bytes(64), device.node, _later(number))
    assert len(gateway.lines) == 1
