"""A board on a real pseudo-terminal: what the kernel does to bytes, and to a port that goes away."""

from __future__ import annotations

import os
import select
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.board import BoardOnLine

_TURN_S = 0.005


class PtyBoard:
    """A board that is plugged in at `port`, a name that can come to mean another device, like `/dev/ttyACM0`.

    `damage` is what the line makes of the board's bytes.
    """

    def __init__(self, board: BoardOnLine, port: Path, damage: Callable[[bytes], bytes] = bytes) -> None:
        self.board = board
        self.port = port
        self._damage = damage
        self._lock = threading.Lock()
        self._master: int | None = None
        self._stopping = threading.Event()
        self.plug()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def plug(self, port: Path | None = None) -> None:
        """Make the port; it has another device number each time."""
        self.port = port or self.port
        master, slave = os.openpty()
        tty.setraw(slave)
        self.port.unlink(missing_ok=True)
        self.port.symlink_to(os.ttyname(slave))
        with self._lock:
            self._master = master
        os.close(slave)

    def unplug(self) -> None:
        """Take the port away; whoever has it open gets an error."""
        with self._lock:
            assert self._master is not None
            os.close(self._master)
            self._master = None
        self.port.unlink()

    def stop(self) -> None:
        """End the board."""
        self._stopping.set()
        self._thread.join()
        if self._master is not None:
            self.unplug()

    def do(self, what: Callable[[BoardOnLine], object]) -> None:
        """Do something with the board between two of its turns."""
        with self._lock:
            what(self.board)

    def _run(self) -> None:
        while not self._stopping.wait(_TURN_S):
            with self._lock:
                received = self._read()
                raw = self.board.turn(received, time.monotonic_ns() // 1_000_000)
                if raw and self._master is not None:
                    os.write(self._master, self._damage(raw))

    def _read(self) -> bytes:
        if self._master is None or not select.select([self._master], [], [], 0)[0]:
            return b""
        try:
            return os.read(self._master, 4_096)
        except OSError:  # nobody has the other end open
            return b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
