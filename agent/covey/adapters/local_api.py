"""HTTP on a Unix socket, so that `curl --unix-socket` and every language can speak with the agent. No decisions here.

1. Who may connect is decided by the socket's mode (0660), its group and its folder; there is no other credential.
   The group has it before anybody can open it, and a socket on which somebody answers is never taken over.
2. What a client sends is bounded in bytes, and so are clients, and the time that a silent one is waited for.
3. An error of ours is answered as JSON with its code; anything unforeseen as 500, and the agent goes on.
4. A streamed answer is one JSON document a line; `None` in it is a sign of life, sent as an empty line.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from covey.errors import ConfigurationError, CoveyError, LocalError, OutboxFullError, RemoteError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from covey.ports import Report

_SILENCE_S = 30.0
_CLIENTS = 32
_DISCARDED_BYTES = 64 * 1024 * 1024
_VISIT_S = 1.0
_PATH_BYTES = 107
"""What `sockaddr_un` holds."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks."""

    matched: tuple[str, ...]
    query: dict[str, str]
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is not JSON."""

    content_type: str
    text: str


Answer = dict[str, Any] | Text | Iterator[dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path; groups of the pattern come as `Request.matched`."""

    method: str
    pattern: str
    body_bytes_max: int
    answer: Callable[[Request], Answer]


class LocalApi:
    """A server thread, and a thread for each client."""

    def __init__(self, path: Path, group: str, routes: tuple[Route, ...], report: Report) -> None:
        """Listen, for members of the group; of this process's own where it is empty.

        Raises:
            ConfigurationError: the socket cannot be there, or cannot be the group's.
        """
        self._path = path
        if len(os.fsencode(path)) > _PATH_BYTES:
            raise ConfigurationError(
                f"{path} is too long for a socket's name ({_PATH_BYTES} bytes)", hint="covey config set api.socket PATH"
            )
        group_id = group_named(group) if group else -1
        _clear_away(path)
        before = os.umask(0o177)
        try:
            self._server = _Server(str(path), routes, report)
        except OSError as error:
            raise ConfigurationError(
                f"the local API cannot listen on {path}: {error.strerror}",
                hint="its folder must exist and belong to the agent's user; or: covey config set api.socket PATH",
            ) from error
        finally:
            os.umask(before)
        self._open_to(group, group_id)
        self._thread = threading.Thread(target=self._server.serve_forever, name="local api", daemon=True)
        self._thread.start()

    def _open_to(self, group: str, group_id: int) -> None:
        """Let the group in."""
        try:
            if group:  # the units' filter refuses the call, also where it would change nothing
                os.chown(self._path, -1, group_id)
            self._path.chmod(0o660)
        except OSError as error:
            self._server.server_close()
            self._path.unlink(missing_ok=True)
            raise ConfigurationError(
                f"the local API cannot be the group {group}'s: {error.strerror}",
                hint="the agent's user must be in that group; under systemd: SupplementaryGroups=, "
                "PrivateUsers=no, SystemCallFilter=@chown",
            ) from error

    def close(self) -> None:
        """Stop listening; answers under way are cut when the process ends."""
        self._server.shutdown()
        self._server.server_close()
        with contextlib.suppress(OSError):
            self._path.unlink()


def group_named(name: str) -> int:
    """Return the id of the group that `api.group` names.

    Raises:
        ConfigurationError: there is none.
    """
    import grp

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigurationError(
            f"api.group: there is no group {name} here", hint=f"sudo groupadd {name}, or: covey config unset api.group"
        ) from None


def _clear_away(path: Path) -> None:
    """Remove a socket that an agent left behind when it was killed.

    Raises:
        ConfigurationError: somebody answers on it.
    """
    with contextlib.suppress(OSError):
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
                visitor.settimeout(_VISIT_S)
                if visitor.connect_ex(str(path)) != errno.ECONNREFUSED:
                    raise ConfigurationError(
                        f"another program answers on {path}",
                        hint="each agent needs a socket of its own: covey config set api.socket PATH",
                    )
            path.unlink()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _CLIENTS

    def __init__(self, path: str, routes: tuple[Route, ...], report: Report) -> None:
        self.routes = routes
        self.report = report
        self._room = threading.BoundedSemaphore(_CLIENTS)
        super().__init__(path, _Conversation)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


