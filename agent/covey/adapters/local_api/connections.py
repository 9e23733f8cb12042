"""Which clients are connected, and which of them makes room where all places are taken."""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.adapters.local_api.bounds import Bounds


class Phase(Enum):
    """What a connection is at."""

    AWAITED = "its request is not there yet"
    ANSWERED = "its request is being answered"
    STREAMED = "its answer goes on"


class Connections:
    """The open connections, in the order in which each one's request began to be awaited. Safe for threads."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self._phases: dict[socket.socket, Phase] = {}

    def admit(self, connection: socket.socket) -> bool:
        """Take a connection, and end the one whose request has been awaited longest where there are too many.

        Return False where every other one is being answered.
        """
        with self._lock:
            if len(self._phases) >= self._bounds.clients:
                slowest = next((each for each, phase in self._phases.items() if phase is Phase.AWAITED), None)
                if slowest is None:
                    return False
                del self._phases[slowest]
                with contextlib.suppress(OSError):  # its thread reads the end, and closes it
                    slowest.shutdown(socket.SHUT_RDWR)
            self._phases[connection] = Phase.AWAITED
            return True

    def enter(self, connection: socket.socket, phase: Phase) -> bool:
        """Note what a connection is at now; False where it has been ended, or too many are streamed already."""
        with self._lock:
            if connection not in self._phases:
                return False
            if phase is Phase.STREAMED:
                streamed = sum(each is Phase.STREAMED for each in self._phases.values())
                if streamed >= self._bounds.streams:
                    return False
            del self._phases[connection]  # the last in order again
            self._phases[connection] = phase
            return True

    def release(self, connection: socket.socket) -> None:
        """Note that a connection is over."""
        with self._lock:
            self._phases.pop(connection, None)
