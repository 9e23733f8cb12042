"""What a collector sends to a board on a line of its own: no relay is there, or matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.group.manifest import COLLECTOR
from covey.core.now import Now
from covey_boards.bridge import Bridge
from covey_boards.shared import line_orders, messages
from tests.board import BoardOnLine, MemoryLine, enrol
from tests.fleet import Device


class Hub:
    """A device that is gateway and collector at once, without a relay, and a board that it has heard."""

    def __init__(self, folder: Path) -> None:
        self.device = Device("hub", folder, collects=True)
        self.device.node.connection_lost()
        with self.device.store.transaction():
            group = self.device.node.membership.create("hub", (COLLECTOR,), self.device.now.wall_us)
        self.group_id = group.group_id
        self.board = BoardOnLine("board")
        self.line = MemoryLine(self.board)
        self.bridge = Bridge([self.line], self.device.store, lambda: True, lambda _level, _line: None)
        enrol(self.board, self.device, self.group_id)
        self.run()
        self.board.measure()
        self.run()

    def run(self, seconds: float = 1.0) -> None:
        """Let both ends of the line live for a while."""
        for _ in range(int(seconds * 100)):
            self.line.pass_bytes(10)
            now = self.device.now
            self.device.now = Now(now.monotonic_us + 10_000, now.wall_us + 10_000)
            self.bridge.turn(self.device.node, self.device.now)
            self.device.node.handle_deadline(self.device.now)

    def send(self, *contents: bytes) -> None:
        """Queue blobs for the board."""
        for content in contents:
            with self.device.store.transaction():
                self.device.node.send_blob(self.group_id, content, self.device.now, self.board.key)

    @property
    def queued(self) -> int:
        """How many messages wait for the board."""
        return self.device.store.outbox.totals()[0]


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path)


def test_a_blob_goes_down_the_line_and_waits_until_the_board_has_it(hub: Hub) -> None:
    hub.send(*(b"%d" % number for number in range(9)))
    hub.run()
    assert hub.board.blobs == [b"%d" % number for number in range(9)]
    assert hub.queued == 0


@pytest.mark.slow
def test_unanswered_messages_go_again_without_a_relay(hub: Hub) -> None:
    hub.board.deaf = True
    hub.send(b"again")
    hub.run(0.5)
    assert hub.queued == 1
    hub.board.deaf = False
    hub.run(12)
    assert (hub.board.blobs, hub.queued) == ([b"again"], 0)


def test_a_relays_reconnection_repeats_nothing_on_the_line(hub: Hub) -> None:
    hub.board.deaf = True
    hub.send(b"once")
    hub.run(0.1)
    received = hub.line.link.statistics.frames_sent
    hub.device.node.connected(hub.device.now)
    hub.run(0.2)
    hub.device.node.connection_lost()
    hub.run(0.2)
    assert hub.line.link.statistics.frames_sent == received


def test_a_sleeper_has_what_waits_when_it_wakes(hub: Hub) -> None:
    hub.board.say(line_orders.SLEEP, 60_000)
    hub.run(0.2)
    sent = hub.line.link.statistics.frames_sent
    hub.send(*(b"%d" % number for number in range(6)))
    hub.run(5)
    assert hub.line.link.statistics.frames_sent == sent, "no frame for who does not listen"
    hub.board.say(line_orders.SLEEP, 0)
    hub.run(0.5)
    assert hub.board.blobs == [b"%d" % number for number in range(6)]
    assert hub.queued == 0


@pytest.mark.slow
def test_messages_interrupted_by_a_broken_line_go_again(hub: Hub) -> None:
    hub.board.deaf = True
    hub.send(b"twice")
    hub.run(0.1)
    hub.line.broken = True
    hub.board.deaf = False
    for _ in range(60):
        hub.board.say(messages.REPORT, [])
        hub.run(1)
    assert not hub.device.store.boards.all()[0].up
    hub.line.broken = False
    hub.run(3)
    assert (hub.board.blobs, hub.queued) == ([b"twice"], 0)
