"""HTTP to the agent over its Unix socket, for `client.py` and `client_content.py`.

1. A request leaves in one call of the kernel, and a small answer comes in one: a caller's own cost for a message is a
   third of what `http.client` needs, which also loads 3 MiB for a protocol of which the agent speaks a small part.
2. A connection that the agent has ended meanwhile takes nothing of a request, so another one can carry it.
"""

from __future__ import annotations

import select
import socket
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO

from covey import client_calls as calls

if TYPE_CHECKING:
    from covey.client_calls import Call

_IDLE_S = 10.0
"""A connection without a request is kept for less than the agent keeps it."""

_PIECE_BYTES = 64 * 1024


class AgentConnection:
    """A connection to the agent that listens at a path; used for one request after another.

    Raises (`connect` and `answer`):
        AgentUnreachableError: no agent answers there, or this user may not ask it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket: socket.socket | None = None
        self._comes = select.poll()
        self._idle_since = 0.0

    def connect(self) -> None:
        """Connect to the socket."""
        self.close()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(calls.PATIENCE_S)
            made.connect(self.path)
        except OSError as error:
            made.close()
            raise calls.unreachable(self.path, error) from error
        made.setblocking(False)
        self._socket, self._comes = made, select.poll()
        self._comes.register(made, select.POLLIN)

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def rest(self) -> None:
        """Note that the answer has been read, and that no request follows at once."""
        self._idle_since = time.monotonic()

    def is_usable(self) -> bool:
        """Say whether the agent will not close it now: a request must not be lost on the way."""
        return time.monotonic() - self._idle_since < _IDLE_S

    def answer(self, call: Call[Any]) -> AgentAnswer:
        """Return the answer, of which only the head is read, of a call that was not refused.

        Raises:
            CoveyError: the agent refuses.
        """
        body = call.body or b""
        head = call.head(len(body) if isinstance(body, bytes) else call.length or 0)
        answer = AgentAnswer(self)
        try:
            self._ask(head, body)
            answer.read_head()
        except (OSError, ValueError) as error:
            raise calls.gone(self.path) from error
        if answer.status == HTTPStatus.OK:
            return answer
        raise calls.refused(answer.read())

    def _ask(self, head: bytes, body: bytes | BinaryIO) -> None:
        if isinstance(body, bytes):
            self._write_first(head + body)
            return
        self._write_first(head)
        while piece := body.read(_PIECE_BYTES):
            self._write(piece)

    def _write_first(self, request: bytes) -> None:
        """Write the beginning of a request (rule 2)."""
        if self._socket is not None:
            try:
                self._write(request)
            except BrokenPipeError:
                pass
            else:
                return
        self.connect()
        self._write(request)

    def _write(self, content: bytes) -> None:
        assert self._socket is not None
        try:
            sent = self._socket.send(content)
        except BlockingIOError:
            sent = 0
        if sent < len(content):
            self._socket.settimeout(calls.PATIENCE_S)
            self._socket.sendall(memoryview(content)[sent:])
            self._socket.setblocking(False)

    def receive(self) -> bytes:
        """Wait for the next bytes of an answer, and return them; nothing where the agent has ended the connection.

        Raises:
            OSError: it came to nothing.
        """
        if self._socket is None or not self._comes.poll(1000 * calls.PATIENCE_S):
            raise TimeoutError
        return self._socket.recv(_PIECE_BYTES)


class AgentAnswer:
    """An answer as it comes.

    Raises (all that read):
        AgentUnreachableError: the agent has gone meanwhile.
    """

    def __init__(self, connection: AgentConnection) -> None:
        self._connection = connection
        self._came = b""
        self._at = 0
        self.status = 0
        self.length: int | None = None
        """The bytes of its content that are still to be read; None where it ends with the connection."""
        self.closes = True
        """Whether the connection carries no further request."""

    def read_head(self) -> None:
        """Read the head, and perhaps some of the content.

        Raises:
            OSError, ValueError: there is no answer.
        """
        came = self._connection.receive()
        while (end := came.find(b"\r\n\r\n")) < 0:
            piece = self._connection.receive()
            if not piece or len(came) > _PIECE_BYTES:
                raise ConnectionError
            came += piece
        self._came, self._at = came, end + 4
        self.status, self.length, self.closes = calls.read_head(came[:end])

    def read(self) -> bytes:
        """Return all the content."""
        if self.length is None:
            return b"".join(iter(self._piece, b""))
        pieces, missing = [], self.length
        while missing:
            pieces.append(piece := self._piece())
            missing -= len(piece)
            if not piece or missing < 0:
                raise calls.gone(self._connection.path)
        self.length = 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_piece(self) -> bytes:
        """Return the next of the content, as much as has come; nothing at its end, or where it is cut off."""
        if self.length == 0:
            return b""
        piece = self._piece()
        if self.length is not None:
            piece = piece[: self.length]
            self.length -= len(piece)
        return piece

    def readline(self) -> bytes:
        """Return the next line of the content; nothing at its end."""
        pieces = []
        while not (end := self._came.find(b"\n", self._at) + 1):
            pieces.append(self._came[self._at :])
            self._came, self._at = self._received(), 0
            if not self._came:
                return b"".join(pieces)
        pieces.append(self._came[self._at : end])
        self._at = end
        return b"".join(pieces)

    def _piece(self) -> bytes:
        if self._at < len(self._came):
            piece, self._came, self._at = self._came[self._at :], b"", 0
            return piece
        return self._received()

    def _received(self) -> bytes:
        try:
            return self._connection.receive()
        except OSError as error:
            raise calls.gone(self._connection.path) from error
