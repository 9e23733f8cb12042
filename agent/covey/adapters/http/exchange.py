"""HTTP with one client: the base class of all conversations.

It parses request heads strictly (RFC 9112), and refuses input that two parsers could read differently. The standard
library reads heads with the parser of its e-mail package, which costs an agent 1.5 MiB (ADR 108).

1. The method, the target and the version are separated by one space each. Names of fields are tokens, followed by a
   colon at once (section 5.1); no field continues in the next line (section 5.2); no value has control characters.
2. A head is bounded: its lines, its fields, and all of it.
"""

from __future__ import annotations

import io
import re
import select
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from covey.adapters.http.places import Phase
from covey.adapters.http.reading import TimedReader
from covey.limits.units import KIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covey.adapters.http.places import ConnectedClient, Places


_HEAD_BYTES_MAX = 64 * KIB
_FIELDS_MAX = 100
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_REQUEST_LINE = re.compile(rb"(%b{1,32}) ([!-~\x80-\xff]+) HTTP/([0-9])\.([0-9])\r?\n" % _TOKEN)
_FIELD = re.compile(rb"(%b+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*\r?\n" % _TOKEN)
_EMPTY = (b"\r\n", b"\n")
_MEDIA_TYPE = re.compile(r"[!-~]+/[!-~]+")


class HeadError(Exception):
    """A head that is refused."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Fields:
    """The fields of a head; names are compared without regard to case."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name, []).append(value)

    def get_all(self, name: str) -> list[str]:
        """Return the values of all fields of a name."""
        return self._values.get(name.lower(), [])

    def get(self, name: str, default: str = "") -> str:
        """Return the value of the first field of a name."""
        return next(iter(self.get_all(name)), default)

    def __contains__(self, name: str) -> bool:
        """Say whether there is a field of a name."""
        return bool(self.get_all(name))

    @property
    def media_type(self) -> str:
        """The type of the body, without parameters; as RFC 2045 has it, plain text where none is named."""
        named = self.get("Content-Type").partition(";")[0].strip().lower()
        return named if _MEDIA_TYPE.fullmatch(named) else "text/plain"

    def has_token(self, name: str, token: str) -> bool:
        """Say whether a field that is a list of words has one."""
        values = self.get_all(name)
        return bool(values) and token in {word.strip().lower() for value in values for word in value.split(",")}


@dataclass(frozen=True, slots=True)
class Head:
    """What a request begins with."""

    method: str
    target: str
    fields: Fields
    keeps_open: bool
    """Whether another request may follow on the connection."""


def read_head(source: io.BufferedIOBase) -> Head | None:
    """Read a head; None where the client has ended the connection before it.

    Raises:
        HeadError: it is malformed, too large, or of another version.
    """
    line = source.readline(_HEAD_BYTES_MAX + 1)
    if line in _EMPTY:  # some clients send one after a body (section 2.2)
        line = source.readline(_HEAD_BYTES_MAX + 1)
    if not line:
        return None
    if len(line) > _HEAD_BYTES_MAX:
        raise HeadError(HTTPStatus.REQUEST_URI_TOO_LONG, f"a request head must not exceed {_HEAD_BYTES_MAX} bytes")
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise HeadError(HTTPStatus.BAD_REQUEST, "the request line is malformed")
    if found[3] != b"1":
        raise HeadError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "this server speaks HTTP/1.1 only")
    fields = Fields(_fields(source, _HEAD_BYTES_MAX - len(line)))
    closes = fields.has_token("Connection", "close")
    keeps_open = not closes and (found[4] != b"0" or fields.has_token("Connection", "keep-alive"))
    return Head(found[1].decode("ascii"), found[2].decode("latin-1"), fields, keeps_open)


def _fields(source: io.BufferedIOBase, left: int) -> list[tuple[str, str]]:
    fields: list[tuple[str, str]] = []
    while (line := source.readline(left + 1)) not in _EMPTY:
        left -= len(line)
        if left < 0 or len(fields) == _FIELDS_MAX:
            raise HeadError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a request head must not exceed {_FIELDS_MAX} fields"
            )
        found = _FIELD.fullmatch(line)
        if found is None:
            raise HeadError(HTTPStatus.BAD_REQUEST, "the header fields are malformed")
        fields.append((found[1].decode("ascii").lower(), found[2].decode("latin-1")))
    return fields


@lru_cache(maxsize=1)
def _date(seconds: int) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(seconds))


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

    def begin(self, status: HTTPStatus, fields: Mapping[str, str], content: bytes = b"") -> None:
        """Send the head of an answer, with the beginning of its body: the client then wakes up once."""
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Server: covey", f"Date: {_date(int(time.time()))}"]
        if self.close_connection and "Connection" not in fields:
            lines.append("Connection: close")
        lines += [f"{name}: {value}" for name, value in fields.items()]
        self.write("\r\n".join([*lines, "", ""]).encode("latin-1") + content)

    def write(self, content: bytes) -> None:
        """Send bytes of an answer; the client has so long to take them as `Bounds.silence_s` says."""
        self.connection.sendall(content)