class _Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "covey"
    sys_version = ""
    timeout = _SILENCE_S
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Let every method that a client names reach the routes, which refuse it."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what the base class could not read, as everything else is refused."""
        status = HTTPStatus(code)
        self._refuse(status, "http", message or explain or status.phrase, "")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing: who may speak here may also read the journal."""

    def _answer(self) -> None:
        try:
            parts = urlsplit(self.path)
            route, matched = self._route(parts.path)
            body = self._body(route.body_bytes_max)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            answer = route.answer(Request(matched, query, self.headers.get_content_type(), body))
            first = next(answer, None) if isinstance(answer, Iterator) else None
        except _RefusedError as refusal:
            self._refuse(refusal.status, "http", str(refusal), "", refusal.headers)
        except CoveyError as error:
            self._refuse(_status(error), error.code, str(error), error.hint)
        except OSError:
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - whatever a client provokes, the agent goes on
            self.server.report("error", f"local API: {self.command} failed: {type(error).__name__}")
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "error", "failed on something unforeseen", "")
        else:
            self._send_answer(answer, first)

    def _route(self, path: str) -> tuple[Route, tuple[str, ...]]:
        found = [(route, match) for route in self.server.routes if (match := re.fullmatch(route.pattern, path))]
        if not found:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "there is nothing here")
        for route, match in found:
            if route.method == self.command:
                return route, match.groups()
        methods = ", ".join(route.method for route, _ in found)
        raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"only {methods} here", {"Allow": methods})

    def _body(self, most: int) -> bytes:
        if "Transfer-Encoding" in self.headers:
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
        text = self.headers.get("Content-Length", "0")
        if not re.fullmatch(r"[0-9]{1,12}", text):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "Content-Length is no number")
        if int(text) > most:
            self._discard(min(int(text), _DISCARDED_BYTES))
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {most} bytes here")
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            raise ConnectionError
        return body

    def _discard(self, size: int) -> None:
        """Read what is not wanted: a client that still writes would not see the answer."""
        while size > 0 and (chunk := self.rfile.read(min(size, 65_536))):
            size -= len(chunk)

    def _refuse(
        self, status: HTTPStatus, code: str, message: str, hint: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.close_connection = True  # a body may not have been read
        content = _line({"error": code, "message": message, "hint": hint})
        self._send(status, "application/json", content, {"Connection": "close", **(headers or {})})

    def _send_answer(self, answer: Answer, first: dict[str, Any] | None) -> None:
        if isinstance(answer, Text):
            self._send(HTTPStatus.OK, answer.content_type, answer.text.encode())
        elif isinstance(answer, Iterator):
            self._stream(first, answer)
        else:
            self._send(HTTPStatus.OK, "application/json", _line(answer))

    def _send(
        self, status: HTTPStatus, content_type: str, content: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    def _stream(self, first: dict[str, Any] | None, rest: Iterator[dict[str, Any] | None]) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError, CoveyError):
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/x-ndjson")
            self.send_header("Connection", "close")
            self.end_headers()
            if first is not None:
                self.wfile.write(_line(first))
            for each in rest:
                self.wfile.write(_line(each) if each is not None else b"\n")


class _RefusedError(Exception):
    """The request does not reach a route."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _status(error: CoveyError) -> HTTPStatus:
    match error:
        case OutboxFullError():
            return HTTPStatus.INSUFFICIENT_STORAGE
        case StorageError():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case ConfigurationError():
            return HTTPStatus.INTERNAL_SERVER_ERROR
        case LocalError() | RemoteError():
            return HTTPStatus.BAD_REQUEST
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR
