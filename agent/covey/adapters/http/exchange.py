"""HTTP with one client: the base class of all conversations."""

from __future__ import annotations

import io
import select
import time
from abc import ABC, abstractmethod
from http import HTTPStatus
from typing import TYPE_CHECKING

from covey.adapters.http.head import Fields, HeadError, read_head
from covey.adapters.http.places import Phase
from covey.adapters.http.reading import TimedReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covey.adapters.http.places import ConnectedClient, Places

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Exchange(ABC):
    """A connection; `respond` is called for each request, with its `command`, `path` and `headers`."""

    def __init__(self, client: ConnectedClient, places: Places) -> None:
        """Say nothing yet."""
        self._client = client
        self._places = places
        self.connection = client.connection
        self.reader = TimedReader(client.connection, places.bounds)
        self.rfile = io.BufferedReader(self.reader)
        self.command = self.path = ""
        self.headers = Fields([])
        self.close_connection = False

    @abstractmethod
    def respond(self) -> None:
        """Answer the request that has come."""

    @abstractmethod
    def refuse_head(self, status: HTTPStatus, why: str) -> None:
        """Answer what is no request."""

    def converse(self) -> None:
        """Answer one request after the other until the connection ends."""
        with self.rfile:
            while not self.close_connection:
                self._await_request()

    def _await_request(self) -> None:
        self.close_connection = True
        self.reader.await_request()
        if not self.enter(Phase.AWAITED):
            return
        try:
            head = read_head(self.rfile)
        except HeadError as refusal:
            self.refuse_head(refusal.status, str(refusal))
            return
        if head is None:
            return
        self.command, self.path, self.headers = head.method, head.target, head.fields
        self.close_connection = not head.keeps_open
        if head.fields.has_token("Expect", "100-continue"):
            self.write(_CONTINUE)
        self.respond()

    def recognise(self) -> bool:
        """Count this client among the known ones; False where there is no place, or the connection has been ended."""
        return self._places.recognise(self._client)

    def enter(self, phase: Phase) -> bool:
        """Note what this connection is at; False where it has been ended, or too many are streamed."""
        return self._places.enter(self._client, phase)

    def delay(self, seconds: float) -> None:
        """Hold a refusal back, or until another stranger needs the place. No lock is held meanwhile."""
        if self.enter(Phase.DELAYED):
            ended = select.poll()
            ended.register(self.connection, 0)  # only a hang-up: further requests may be waiting
            until = time.monotonic() + seconds
            while (left_s := until - time.monotonic()) > 0 and not ended.poll(left_s * 1_000):
                pass

    def begin(self, status: HTTPStatus, fields: Mapping[str, str]) -> None:
        """Send the head of an answer."""
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Server: covey", f"Date: {date}"]
        if self.close_connection and "Connection" not in fields:
            lines.append("Connection: close")
        lines += [f"{name}: {value}" for name, value in fields.items()]
        self.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def write(self, content: bytes) -> None:
        """Send bytes of an answer; the client has so long to take them as `Bounds.silence_s` says."""
        self.connection.sendall(content)
