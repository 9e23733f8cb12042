"""Takes files from a peer of this network."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from http import HTTPStatus

from covey.adapters.lan.tags import AT_RELAY, CONTENT_PATH, SALT_BYTES, SALT_PATH, tag_of
from covey.errors import PeerError
from covey.limits.content import CHUNK_BYTES, LAN_READ_BYTES, LAN_ROUND_US, LAN_SILENCE_S

_POLL_S = 0.3
"""Between two looks at a peer that is fetching a file itself."""


class LanPeer:
    """Implements `ports.ContentPlace`: one peer, by its address.

    A peer that is fetching the file itself gives what has come. One that asks at a relay is waited for; of two that
    both look for a peer, the one with the greater salt waits for the other one. So all wait for one, which asks.
    """

    on_this_network = True

    def __init__(self, host: str, port: int, own_salt: bytes) -> None:
        self._host, self._port = host, port
        self._own_salt = own_salt
        self._connection: http.client.HTTPConnection | None = None
        self._salt = b""
        self._buffer = bytearray(LAN_READ_BYTES + CHUNK_BYTES)

    @property
    def name(self) -> str:
        """Its address."""
        return f"{self._host}:{self._port}"

    def read(self, content: bytes, position: int, end: int) -> Iterator[memoryview] | None:
        """Give bytes of what has a hash, by whole chunks from the position on; each holds until the next one is taken.

        None: the peer does not have it, or would have to wait for this device.

        Raises:
            PeerError: it is not reached, or gives something else than it was asked for.
        """
        try:
            answer = self._asked(content, position, end)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise PeerError(f"{self.name} cannot be reached") from error
        if answer.status == HTTPStatus.NOT_FOUND or (
            answer.status == HTTPStatus.ACCEPTED and not self._goes_before(answer)
        ):
            return None
        return self._pieces(content, answer, position, end)

    def _goes_before(self, answer: http.client.HTTPResponse) -> bool:
        return AT_RELAY in answer.headers or self._salt < self._own_salt

    def _asked(self, content: bytes, position: int, end: int) -> http.client.HTTPResponse:
        connection, least = self._connected(), min(CHUNK_BYTES, end - position)
        fields = {"Range": f"bytes={position}-{end - 1}"}
        connection.request("GET", f"{CONTENT_PATH}{tag_of(content, self._salt)}", headers=fields)
        answer = connection.getresponse()
        if answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.ACCEPTED} and not answer.length:
            answer.read()
        elif answer.status != HTTPStatus.PARTIAL_CONTENT or not least <= (answer.length or 0) <= end - position:
            self.close()
            raise PeerError(f"{self.name} sent a different part of the file than requested")
        return answer

    def _pieces(
        self, content: bytes, answer: http.client.HTTPResponse, position: int, end: int
    ) -> Iterator[memoryview]:
        since = time.monotonic()
        try:
            while True:
                for piece in self._body(answer):
                    position, since = position + len(piece), time.monotonic()
                    yield piece
                if position == end:
                    return
                if answer.status == HTTPStatus.ACCEPTED:
                    if not self._goes_before(answer) or time.monotonic() - since > LAN_ROUND_US / 1e6:
                        raise PeerError(f"{self.name} does not have more of the file yet")
                    time.sleep(_POLL_S)
                answer = self._asked(content, position, end)
                if answer.status == HTTPStatus.NOT_FOUND:
                    raise PeerError(f"{self.name} no longer has the file")
        except (OSError, http.client.HTTPException) as error:
            raise PeerError(f"{self.name} closed the connection") from error
        finally:
            if position != end:
                self.close()

    def _body(self, answer: http.client.HTTPResponse) -> Iterator[memoryview]:
        left, filled, since = answer.length or 0, 0, time.monotonic()
        buffer = memoryview(self._buffer)
        while left:
            come = answer.fp.readinto1(buffer[filled : filled + left])
            now, left, filled = time.monotonic(), left - come, filled + come
            if not come or (filled < CHUNK_BYTES and left and now - since > LAN_SILENCE_S):
                raise PeerError(f"{self.name} sent less than requested, or too slowly")
            if not left:
                answer.length = 0
                answer.read()  # so another request may follow, also where nobody takes the last piece
            whole = filled if not left else filled - filled % CHUNK_BYTES
            if whole:
                yield buffer[:whole]
                self._buffer[: filled - whole] = self._buffer[whole:filled]
                filled, since = filled - whole, now

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=LAN_SILENCE_S)
            self._connection.request("GET", SALT_PATH)
            answer = self._connection.getresponse()
            self._salt = answer.read(SALT_BYTES + 1)
            if answer.status != HTTPStatus.OK or len(self._salt) != SALT_BYTES:
                raise PeerError(f"{self.name} is not a Covey device")
        return self._connection

    def close(self) -> None:
        """End the connection; the next read begins another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
