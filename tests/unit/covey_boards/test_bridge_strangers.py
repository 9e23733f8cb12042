"""Lines that come and go: whoever speaks on them, the log, the store and the members' lines stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from covey.ports import AttachedBoard, SerialDown, SerialLink
from covey_boards.bridge import Bridge
from covey_boards.shared import line_orders, messages
from tests.board import BoardOnLine, MemoryLine, enrol
from tests.unit.covey_boards.test_bridge import Gateway


class Coming:
    """Lines that are put here."""

    def __init__(self) -> None:
        self.new: list[MemoryLine] = []
        self.all: list[MemoryLine] = []
        self.ended: set[str] = set()
        self.trusted: list[tuple[str, list[str]]] = []

    def start(self) -> None:
        """Nothing to open."""

    def stop(self) -> None:
        """Nothing to close."""

    def new_lines(self) -> Sequence[SerialLink]:
        """Return those that were put here."""
        new, self.new = self.new, []
        self.all += new
        return new

    def trust(self, line: SerialLink, others: Sequence[SerialLink]) -> None:
        """Remember it."""
        self.trusted.append((line.port, [each.port for each in others]))

    def has_ended(self, line: SerialLink) -> bool:
        """Say what the test says."""
        return line.port in self.ended


class NetworkGateway(Gateway):
    """A gateway with a serial line, and lines that come."""

    def start(self) -> None:
        self.coming = Coming()
        self.bridge = Bridge(
            [self.line], self.device.store, lambda: self.synchronised, self._report, coming=self.coming
        )

    def run(self, seconds: float = 1.0) -> None:
        for _ in range(int(seconds * 100)):
            for line in self.coming.new + self.coming.all:
                line.pass_bytes(10)
            super().run(0.01)

    def come(self, name: str, port: str) -> MemoryLine:
        line = MemoryLine(BoardOnLine(name), port)
        self.coming.new.append(line)
        return line


@pytest.fixture
def gateway(tmp_path: Path) -> NetworkGateway:
    made = NetworkGateway(tmp_path)
    made.run(0.5)
    return made


def _ports(gateway: Gateway) -> set[str]:
    return {board.port for board in gateway.device.store.boards.all()}


def test_a_board_on_the_network_is_enrolled_and_carried_for(gateway: NetworkGateway) -> None:
    line = gateway.come("shed", "udp:192.0.2.7:7425")
    gateway.run(1)
    assert line.port in _ports(gateway), "a person can see it"
    enrol(line.board, gateway.device, gateway.group_id)
    gateway.run(1)
    assert line.board.collector is not None
    assert gateway.coming.trusted == [(line.port, [])]
    before = gateway.device.store.outbox.totals()[0]
    line.board.measure()
    gateway.run(0.5)
    assert gateway.device.store.outbox.totals()[0] == before + 1


@pytest.mark.slow
def test_strangers_leave_no_line_in_the_log_and_no_row(gateway: NetworkGateway) -> None:
    gateway.reports.clear()
    lines = [gateway.come(f"stranger {number}", f"udp:198.51.100.1:{number}") for number in range(6)]
    gateway.run(0.5)
    assert len(_ports(gateway)) == 2, "one of them in a second, beside the serial line's"
    for line in lines:
        line.board.say(messages.TROUBLE, "buy this")
        line.events.append(SerialDown("gone"))
    gateway.run(10)
    assert len(_ports(gateway)) == 7
    assert gateway.reports == []
    gateway.coming.ended = {line.port for line in lines}
    gateway.run(0.5)
    assert _ports(gateway) == {gateway.line.port}


@pytest.mark.slow
def test_a_stranger_that_oversleeps_leaves_no_line_in_the_log(gateway: NetworkGateway) -> None:
    line = gateway.come("stranger", "udp:198.51.100.1:9")
    gateway.run(2)
    gateway.reports.clear()
    line.board.say(line_orders.SLEEP, 1)
    gateway.run(125)
    assert not any(board.up for board in gateway.device.store.boards.all() if board.port == line.port)
    assert gateway.reports == []


def test_notes_about_strangers_end_with_the_next_start(gateway: NetworkGateway) -> None:
    member = gateway.come("shed", "udp:192.0.2.7:7425")
    gateway.come("stranger", "udp:198.51.100.1:9")
    gateway.run(2.5)
    enrol(member.board, gateway.device, gateway.group_id)
    gateway.kill()
    gateway.run(0.5)
    assert _ports(gateway) == {gateway.line.port, member.port}
    assert not any(board.up for board in gateway.device.store.boards.all() if board.port == member.port)


def test_a_board_that_has_moved_is_no_board_that_is_silent(gateway: NetworkGateway) -> None:
    first = gateway.come("shed", "udp:192.0.2.7:7425")
    gateway.run(0.5)
    enrol(first.board, gateway.device, gateway.group_id)
    gateway.run(1)
    first.events.append(SerialDown("gone"))
    first.broken = True
    gateway.run(1)
    assert first.port in _ports(gateway)
    moved = gateway.come("shed", "udp:192.0.2.8:7425")
    gateway.run(1)
    assert _ports(gateway) == {gateway.line.port, moved.port}
    assert all(board.up for board in gateway.device.store.boards.all())
    gateway.kill()
    gateway.run(1)
    assert _ports(gateway) == {gateway.line.port, moved.port}


def test_a_board_that_another_process_sees_is_not_forgotten(gateway: NetworkGateway) -> None:
    """A command opens a port of its own while the agent serves the others."""
    twin = AttachedBoard("/dev/ttyAGENT", gateway.board.keys, "a board", True, True, 0, {})
    with gateway.device.store.transaction():
        gateway.device.store.boards.note(twin)
    gateway.board.boot()
    gateway.run(6)
    assert twin.port in _ports(gateway)


def test_a_board_with_another_address_is_no_copy_once_the_one_before_is_silent(gateway: NetworkGateway) -> None:
    first = gateway.come("shed", "udp:192.0.2.7:7425")
    gateway.run(0.5)
    enrol(first.board, gateway.device, gateway.group_id)
    gateway.run(1)
    first.broken = True
    gateway.device.wait(61)
    moved = gateway.come("shed", "udp:192.0.2.8:7425")
    gateway.run(1)
    assert not any("copy" in line for line in gateway.reports)
    assert gateway.coming.trusted[-1] == (moved.port, [first.port])
    first.broken = False
    first.board.say(messages.REPORT, [])
    gateway.run(2)
    assert any("copy" in line for line in gateway.reports), "both speak"
