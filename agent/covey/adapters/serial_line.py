"""One end of a line of bytes: a serial port, or a new pseudo terminal whose other end somebody else opens.

It serves `covey conformance`, which plays a board at it. Nothing here waits.
"""

from __future__ import annotations

import os
import termios
import tty
from contextlib import suppress

from covey.errors import ConfigurationError

_READ_BYTES = 65_536


class SerialLine:
    """The bytes of one line; `name` is the port to open at the other end, empty where a cable leads there."""

    def __init__(self, port: str = "") -> None:
        """Open a serial port at 115,200 baud, or make a pseudo terminal if none is named.

        Raises:
            ConfigurationError: the port cannot be opened.
        """
        self._unsent = bytearray()
        self._kept_open: list[int] = []
        if not port:
            self._end, other = os.openpty()
            tty.setraw(other)
            os.set_blocking(self._end, False)
            self._kept_open.append(other)  # else this end fails while nobody has the other one open
            self.name = os.ttyname(other)
            return
        self.name = ""
        try:
            self._end = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            tty.setraw(self._end)
            mode = termios.tcgetattr(self._end)
            mode[4] = mode[5] = termios.B115200
            termios.tcsetattr(self._end, termios.TCSANOW, mode)
        except (OSError, termios.error) as error:
            raise ConfigurationError(
                f"cannot open {port}: {error}", hint="--line takes the serial port that leads to the gateway"
            ) from error

    def read(self) -> bytes:
        """Return what has arrived."""
        with suppress(OSError):  # nothing has, or a port is away
            return os.read(self._end, _READ_BYTES)
        return b""

    def write(self, raw: bytes) -> None:
        """Send bytes; what the line does not take now goes with the next call."""
        self._unsent += raw
        with suppress(OSError):
            del self._unsent[: os.write(self._end, self._unsent)]

    def close(self) -> None:
        """End it."""
        for each in (self._end, *self._kept_open):
            os.close(each)
