"""HTTP with one client: requests are read, given to their routes, and answered."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit

from covey.adapters.http.exchange import Exchange
from covey.adapters.http.places import Phase
from covey.adapters.http.reading import NoRoomError
from covey.adapters.local_api.routes import EventStream, NoContent, Octets, Request, ServerSentEvent, Text
from covey.errors import (
    ConfigurationError,
    CoveyError,
    IdempotencyError,
    LocalError,
    OutboxFullError,
    RemoteError,
    StorageError,
    TransientError,
)

if TYPE_CHECKING:
    from covey.adapters.http.places import ConnectedClient, Places
    from covey.adapters.http.reading import SharedBytes
    from covey.adapters.local_api.routes import Answer, Route
    from covey.ports import Report

_DISCARDED_BYTES = 64 * 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_BUSY = "too many clients at once"
_LATER = {"Retry-After": "1"}


class Conversation(Exchange):
    """A connection of a program."""

    def __init__(
        self, client: ConnectedClient, places: Places, routes: tuple[Route, ...], report: Report, shared: SharedBytes
    ) -> None:
        self._routes = routes
        self._report = report
        self._shared = shared
        super().__init__(client, places)

    def refuse_head(self, status: HTTPStatus, why: str) -> None:
        """Refuse what is no request, as everything else is refused."""
        self._refuse(status, "http", why, "")

    def respond(self) -> None:
        """Answer by the route of the request; those that do not know its method refuse it."""
        with contextlib.ExitStack() as held:  # a body's memory is released before the answer is sent
            send = self._answered(held)
        send()

    def _answered(self, held: contextlib.ExitStack) -> Callable[[], None]:
        """Read a request and answer it; return the function that sends the answer."""
        try:
            parts = urlsplit(self.path)
            route, matched = self._route(parts.path)
            stream = _streamed(route.answer(self._request(route, matched, parts.query, held)))
            first = self._first(stream.parts) if isinstance(stream, _Stream | Octets) else None
        except _RefusedError as refusal:
            return partial(self._refuse, refusal.status, "http", str(refusal), "", refusal.headers)
        except CoveyError as error:
            return partial(self._refuse, _status(error), error.code, str(error), error.hint)
        except TimeoutError:
            return partial(self._refuse, HTTPStatus.REQUEST_TIMEOUT, "http", "the request came too slowly", "")
        except OSError:
            self.close_connection = True
            return lambda: None
        except Exception as error:  # noqa: BLE001 - no client input may stop the agent
            self._report("error", f"local API: {self.command} failed: {type(error).__name__}")
            message = "failed on something unforeseen"
            return partial(self._refuse, HTTPStatus.INTERNAL_SERVER_ERROR, "error", message, "")
        return partial(self._send_answer, stream, first)

    def _request(self, route: Route, matched: tuple[str, ...], query: str, held: contextlib.ExitStack) -> Request:
        size, content, file = self._length(route.body_bytes_max), b"", None
        if route.spool is None:
            try:
                body = self._shared.read(self.rfile, size)
            except NoRoomError as full:
                self._discard(full.missing)
                raise _RefusedError(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    "other requests are using all the memory for bodies; try again",
                    _LATER,
                ) from full
            held.callback(body.release)
            content = bytes(body.content)
        else:
            file = self._spooled(route.spool, size)
            held.callback(file.close)
        named = parse_qsl(query, keep_blank_values=True) if query else []
        words = dict(named)
        if len(words) < len(named):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "a parameter is given twice")
        if not self.recognise():
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, _LATER)
        self._enter(Phase.ANSWERED)
        key, last = (next(iter(self.headers.get_all(name)), None) for name in ("Idempotency-Key", "Last-Event-ID"))
        if file is None:
            content = _decoded(content, self.headers.get("Content-Encoding", "identity"), route.body_bytes_max)
        return Request(matched, words, self.headers.media_type, content, key, last, file)

    def _spooled(self, spool: Callable[[int], BinaryIO], size: int) -> BinaryIO:
        if self.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise _RefusedError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "this request body must not be encoded", {"Accept-Encoding": ""}
            )
        try:
            file = spool(size)
        except CoveyError:
            self._discard(size)
            raise
        try:
            self.reader.spool(file, self.rfile, size)
        except OSError as error:
            file.close()
            if error.errno == errno.ENOSPC:
                raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the disk is full") from error
            raise
        return file

    def _enter(self, phase: Phase) -> None:
        if not self.enter(phase):
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, _LATER)

    def _first(self, parts: Iterator[bytes]) -> bytes:
        self._enter(Phase.STREAMED)
        return next(parts, b"")

    def _route(self, path: str) -> tuple[Route, tuple[str, ...]]:
        for route in self._routes:
            if route.method == self.command and (match := route.pattern.fullmatch(path)):
                return route, match.groups()
        found = [route.method for route in self._routes if route.pattern.fullmatch(path)]
        if not found:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "no such path")
        methods = ", ".join(found)
        raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"this path accepts only {methods}", {"Allow": methods})

    def _length(self, most: int) -> int:
        """Return the body's one length, if any: RFC 9112, section 6.3."""
        lengths = self.headers.get_all("Content-Length") or ["0"]
        if "Transfer-Encoding" in self.headers:
            if "Content-Length" in self.headers:
                raise _RefusedError(HTTPStatus.BAD_REQUEST, "Content-Length and Transfer-Encoding must not both be set")
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
        if len(lengths) != 1 or not re.fullmatch(r"[0-9]{1,12}", lengths[0]):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "Content-Length must be one number")
        if int(lengths[0]) > most:
            self._discard(min(int(lengths[0]), _DISCARDED_BYTES))
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"this path accepts at most {most} bytes")
        return int(lengths[0])

    def _discard(self, size: int) -> None:
        """Read an unwanted body, because a client that still writes would not see the answer."""
        with contextlib.suppress(OSError):
            while size > 0 and (chunk := self.rfile.read(min(size, 65_536))):
                size -= len(chunk)

    def _refuse(
        self, status: HTTPStatus, code: str, message: str, hint: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.close_connection = True  # a body may not have been read
        content = _line({"error": code, "message": message, "hint": hint})
        self._send(status, "application/json", content, {"Connection": "close", **(headers or {})})

    def _send_answer(self, answer: dict[str, Any] | Text | Octets | NoContent | _Stream, first: bytes | None) -> None:
        if isinstance(answer, NoContent):
            self._send(HTTPStatus.NO_CONTENT, "", b"")
        elif isinstance(answer, Text):
            self._send(HTTPStatus.OK, answer.content_type, answer.text.encode())
        elif isinstance(answer, _Stream):
            self._stream(answer.content_type, answer.parts, first or b"")
        elif isinstance(answer, Octets):
            self._stream("application/octet-stream", answer.parts, first or b"", answer.size)
        else:
            self._send(HTTPStatus.OK, "application/json", _line(answer))

    def _send(
        self, status: HTTPStatus, content_type: str, content: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        about = {"Content-Type": content_type, "Content-Length": str(len(content))}
        if status is HTTPStatus.NO_CONTENT:  # which has neither (RFC 9110, section 8.6)
            about = {}
        with contextlib.suppress(OSError):
            self.begin(status, {**about, **(headers or {})}, b"" if self.command == "HEAD" else content)

    def _stream(self, content_type: str, parts: Iterator[bytes], first: bytes, size: int | None = None) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError, CoveyError):
            length = {} if size is None else {"Content-Length": str(size)}
            self.begin(HTTPStatus.OK, {"Content-Type": content_type, **length})
            self.write(first)
            for each in parts:
                self.write(each)


@dataclass(frozen=True, slots=True)
class _Stream:
    """A continuing answer, in the bytes of its parts."""

    content_type: str
    parts: Iterator[bytes]


def _decoded(content: bytes, encoding: str, most: int) -> bytes:
    """Undo a body's encoding, such as gzip; the same bound applies to its content."""
    match encoding.lower():
        case "identity":
            return content
        case "gzip":
            decompressor = zlib.decompressobj(_GZIP)
            try:
                plain = decompressor.decompress(content, most + 1)
            except zlib.error:
                plain = b""
            if len(plain) > most:
                raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"this path accepts at most {most} bytes")
            if not decompressor.eof or decompressor.unused_data:
                raise _RefusedError(HTTPStatus.BAD_REQUEST, "the body is not valid gzip")
            return plain
        case _:
            raise _RefusedError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "this path accepts only gzip encoding", {"Accept-Encoding": "gzip"}
            )


