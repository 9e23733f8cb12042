"""The link to a live board over a line that damages one burst in a hundred, and a board that restarts in mid-frame."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covey_boards.shared.link_machine import Delivered, Link, LinkDown, Message
from hil.boards.drivers import Driver, UnixPort
from hil.boards.firmware_files import board_modules
from hil.on_board.link_simulation import Random, damage
from tests.waiting import Patience

if TYPE_CHECKING:
    import subprocess

MESSAGES = 250
BOARD_SIDE = Path(__file__).parent / "on_board" / "echo_on_board.py"


class Gateway:
    """The host's end: sends messages one after another and collects what comes back."""

    def __init__(self, seed: int, permille: int) -> None:
        self.link = Link(os.urandom(8))
        self.rng, self.permille = Random(seed), permille
        self.start = time.monotonic()
        self.answers: list[bytes] = []
        self.delivered = self.downs = 0

    def serve(self, board: subprocess.Popen[bytes], until: int) -> None:
        """Talk to a board until so many answers are here. Each of them starts the patience anew.

        Raises:
            TimeoutError: they are not.
        """
        assert board.stdin is not None
        assert board.stdout is not None
        patience, received = Patience(), len(self.answers)
        while len(self.answers) < until:
            now = int(1000 * (time.monotonic() - self.start))
            if received < len(self.answers):
                patience, received = Patience(), len(self.answers)
            if not patience.left:
                raise TimeoutError(f"{received} of {until}, {board.poll()}: {vars(self.link.statistics)}")
            if select.select([board.stdout], [], [], 0.002)[0]:
                self.link.receive_bytes(damage(self.rng, os.read(board.stdout.fileno(), 4096), self.permille), now)
            self._turn(now)
            out = damage(self.rng, self.link.bytes_to_send(now), self.permille)
            if out:
                board.stdin.write(out)
                board.stdin.flush()

    def _turn(self, now: int) -> None:
        deadline = self.link.next_deadline()
        if deadline is not None and now >= deadline:
            self.link.handle_deadline(now)
        while (event := self.link.next_event()) is not None:
            if isinstance(event, Message):
                self.answers.append(event.data)
                self.link.acknowledge(event.token)
            self.delivered += isinstance(event, Delivered)
            self.downs += isinstance(event, LinkDown)


def _messages(count: int) -> list[bytes]:
    rng = Random(77)
    return [b"%d:" % number + rng.bytes(rng.below(150)) for number in range(count)]


def _files(board: Driver) -> tuple[UnixPort, str, dict[str, bytes]]:
    if not isinstance(board, UnixPort):
        pytest.skip(f"{board.name} has no standard input to serve as a line")
    modules = {path.name: path.read_bytes() for path in board_modules() if not path.stem.startswith("tweetnacl")}
    return (
        board,
        "import sys\nsys.path.append('.')\nimport echo_on_board\n",
        modules | {BOARD_SIDE.name: BOARD_SIDE.read_bytes()},
    )


def test_nothing_is_lost_or_doubled_on_a_damaged_line(board: Driver) -> None:
    port, program, files = _files(board)
    gateway = Gateway(seed=3, permille=10)
    with port.start(program, files) as running:
        for number, message in enumerate(_messages(MESSAGES)):
            gateway.link.send(message)
            if number % 4 == 3:  # a few at a time, as batches come
                gateway.serve(running, until=number + 1)
        gateway.serve(running, until=MESSAGES)
    assert gateway.answers == [message[::-1] for message in _messages(MESSAGES)]
    assert gateway.link.statistics.repetitions + gateway.link.statistics.duplicates > 0


def test_a_board_that_restarts_in_mid_frame_is_found_again(board: Driver) -> None:
    port, program, files = _files(board)
    gateway = Gateway(seed=5, permille=0)
    with port.start(program, files) as running:
        gateway.link.send(b"before")
        gateway.serve(running, until=1)
        gateway.link.send(b"during" * 40)
        assert running.stdin is not None
        running.stdin.write(gateway.link.bytes_to_send(10_000)[:20])
    with port.start(program, files) as running:
        gateway.serve(running, until=2)
    assert gateway.answers == [b"before"[::-1], (b"during" * 40)[::-1]]
    assert gateway.link.statistics.sessions == 2
