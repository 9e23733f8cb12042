"""A socket for paho that moves many packets with one call of the kernel.

paho reads a packet's first bytes one by one and writes each packet separately: nine calls for each answered message,
and each lets another thread take the interpreter.

1. Input is read in large pieces, and handed out on request, or by whole packets.
2. Output is accepted at once and waits for `flush`, or until it fills a piece. Beyond that it accepts nothing until the
   socket does.
3. `close` writes waiting output, for a moment: the DISCONNECT packet is the last of it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_PIECE_BYTES = 65_536
_LENGTH_BITS = 28
"""Of a packet's length, in at most four bytes."""


class BufferedSocket:
    """A connected socket with buffers in front; what it has of a socket is what paho and selectors ask for."""

    def __init__(self, connected: socket.socket, close_s_max: float) -> None:
        self._socket = connected
        self._decrypted: Callable[[], int] | None = getattr(connected, "pending", None)  # a socket of TLS has it
        self._later: tuple[type[OSError], ...] = (BlockingIOError,)
        if self._decrypted is not None:
            import ssl  # 1.3 MiB with OpenSSL's half of it: only where it is used

            self._later += (ssl.SSLWantReadError, ssl.SSLWantWriteError)
        self._close_s_max = close_s_max
        self._came = b""
        self._given = 0
        self._unsent = bytearray()
        self.received_bytes = self.sent_bytes = self.calls = 0
        """What has gone through the socket, in so many calls."""
        self.before_close: Callable[[], None] | None = None
        """Is called once, while the socket is open."""

    @property
    def connected(self) -> socket.socket:
        """The socket itself."""
        return self._socket

    @property
    def unsent_bytes(self) -> int:
        """How much is still to go."""
        return len(self._unsent)

    @property
    def holds(self) -> bool:
        """Whether something has come that no selector sees: here, or decrypted by TLS."""
        return self._given < len(self._came) or (self._decrypted is not None and self._decrypted() > 0)

    @property
    def waits(self) -> bool:
        """Whether something is still to go."""
        return bool(self._unsent)

    def recv(self, most: int) -> bytes:
        """Return what has come, of so many bytes at most; nothing where the other side has ended it."""
        if self._given == len(self._came):
            self._came, self._given = self._socket.recv(max(most, _PIECE_BYTES)), 0
            self.received_bytes += len(self._came)
            self.calls += 1
        piece = self._came[self._given : self._given + most]
        self._given += len(piece)
        return piece

    def take_packet(self) -> tuple[int, bytes] | None:
        """Return the first byte and the content of an MQTT packet that is here whole; None where none is (§2.1.4)."""
        came, at = self._came, self._given + 1
        size = shift = 0
        while at < len(came) and shift < _LENGTH_BITS:
            size |= (came[at] & 127) << shift
            at, shift, more = at + 1, shift + 7, came[at] & 128
            if not more:
                break
        else:
            return None
        if at + size > len(came):
            return None
        first, self._given = came[self._given], at + size
        return first, came[at : self._given]

    def send(self, packet: bytes | bytearray) -> int:
        """Take a packet, whole (rule 2).

        Raises:
            BlockingIOError: the socket has to take some of what waits first.
            OSError: the connection is lost.
        """
        if len(self._unsent) >= _PIECE_BYTES:
            self.flush()
            if len(self._unsent) >= _PIECE_BYTES:
                raise BlockingIOError
        self._unsent += packet
        return len(packet)

    def flush(self) -> None:
        """Write what waits, as far as the socket takes it.

        Raises:
            OSError: the connection is lost.
        """
        with suppress(*self._later):
            while self._unsent:
                sent = self._socket.send(self._unsent)
                self.sent_bytes += sent
                self.calls += 1
                del self._unsent[:sent]

    def close(self) -> None:
        """Write what waits and close."""
        last_look, self.before_close = self.before_close, None
        if last_look is not None:
            last_look()
        with suppress(OSError):
            if self._unsent:
                self._socket.settimeout(self._close_s_max)
                self._socket.sendall(self._unsent)
        self._unsent.clear()
        self._socket.close()

    def fileno(self) -> int:
        """Return the socket's number; -1 once it is closed."""
        return self._socket.fileno()

    def setblocking(self, blocking: bool) -> None:
        """Have calls wait, or not."""
        self._socket.setblocking(blocking)
