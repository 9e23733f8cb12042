"""Read requests within a time limit and a limited part of the memory that all clients share."""

from __future__ import annotations

import io
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import socket

    from covey.adapters.http.places import Bounds

_CHUNK_BYTES = 64 * 1024


class NoRoomError(Exception):
    """The clients hold as much as they may together; `missing` bytes of this body have not been read."""

    def __init__(self, missing: int) -> None:
        super().__init__()
        self.missing = missing


class SharedBytes:
    """What bodies hold beyond each one's own bytes. Safe for threads."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._free = bounds.shared_bytes
        self._lock = threading.Lock()

    def read(self, source: io.BufferedIOBase, size: int) -> Body:
        """Read a body of `size` bytes, held until its `release`. Room is taken as bytes come, not as announced.

        Raises:
            ConnectionError: the client ended before its body did.
            TimeoutError: the request took too long.
            NoRoomError: the others leave no room for it.
        """
        body = Body(self)
        try:
            while missing := size - len(body.content):
                self._read_more(source, body, missing)
        except BaseException:
            body.release()
            raise
        return body

    def _read_more(self, source: io.BufferedIOBase, body: Body, missing: int) -> None:
        chunk = source.read1(min(missing, _CHUNK_BYTES))
        if not chunk:
            raise ConnectionError
        if not self._take(body, len(body.content) + len(chunk) - self._bounds.own_bytes):
            raise NoRoomError(missing - len(chunk))
        body.content += chunk

    def _take(self, body: Body, beyond: int) -> bool:
        with self._lock:
            more = max(0, beyond) - body.shared
            if more > self._free:
                return False
            self._free -= more
            body.shared += more
            return True

    def give_back(self, count: int) -> None:
        """Note that a body is gone."""
        with self._lock:
            self._free += count


class Body:
    """A body and what it takes of the shared bytes."""

    def __init__(self, room: SharedBytes) -> None:
        self._room = room
        self.content = bytearray()
        self.shared = 0

    def release(self) -> None:
        """Give back what it took."""
        self._room.give_back(self.shared)
        self.shared = 0
        self.content = bytearray()


class TimedReader(io.RawIOBase):
    """A socket's bytes: a request that has begun must be whole in time, however slowly it comes."""

    def __init__(self, connection: socket.socket, bounds: Bounds) -> None:
        self._connection = connection
        self._bounds = bounds
        self._deadline: float | None = None
        self._timeout: float | None = None

    def spool(self, target: BinaryIO, source: io.BufferedIOBase, size: int) -> None:
        """Copy a body of `size` bytes to a file; its time runs from now.

        Raises:
            ConnectionError: the client ended before its body did.
            TimeoutError: the request took too long.
        """
        self._deadline = time.monotonic() + self._bounds.spooled_s
        while size:
            chunk = source.read1(min(size, _CHUNK_BYTES))
            if not chunk:
                raise ConnectionError
            target.write(chunk)
            size -= len(chunk)
        target.seek(0)

    def readable(self) -> bool:
        """Say that it is."""
        return True

    def await_request(self) -> None:
        """Begin to wait for a request: its time runs from its first byte."""
        self._deadline = None

    def readinto(self, buffer: Any, /) -> int:
        """Read what is there.

        Raises:
            TimeoutError: nothing came for too long, or the request is not whole in time.
        """
        now = time.monotonic()
        if self._deadline is None:
            self._limit(self._bounds.silence_s)
        elif now >= self._deadline:
            raise TimeoutError
        else:
            self._limit(self._deadline - now)
        count = self._connection.recv_into(buffer)
        if self._deadline is None:
            self._deadline = time.monotonic() + self._bounds.request_s
        self._limit(self._bounds.silence_s)  # for writes
        return count

    def _limit(self, seconds: float) -> None:
        if seconds != self._timeout:  # each change is a call of the kernel
            self._connection.settimeout(seconds)
            self._timeout = seconds
