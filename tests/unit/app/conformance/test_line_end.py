"""What the test's end of a line says of what a device sends over it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from covey.adapters.serial_line import SerialLine
from covey.app.conformance.line_end import WINDOW, LineEnd
from covey_boards.shared import link_machine
from covey_boards.shared.messages import DELIVER, REPORT, to_line
from tests.waiting import GUARD_S

_MESSAGE_BYTES = 1_024


class _Site:
    """A board, and a gateway that may ignore what the board says of itself."""

    def __init__(self, line: SerialLine) -> None:
        self.board = LineEnd(line, secrets.token_bytes, _MESSAGE_BYTES)
        self._port = os.open(line.name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        self.gateway = link_machine.Link(bytes([1]) * 8, mtu=512, window=8)
        self.ignores = False
        self.received: list[bytes] = []
        self.until(lambda: self.board.ups == 1 and self.gateway.state == link_machine.UP)

    def until(self, condition: Callable[[], object]) -> None:
        """Turn both until something holds."""
        deadline = time.monotonic() + GUARD_S
        while not condition():
            assert time.monotonic() < deadline
            self.board.turn()
            now = time.monotonic_ns() // 1_000_000
            try:
                self.gateway.receive_bytes(os.read(self._port, 4_096), now)
            except BlockingIOError:
                time.sleep(0.001)
            if self.ignores:
                self.gateway._peer_window, self.gateway._peer_message_bytes_max = 8, 4_096
            if (deadline_ms := self.gateway.next_deadline()) is not None and now >= deadline_ms:
                self.gateway.handle_deadline(now)
            while (event := self.gateway.next_event()) is not None:
                if isinstance(event, link_machine.Message):
                    self.received.append(bytes(event.data))
                    self.gateway.acknowledge(event.token)
            while raw := self.gateway.bytes_to_send(now):
                os.write(self._port, raw)

    def close(self) -> None:
        """Close the port."""
        os.close(self._port)


@pytest.fixture
def site() -> Iterator[_Site]:
    """A line that is up."""
    with closing(SerialLine()) as line, closing(_Site(line)) as made:
        yield made


def test_messages_come_and_are_acknowledged(site: _Site) -> None:
    number = site.board.say(REPORT, [])
    site.gateway.send(to_line(DELIVER, bytes(600)))
    site.until(lambda: site.board.was_taken(number) and site.board.after(0.0, DELIVER))
    assert site.received == [to_line(REPORT, [])]
    assert site.board.after(0.0, DELIVER) == [[bytes(600)]]
    assert (site.board.wrong, site.board.is_exceeded) == ("", False)


def test_a_gateway_that_ignores_the_window_is_named(site: _Site) -> None:
    site.ignores = True
    site.gateway.send(to_line(DELIVER, bytes(900)))
    site.until(lambda: site.board.wrong)
    assert site.board.wrong.endswith(f"fragments ahead of a window of {WINDOW}")
    assert not site.board.is_exceeded


def test_a_message_that_is_too_long_is_named(site: _Site) -> None:
    site.gateway._peer_message_bytes_max = 4_096
    site.gateway.send(to_line(DELIVER, bytes(_MESSAGE_BYTES)))
    site.until(lambda: site.board.wrong)
    assert site.board.is_exceeded
    assert site.board.wrong == f"it sent a message of more than {_MESSAGE_BYTES} bytes, the most that it may"


def test_a_board_that_restarts_begins_a_session(site: _Site) -> None:
    site.board.restart()
    site.until(lambda: site.board.ups == 2)
    number = site.board.say(REPORT, [])
    site.until(lambda: site.board.was_taken(number))
    assert site.board.wrong == ""


def test_a_deaf_board_sees_frames_that_come_again(site: _Site) -> None:
    site.board.deaf = True
    site.gateway.send(to_line(DELIVER, b"once"))
    site.until(lambda: len(site.board.frames) > len(set(site.board.frames)))
    assert site.board.after(0.0, DELIVER) == []
    site.board.deaf = False
    site.until(lambda: site.board.after(0.0, DELIVER))