def _streamed(answer: Answer) -> dict[str, Any] | Text | Octets | NoContent | _Stream:
    if isinstance(answer, EventStream):
        return _Stream("text/event-stream", (_event(each) for each in answer.events))
    if isinstance(answer, Iterator):
        return _Stream("application/x-ndjson", (b"\n" if each is None else _line(each) for each in answer))
    return answer


def _event(event: ServerSentEvent | None) -> bytes:
    """Write an event as in WHATWG HTML, section 9.2: JSON has no line breaks of its own."""
    if event is None:
        return b":\n\n"
    identifier = b"" if event.id is None else f"id: {event.id}\n".encode()
    if event.data is None:
        return identifier + b"\n"
    return identifier + f"event: {event.type}\n".encode() + b"data: " + _line(event.data) + b"\n"


class _RefusedError(Exception):
    """The request does not reach a route."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


_in_json = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes another encoder each time


def _line(value: object) -> bytes:
    return _in_json(value).encode() + b"\n"


def _status(error: CoveyError) -> HTTPStatus:
    match error:
        case IdempotencyError():
            return HTTPStatus.CONFLICT
        case OutboxFullError():
            return HTTPStatus.INSUFFICIENT_STORAGE
        case StorageError() | TransientError():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case ConfigurationError():
            return HTTPStatus.INTERNAL_SERVER_ERROR
        case LocalError() | RemoteError():
            return HTTPStatus.BAD_REQUEST
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR


def _response(status: HTTPStatus, message: str, headers: Mapping[str, str]) -> bytes:
    content = _line({"error": "http", "message": message, "hint": ""})
    fields = {"Content-Type": "application/json", "Content-Length": len(content), "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


BUSY = _response(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, _LATER)
"""The answer to a client that finds no place."""
