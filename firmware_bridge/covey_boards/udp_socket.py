"""The socket that boards on UDP speak to, in a thread of its own; who may speak, `udp_lines.py` decides."""

from __future__ import annotations

import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from covey.errors import LocalError
from covey.ports import SerialLink
from covey_boards.shared.datagrams import DATAGRAM_BYTES_MAX
from covey_boards.udp_lines import UdpLine, UdpLines

_READ_S = 0.5
_DATAGRAMS = 64
"""Read in a turn: what is to be sent waits no longer."""


class UdpSocket:
    """Implements `ports.ComingLines`: a socket, and the lines on it.

    Raises:
        LocalError: there is no such address here, or something else has it.
    """

    def __init__(self, host: str, port: int) -> None:
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.lines = UdpLines(secrets.token_bytes, self._wake)
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise LocalError(
                f"the agent cannot listen for boards on {host}:{port}: {error}",
                hint="covey config set bridge.udp_listen HOST:PORT",
            ) from error
        self._socket.setblocking(False)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="boards over UDP", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port, *_ = self._socket.getsockname()
        return host, port

    def new_lines(self) -> list[UdpLine]:
        return self.lines.new_lines()

    def trust(self, line: SerialLink, others: Sequence[SerialLink]) -> None:
        self.lines.trust(line, others)

    def has_ended(self, line: SerialLink) -> bool:
        return self.lines.has_ended(line)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the socket."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()
        os.close(self._woken)
        os.close(self._waker)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # it has been woken often enough
            os.write(self._waker, b"!")

    def _run(self) -> None:
        while not self._stopping.is_set():
            deadline = self.lines.next_deadline()
            wait_s = _READ_S if deadline is None else min(_READ_S, max(0.0, (deadline - _now_ms()) / 1000))
            ready, _, _ = select.select([self._socket.fileno(), self._woken], [], [], wait_s)
            if self._woken in ready:
                os.read(self._woken, 4_096)
            if self._socket.fileno() in ready:
                self._read()
            for raw, address in self.lines.datagrams_to_send(_now_ms()):
                with suppress(OSError):  # no way there, or no room: lost, as on any line
                    self._socket.sendto(raw, address)

    def _read(self) -> None:
        for _ in range(_DATAGRAMS):
            try:
                raw, address = self._socket.recvfrom(DATAGRAM_BYTES_MAX + 1)
            except BlockingIOError:
                return
            except OSError:  # an earlier datagram found nobody
                continue
            self.lines.receive(raw, (address[0], address[1]), _now_ms())


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
