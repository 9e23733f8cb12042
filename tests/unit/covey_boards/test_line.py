"""What boards say that cannot say who they are: kept for people while it holds, and of no stranger."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.boards.unnamed_boards import unnamed_boards
from covey.ports import LINE_CONDITION, UDP_PREFIX
from covey_boards.line import Line, UnnamedBoards
from covey_boards.shared import messages
from tests.board import BoardOnLine, MemoryLine
from tests.unit.covey_boards.test_bridge import Gateway

_TROUBLE = "the start: OSError ([Errno 28] ENOSPC)"


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    """Return a gateway whose board cannot start."""
    made = Gateway(tmp_path)
    made.board.identify = lambda: made.board.say(messages.TROUBLE, _TROUBLE)  # type: ignore[method-assign]
    made.run(6)
    return made


def _said(gateway: Gateway) -> dict[str, str]:
    conditions = gateway.device.store.conditions.values()
    return {name.removeprefix(LINE_CONDITION): said for name, (said, _) in conditions.items() if said}


@pytest.mark.slow
def test_an_error_at_each_start_is_one_lasting_trouble(gateway: Gateway) -> None:
    assert _said(gateway) == {gateway.line.port: _TROUBLE}
    since_us = gateway.device.store.conditions.values()[LINE_CONDITION + gateway.line.port][1]
    for _ in range(3):
        gateway.board.boot()
        gateway.run(8)
        assert _said(gateway) == {gateway.line.port: _TROUBLE}
    assert gateway.device.store.conditions.values()[LINE_CONDITION + gateway.line.port][1] == since_us


@pytest.mark.slow
def test_it_ends_when_the_board_says_who_it_is_or_nothing(gateway: Gateway) -> None:
    gateway.board.identify = lambda: None  # type: ignore[method-assign]
    gateway.board.boot()
    gateway.run(8)
    assert _said(gateway) == {}
    gateway.board.say(messages.TROUBLE, _TROUBLE)
    gateway.run(6)
    assert _said(gateway) == {gateway.line.port: _TROUBLE}
    del gateway.board.identify
    gateway.board.boot()
    gateway.run(0.5)
    assert _said(gateway) == {}
    assert [board.trouble for board in gateway.device.store.boards.all()] == [""]


def test_it_outlasts_the_agent_and_is_no_other_ports(gateway: Gateway) -> None:
    gateway.line.broken = True
    gateway.kill()
    gateway.line.broken = True
    gateway.run(0.5)
    assert _said(gateway) == {gateway.line.port: _TROUBLE}
    gateway.line = MemoryLine(BoardOnLine("another"), "/dev/ttyOTHER")
    gateway.start()
    gateway.run(0.1)
    conditions, now_us = gateway.device.store.conditions, gateway.device.now.wall_us
    assert list(unnamed_boards(conditions, [gateway.line.port], now_us)) == []
    assert [each[:2] for each in unnamed_boards(conditions, ["/dev/ttyTEST"], now_us)] == [("/dev/ttyTEST", _TROUBLE)]


def test_strangers_statements_are_not_kept(gateway: Gateway) -> None:
    line = Line(MemoryLine(BoardOnLine("stranger"), UDP_PREFIX + "192.168.1.9:7425"))
    line.trouble, line.is_strange = "buy this", True
    UnnamedBoards(gateway.device.store).look(line, gateway.device.now)
    assert _said(gateway) == {gateway.line.port: _TROUBLE}
