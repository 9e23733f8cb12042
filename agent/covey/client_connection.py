"""HTTP to the agent over its Unix socket, for `client.py` and `client_content.py`."""

from __future__ import annotations

import http.client
import select
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from covey import client_calls as calls
from covey.client_calls import Call

_IDLE_S = 10.0
"""A connection without a request is kept for less than the agent keeps it."""


class AgentConnection(http.client.HTTPConnection):
    """A connection to the agent that listens at a path; used for one request after another."""

    def __init__(self, path: str) -> None:
        super().__init__("covey", timeout=calls.PATIENCE_S)
        self._path = path
        self.idle_since = 0.0

    def is_usable(self) -> bool:
        """Say whether the agent has not closed it, and will not do so now: a request must not be lost on the way."""
        closed = select.poll()
        closed.register(self.sock, select.POLLIN)
        return time.monotonic() - self.idle_since < _IDLE_S and not closed.poll(0)

    def connect(self) -> None:
        """Connect to the socket.

        Raises:
            AgentUnreachableError: no agent answers there, or this user may not ask it.
        """
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except OSError as error:
            raise calls.unreachable(self._path, error) from error

    def answer(self, call: Call[Any]) -> http.client.HTTPResponse:
        """Return the answer, unread, of a call that was not refused.

        Raises:
            AgentUnreachableError: the agent has gone meanwhile.
            CoveyError: the agent refuses.
        """
        try:
            self.request(call.method, call.target, call.body, call.headers)
            answer = self.getresponse()
            if answer.status == HTTPStatus.OK:
                return answer
            refusal = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise calls.gone(self._path) from error
        raise calls.refused(refusal)

    def read(self, read: Callable[[], bytes]) -> bytes:
        """Return what `read`, a method of an answer, returns.

        Raises:
            AgentUnreachableError: the agent has gone meanwhile.
        """
        try:
            return read()
        except (OSError, http.client.HTTPException) as error:
            raise calls.gone(self._path) from error
