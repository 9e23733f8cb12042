"""An error that nobody has foreseen, in what a gateway does for one board: the other boards' readings go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.now import Now
from covey.errors import ConstraintError, DiskFullError
from covey_boards.bridge import BoardOrder, Bridge
from covey_boards.shared import line_orders
from tests.board import BoardOnLine, MemoryLine, enrol
from tests.fleet import Device, found

_ORDER = BoardOrder(OperationId(bytes(32)), (b"an order",), (), has_deadline=False)


class _Listener(BoardOnLine):
    """Notes the kinds of messages that it is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.kinds: list[int] = []

    def _receive(self, kind: int, *fields: object) -> None:
        self.kinds.append(kind)
        super()._receive(kind, *fields)


class _Failing:
    """What operators want of boards, and a firmware for them; for one board both fail."""

    def __init__(self, board: DeviceKey, error: Exception) -> None:
        self.board, self.error = board, error
        self.asked = 0

    def operators(self, _: GroupId) -> tuple[int, list[DeviceKey]]:
        return 1, []

    def next_order(self, board: DeviceKey, *_: object) -> BoardOrder | None:
        self._fail(board)
        return _ORDER

    def receive(self, board: DeviceKey, *_: object) -> bool:
        self._fail(board)
        return True

    def begin(self, board: DeviceKey) -> None:
        """Nothing to note."""

    def next_message(self, board: DeviceKey, _: Now) -> bytes | None:
        self._fail(board)
        return None

    def _fail(self, board: DeviceKey) -> None:
        if board == self.board:
            self.asked += 1
            raise self.error


class _Site:
    """A gateway that is its own collector, and two boards, the first of which brings out an error."""

    def __init__(self, folder: Path, error: Exception) -> None:
        self.device = Device("gate", folder)
        group_id = found(self.device, Device("collector", folder, collects=True))
        self.boards = [_Listener("bad"), _Listener("good")]
        self.lines = [MemoryLine(each, f"/dev/{each.name}") for each in self.boards]
        self.failing = _Failing(self.boards[0].key, error)
        self.reports: list[str] = []
        parts = self.failing, self.failing
        self.bridge = Bridge(self.lines, self.device.store, lambda: True, self._report, *parts)  # type: ignore[arg-type]
        for board in self.boards:
            enrol(board, self.device, group_id)

    def _report(self, level: str, line: str) -> None:
        self.reports.append(f"{level}: {line}")

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 20)):
            for line in self.lines:
                line.pass_bytes(50)
            now = self.device.now
            self.device.now = Now(now.monotonic_us + 50_000, now.wall_us + 50_000)
            self.bridge.turn(self.device.node, self.device.now)

    def measure(self, boards: Sequence[BoardOnLine]) -> int:
        """Let boards measure; return how many readings the gateway forwards."""
        before = self.device.store.counters.values().get("forwarded_envelopes", 0)
        for board in boards:
            board.measure()
        self.run(1)
        return self.device.store.counters.values().get("forwarded_envelopes", 0) - before

    @property
    def defects(self) -> list[str]:
        return [each for each in self.reports if "defect" in each]


@pytest.mark.parametrize("error", [AssertionError("it was just weighed"), ConstraintError("no such row"), KeyError(1)])
def test_a_board_that_brings_out_a_defect_stops_no_other(tmp_path: Path, error: Exception) -> None:
    site = _Site(tmp_path, error)
    site.run(3)
    assert line_orders.ORDER in site.boards[1].kinds
    assert site.measure(site.boards) == 2, "the readings of both go on"
    assert site.device.node.discarded, "what was half done is not kept"
    assert len(site.defects) == 1, site.reports
    assert type(error).__name__ in site.defects[0]
    assert site.failing.asked <= 4


def test_what_failed_for_a_board_is_tried_again_a_minute_later(tmp_path: Path) -> None:
    site = _Site(tmp_path, ValueError())
    site.run(3)
    site.failing.board = DeviceKey(bytes(32))
    site.run(50)
    assert line_orders.ORDER not in site.boards[0].kinds
    site.run(12)
    assert line_orders.ORDER in site.boards[0].kinds


def test_a_message_that_brings_out_a_defect_holds_up_no_later_one(tmp_path: Path) -> None:
    site = _Site(tmp_path, ValueError())
    site.run(3)
    site.boards[0].say(line_orders.RESULT, b"", bytes(64))
    assert site.measure(site.boards) == 2


def test_a_disk_that_refuses_is_no_defect_of_a_board(tmp_path: Path) -> None:
    site = _Site(tmp_path, DiskFullError("full"))
    with pytest.raises(DiskFullError):
        site.run(3)
