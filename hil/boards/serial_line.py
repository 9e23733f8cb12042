"""A serial line between a gateway and an emulated board: two PTYs, and a thread that carries bytes as a bad line does.

The gateway opens `port`, a link to its PTY; the board has the other PTY as its standard input and output, or is a real
one. Bytes take the time that the baud rate gives them. A seeded damage loses, cuts, flips, repeats and invents bytes in
bursts.
"""

from __future__ import annotations

import os
import select
import termios
import threading
import time
import tty
from contextlib import suppress
from typing import TYPE_CHECKING

from hil.on_board.link_simulation import Random, damage

if TYPE_CHECKING:
    from pathlib import Path

BURST_BYTES = 256
TAPE_BYTES = 1 << 20
_TURN_SECONDS = 0.002
_BITS_PER_BYTE = 10  # a start and a stop bit


class Pty:
    """A pseudo terminal in raw mode. Its own end stays open, so that the other may come and go."""

    def __init__(self) -> None:
        self.ours, self.theirs = os.openpty()
        tty.setraw(self.theirs)
        os.set_blocking(self.ours, False)
        self.name = os.ttyname(self.theirs)

    def close(self) -> None:
        """Hang up."""
        os.close(self.theirs)
        os.close(self.ours)


class RealPort:
    """A serial port with a board behind it, as one end of the line."""

    def __init__(self, device: str) -> None:
        self.ours = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        tty.setraw(self.ours)
        settings = termios.tcgetattr(self.ours)
        settings[4] = settings[5] = termios.B115200
        termios.tcsetattr(self.ours, termios.TCSANOW, settings)

    def close(self) -> None:
        """Let the port go."""
        os.close(self.ours)


class _Direction:
    """Bytes on their way to one end."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.waiting = bytearray()
        self.transferred = 0
        self.tape = bytearray()
        self.allowance = 0.0


class SerialLine:
    """The line.

    Args:
        port: where the gateway finds it, a symbolic link.
        baud: bits per second; None for a line that takes no time.
        permille: of bursts that arrive damaged.
        seed: of the damage.
    """

    def __init__(self, port: Path, *, baud: int | None = None, permille: int = 0, seed: int = 1) -> None:
        self.port, self.baud, self.permille = port, baud, permille
        self.pty = Pty()
        self._board: Pty | RealPort = self.pty
        self._gateway = Pty()
        self._up, self._down = _Direction(seed), _Direction(seed + 1)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._point()
        self._thread = threading.Thread(target=self._run, name="serial-line", daemon=True)
        self._thread.start()

    @property
    def transferred(self) -> tuple[int, int]:
        """Return how many bytes came from the board, and how many from the gateway, before any damage."""
        return self._up.transferred, self._down.transferred

    @property
    def tape(self) -> bytes:
        """Return every byte that came from the board, before any damage: up to a megabyte."""
        return bytes(self._up.tape)

    def inject(self, raw: bytes, *, towards_board: bool) -> None:
        """Put bytes on the line that neither end has written."""
        with self._lock:
            (self._down if towards_board else self._up).waiting += raw

    def replug(self) -> str:
        """Unplug the board, plug it in again under another name, and return that."""
        with self._lock:
            gone, self._gateway = self._gateway, Pty()  # the new one first, or it would get the old one's name
            self._up.waiting.clear()
            self._down.waiting.clear()
            gone.close()
        self._point()
        return self._gateway.name

    def attach(self, end: RealPort | None) -> None:
        """Put a real board, or nobody, where `pty` was."""
        with self._lock:
            if self._board is not self.pty:
                self._board.close()
            self._board = end or self.pty

    def close(self) -> None:
        """End the thread and hang up."""
        self._stopping.set()
        self._thread.join()
        self.attach(None)
        self.pty.close()
        self._gateway.close()
        self.port.unlink(missing_ok=True)

    def _point(self) -> None:
        new = self.port.with_name(self.port.name + ".new")
        new.symlink_to(self._gateway.name)
        new.replace(self.port)

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stopping.is_set():
            with self._lock:
                gateway, board = self._gateway.ours, self._board.ours
                now = time.monotonic()
                busy = self._carry(self._up, board, gateway, now - last)
                busy |= self._carry(self._down, gateway, board, now - last)
                last = now
            if not busy:
                with suppress(OSError, ValueError):  # it was unplugged meanwhile
                    select.select([board, gateway], [], [], 0.05)
            else:
                self._stopping.wait(_TURN_SECONDS)

    def _carry(self, direction: _Direction, source: int, target: int, seconds: float) -> bool:
        """Move what the time allows; return whether there is more to come soon."""
        with suppress(OSError):
            direction.waiting += os.read(source, 4096)
        if not direction.waiting:
            direction.allowance = 0.0
            return False
        size = len(direction.waiting)
        if self.baud is not None:
            direction.allowance += min(seconds, 0.05) * self.baud / _BITS_PER_BYTE
            size = min(size, int(direction.allowance))
            direction.allowance -= size
        while size:
            burst = bytes(direction.waiting[: min(size, BURST_BYTES)])
            del direction.waiting[: len(burst)]
            size -= len(burst)
            direction.transferred += len(burst)
            if len(direction.tape) < TAPE_BYTES:
                direction.tape += burst
            with suppress(OSError):  # nobody reads: such bytes are lost on a real line, too
                os.write(target, damage(direction.rng, burst, self.permille))
        return True
