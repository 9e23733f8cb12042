"""Messages of 200 bytes on a serial line of 115,200 baud, beside the bare line; and a million frames of a bad one.

**Goodput**: the boards' link on real MicroPython, behind the gateway's own port, whose owner looks at it as the agent
does, every ten milliseconds, and acknowledges a message after a commit to SQLite. Beside it the bytes that the same
line brings where nobody frames, checks or answers them, and the link with a window of one: stop and wait.

**Faults**: both ends' links on a line that loses, cuts, flips, repeats and invents bytes in one burst of fifty. What
the owner of the receiving end is handed has to be every message, once, in order; anything else is an error.
"""

from __future__ import annotations

import os
import random
import select
import sqlite3
import sys
import time
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest.mock import patch

from covey.ports import SerialMessage
from covey_boards import serial_link
from covey_boards.shared.link_machine import Delivered, Link, Message
from hil.boards import runtimes
from hil.boards.emulated_board import EmulatedBoard
from hil.boards.firmware_files import SHARED
from hil.on_board.link_simulation import NEVER, damage

BAUD = 115_200
_BYTES = 200
_MESSAGES = 600
_ROUNDS = 3
_FRAMES = 1_000_000
_PERMILLE = 20
_SECONDS_MAX = 120.0
_LOOK_S = 0.01

_SENDER = f"""
import os, select, sys, time
from link_machine import Link


def main():
    link = Link(os.urandom(8), mtu=256)
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN)
    start, sent, out = time.ticks_ms(), 0, b""
    while True:
        raw = b""
        while poll.poll(0 if out or raw else 1) and len(raw) < 256:
            raw += sys.stdin.buffer.read(1)
        now = time.ticks_diff(time.ticks_ms(), start)
        link.receive_bytes(raw, now)
        if link.next_deadline() is not None and now >= link.next_deadline():
            link.handle_deadline(now)
        while link.next_event() is not None:
            pass
        while sent < COUNT and link.queued_bytes() < 2_000:
            link.send(os.urandom({_BYTES}))
            sent += 1
        out = link.bytes_to_send(now)
        sys.stdout.buffer.write(out)
"""
_BARE = f"""
import os, sys


def main():
    for _ in range(COUNT):
        sys.stdout.buffer.write(os.urandom({_BYTES}))
    sys.stdin.buffer.read(1)
"""


def main() -> int:
    """Print the rates, their ratios, and what the faults cost."""
    try:
        with TemporaryDirectory() as folder:
            rates = [
                [
                    _bare(Path(folder) / f"bare-{number}"),
                    _link(Path(folder) / f"window-{number}", serial_link._WINDOW),  # noqa: SLF001
                    _link(Path(folder) / f"one-{number}", 1),
                ]
                for number in range(_ROUNDS)
            ]
    except runtimes.MissingError as error:
        print(f"error: {error}\nhint: python -m hil.boards.runtimes unix32 shows what is missing", file=sys.stderr)
        return 2
    bare, window, one = (median(column) for column in zip(*rates, strict=True))
    ratio, ratio_of_one = (median(row[place] / row[0] for row in rates) for place in (1, 2))
    print(f"bytes/s at {BAUD} baud that nobody checks or answers                 {bare:>10,.0f}")
    print(f"messages of {_BYTES} bytes, each after a commit: bytes/s of them       {window:>10,.0f}")
    print(f"  ratio, median of {_ROUNDS} {ratio:>52.3f}")
    print(f"  the same with a window of one                                   {one:>10,.0f}")
    print(f"  ratio                                                         {ratio_of_one:>12.3f}")
    frames, messages, repeated, seconds = soak(_FRAMES)
    print(f"frames on a line with faults in {_PERMILLE / 10:.0f} % of bursts                    {frames:>12,}")
    print(f"  messages of them, each handed on once and in order            {messages:>12,}")
    print(f"  frames sent again, of 100                                     {100 * repeated / frames:>12.1f}")
    print(f"  frames/s of both ends, on this machine                        {frames / seconds:>12,.0f}")
    return 0


def _board(folder: Path, program: str) -> EmulatedBoard:
    modules = {path.name: path.read_bytes() for path in (SHARED / "link_machine.py", SHARED / "framing.py")}
    modules["ports.py"] = program.replace("COUNT", str(_MESSAGES)).encode()
    return EmulatedBoard(folder, modules=modules, heap_kib=256, baud=BAUD)


