"""The connected clients, and the choice of the one to close when all places are taken."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from covey.limits.units import KIB, MIB


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one listener; the times are seconds."""

    strangers: int = 32
    """Connections at a time that have proved nothing yet."""
    known: int = 32
    """Connections at a time of clients that have shown a session, a tag, or a request on a socket that is not open to
    all."""
    streams: int = 16
    """Connections with a continuing answer, which no new connection ends."""
    request_s: float = 30.0
    """From a request's first byte to its last, and for a TLS handshake."""
    spooled_s: float = 600.0
    """The same of a request whose body goes to a file: a worn card takes a megabyte in some seconds."""
    silence_s: float = 30.0
    """Before a request, and for a client to take what is written."""
    own_bytes: int = 128 * KIB
    """Of a body, which each client may hold whatever the others do."""
    shared_bytes: int = 8 * MIB
    """Of all bodies together, beyond each one's own."""


class Phase(Enum):
    """What a connection is at."""

    AWAITED = "its request is not there yet"
    DELAYED = "its refusal is held back"
    ANSWERED = "its request is being answered"
    STREAMED = "its answer goes on"


class ConnectedClient:
    """One connection; `connection` is another socket once TLS is spoken."""

    def __init__(self, connection: socket.socket, host: str) -> None:
        self.connection = connection
        self.host = host
        self.phase = Phase.AWAITED
        self.is_known = False

    def end(self) -> None:
        """Have its thread read the end of the connection, and close it."""
        with contextlib.suppress(OSError):
            # Not `SSLSocket.shutdown`: it would remove TLS from the thread that uses the socket.
            socket.socket.shutdown(self.connection, socket.SHUT_RDWR)


class Places:
    """The open connections, in the order in which each one's request began to be awaited. Safe for threads."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._lock = threading.Lock()
        self._clients: dict[ConnectedClient, None] = {}

    def admit(self, connection: socket.socket, host: str) -> ConnectedClient | None:
        """Take a stranger's connection; None where every other stranger is being answered."""
        client = ConnectedClient(connection, host)
        with self._lock:
            if not self._make_room(known=False, most=self.bounds.strangers):
                return None
            self._clients[client] = None
        return client

    def recognise(self, client: ConnectedClient) -> bool:
        """Give a client that has proved itself a place among the known ones; False where it has been ended, or none is
        free."""
        with self._lock:
            if client.is_known:
                return client in self._clients
            if client not in self._clients or not self._make_room(known=True, most=self.bounds.known):
                return False
            client.is_known = True
            return True

    def enter(self, client: ConnectedClient, phase: Phase) -> bool:
        """Note what a connection is at now; False where it has been ended, or too many are streamed already."""
        with self._lock:
            if client not in self._clients:
                return False
            if phase is Phase.STREAMED:
                streamed = sum(each.phase is Phase.STREAMED for each in self._clients)
                if streamed >= self.bounds.streams:
                    return False
            client.phase = phase
            del self._clients[client]  # the last in order again
            self._clients[client] = None
            return True

    def release(self, client: ConnectedClient) -> None:
        """Note that a connection is over."""
        with self._lock:
            self._clients.pop(client, None)

    def _make_room(self, *, known: bool, most: int) -> bool:
        others = [each for each in self._clients if each.is_known is known]
        if len(others) < most:
            return True
        held = Counter(each.host for each in others)
        waiting = [each for each in others if each.phase in {Phase.AWAITED, Phase.DELAYED}]
        # Close password guessers before clients without a request; `max` picks the one that has waited longest.
        ended = max(waiting, key=lambda each: (held[each.host], each.phase is Phase.DELAYED), default=None)
        if ended is None:
            return False
        del self._clients[ended]
        ended.end()
        return True