def _bare(folder: Path) -> float:
    board = _board(folder, _BARE)
    port = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
    board.start()
    try:
        came, start = 0, 0.0
        while came < _MESSAGES * _BYTES:
            if not select.select([port], [], [], _SECONDS_MAX)[0]:
                raise TimeoutError("the board says nothing")
            start = start or time.monotonic()
            came += len(os.read(port, 65_536))
        return came / (time.monotonic() - start)
    finally:
        os.close(port)
        board.close()


def _link(folder: Path, window: int) -> float:
    board = _board(folder, _SENDER)
    database = sqlite3.connect(folder / "outbox.sqlite")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE outbox (message BLOB)")
    with patch.object(serial_link, "_WINDOW", window):
        link = serial_link.SerialPortLink(str(board.port), BAUD)
        link.start()
        board.start()
        try:
            return _served(link, database)
        finally:
            link.stop()
            board.close()
            database.close()


def _served(link: serial_link.SerialPortLink, database: sqlite3.Connection) -> float:
    """Take all messages, a commit for each, and return their bytes a second."""
    came, start, deadline = 0, 0.0, time.monotonic() + _SECONDS_MAX
    while came < _MESSAGES:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{came} messages: {link.statistics()}")
        event = link.next_event()
        if isinstance(event, SerialMessage):
            start = start or time.monotonic()
            with database:
                database.execute("INSERT INTO outbox VALUES (?)", (event.content,))
            link.acknowledge(event)
            came += 1
        elif event is None:
            time.sleep(_LOOK_S)
    return (came - 1) * _BYTES / (time.monotonic() - start)


class _Random:
    """As `hil.on_board.link_simulation.Random`, whose sixteen bits would go round in a million frames."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def below(self, n: int) -> int:
        """Return 0 to n - 1."""
        return self._source.randrange(n) if n else 0

    def bytes(self, n: int) -> bytes:
        """Return n bytes."""
        return self._source.randbytes(n)


class _End:
    """One end with its owner, who numbers what it sends, and looks at the numbers of what it gets."""

    def __init__(self, rng: _Random, window: int) -> None:
        self.link = Link(rng.bytes(8), window=window)
        self.numbers = count()
        self.delivered = self.received = 0
        self.late: list[tuple[int, object]] = []

    def turn(self, rng: _Random, now: int) -> None:
        """Do what is due."""
        deadline = self.link.next_deadline()
        if deadline is not None and now >= deadline:
            self.link.handle_deadline(now)
        while (event := self.link.next_event()) is not None:
            if isinstance(event, Message):
                number = int.from_bytes(event.data[:4], "big")
                if number != self.received:
                    raise RuntimeError(f"message {number} came as the {self.received}th")
                self.received += 1
                self.late.append((now + rng.below(30), event.token))
            self.delivered += isinstance(event, Delivered)
        while self.late and now >= self.late[0][0]:
            self.link.acknowledge(self.late.pop(0)[1])
        while self.link.queued_bytes() < 2_000:
            self.link.send(next(self.numbers).to_bytes(4, "big") + rng.bytes(8) * rng.below(50))

    def next_time(self) -> int:
        """Return when this end has something to do."""
        deadline = self.link.next_deadline()
        return int(min(NEVER if deadline is None else deadline, self.late[0][0] if self.late else NEVER))


def soak(frames: int) -> tuple[int, int, int, float]:
    """Let both ends speak until so many frames were sent; return frames, messages, repetitions and seconds.

    Raises:
        RuntimeError: a message was lost, doubled, or came out of order.
    """
    rng = _Random(frames)
    ends = _End(rng, 1), _End(rng, 8)
    flying: list[tuple[int, int, bytes]] = []
    arrived = [0, 0]
    now, start = 0, time.monotonic()
    while sum(end.link.statistics.frames_sent for end in ends) < frames:
        while flying and flying[0][0] <= now:
            _, to, raw = flying.pop(0)
            ends[to].link.receive_bytes(raw, now)
        for number, end in enumerate(ends):
            end.turn(rng, now)
            while raw := end.link.bytes_to_send(now):
                to = 1 - number
                arrived[to] = max(arrived[to], now + 3 + rng.below(10))
                flying.append((arrived[to], to, damage(rng, raw, _PERMILLE)))
        flying.sort(key=lambda entry: entry[0])
        now = max(now + 1, min(ends[0].next_time(), ends[1].next_time(), flying[0][0] if flying else NEVER))
    for end, other in (ends, ends[::-1]):
        if not end.delivered <= other.received:
            raise RuntimeError(f"{end.delivered} messages were acknowledged, {other.received} had come")
    statistics = [end.link.statistics for end in ends]
    total = sum(each.frames_sent for each in statistics)
    repeated = sum(each.repetitions for each in statistics)
    return total, sum(end.received for end in ends), repeated, time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())
