"""Requests to an agent and the meaning of its answers; no socket. `Client` and `AsyncClient` share this module.

1. A call defines what is sent, and reads the answer: whole, or line by line if it is a stream.
2. Fields of a later agent are ignored; a missing field is `AgentVersionError`.
3. A refusal becomes the error that it was at the agent, with its hint; `LocalError` if this Covey does not know it.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from io import BytesIO
from typing import Any, BinaryIO, Generic, TypeVar
from urllib.parse import urlencode

from covey.errors import AgentUnreachableError, AgentVersionError, CoveyError, LocalError

SYSTEM_SOCKET = "/run/covey/api.sock"
"""Where the packaged units let the machine's agent answer."""

PATIENCE_S = 60.0
"""Longer than the agent's signs of life are apart, and than a commit on a worn card takes."""

NDJSON = "application/x-ndjson"

HAND_OVER_S_MAX = 30
"""How long one request waits for mailboxes: half of the patience."""

_FOLLOW_S = 3_600
"""Of one stream of events; the next one goes on where it ended."""

_PAUSE_S, _PAUSE_S_MAX = 0.25, 10.0
"""Between two tries to reach an agent that went away, at first and at last."""

_REQUEST_BYTES = 1_000_000
"""Of records in one request, about half of what an agent takes."""

_OCTETS, _JSON = "application/octet-stream", "application/json"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob that has arrived; `author` is a signing key and `group_id` an id, in hex; times are Unix microseconds."""

    id: int
    author: str
    name: str
    group_id: str
    sent_at_us: int
    received_at_us: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ProgramSetting:
    """A setting that an operator gave this device: the value that is to hold, None for the program's own again.

    A number with a fraction is its decimal text. `state` is "handed_over" until the program has said what it made of it
    (`report_setting`). `by` names the device that asks for it, `operation` the entry in the group's history, in hex.
    The value of one that is `secret` is for this program only: neither other members nor a person's commands show it.
    """

    key: str
    value: str | bool | int | None = field(repr=False)
    state: str
    by: str
    operation: str
    group_id: str
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """What has happened; `id` is for `events(after=…)`. Types and data: `/v1/events` in `GET /openapi.json`.

    One of no type only says how far the stream has come.
    """

    id: str
    type: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One request; `read` makes the answer of its bytes, or of each line of a stream."""

    method: str
    path: str
    read: Callable[[bytes], Answer]
    query: Mapping[str, object] = field(default_factory=dict)
    body: bytes | BinaryIO | None = None
    content_type: str = ""
    key: str | None = None
    last_event: str | None = None
    length: int | None = None

    @property
    def target(self) -> str:
        """The path, with what is asked of it."""
        words = {name: value for name, value in self.query.items() if value is not None}
        return f"{self.path}?{urlencode(words)}" if words else self.path

    def head(self, length: int) -> bytes:
        """Return the head of the request (RFC 9112) with a body of so many bytes.

        Raises:
            ValueError: a field is not one line of Latin characters.
        """
        lines = f"{self.method} {self.target} HTTP/1.1\r\nHost: covey\r\nContent-Length: {length}\r\n"
        if self.content_type:
            lines += f"Content-Type: {self.content_type}\r\n"
        if self.key:
            lines += f"Idempotency-Key: {_line(self.key)}\r\n"
        if self.last_event:
            lines += f"Last-Event-ID: {_line(self.last_event)}\r\n"
        return (lines + "\r\n").encode("latin-1")


def _line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("a key must be one line")
    return value


_STATUS = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: |\r|$)")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?:\r|$)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*(?:\r|$)", re.IGNORECASE)


def read_head(head: bytes) -> tuple[int, int | None, bool]:
    """Return status and length of an answer, None where it ends with the connection, and whether that ends then.

    Raises:
        ValueError: it is no head of an answer.
    """
    status, length = _STATUS.match(head), _LENGTH.search(head)
    if status is None:
        raise ValueError("no HTTP")
    closes = length is None or status[1] == b"0" or _CLOSES.search(head) is not None
    return int(status[2]), None if length is None else int(length[1]), closes


def document(content: bytes) -> dict[str, Any]:
    """Read an answer that is one JSON object."""
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise AgentVersionError.lacking("a JSON object")
    return found


def status() -> Call[dict[str, Any]]:
    """Ask how the agent is."""
    return Call("GET", "/v1/status", document)


def outbox(limit: int) -> Call[dict[str, Any]]:
    """Ask what waits."""
    return Call("GET", "/v1/outbox", document, {"limit": limit})


def metrics(form: str) -> Call[str]:
    """Ask for the numbers."""
    return Call("GET", "/v1/metrics", bytes.decode, {"format": form})


def publish(
    readings: bytes | Iterable[Mapping[str, Any]], batch: int | None, key: str | None, content_type: str
) -> Iterator[Call[int]]:
    """Give readings, in as many requests as they need; with a key it is one."""
    if isinstance(readings, bytes) and (key is not None or content_type != NDJSON):
        bodies: Iterable[bytes] = (readings,)
    else:
        lines = BytesIO(readings) if isinstance(readings, bytes) else (json.dumps(each).encode() for each in readings)
        bodies = _bodies(lines) if key is None else (b"\n".join(lines),)
    for body in bodies:
        yield Call("POST", "/v1/publish", _number("queued_readings"), {"batch": batch}, body, content_type, key)


def send(content: bytes, group: str | None, to: str | None, expires_s: int | None, key: str | None) -> Call[int]:
    """Give a blob to be sent."""
    query = {"group": group, "to": to, "expires": expires_s}
    return Call("POST", "/v1/send", _number("recipients"), query, content, _OCTETS, key)


def hand_over(to: str | None, wait_s: int) -> Call[dict[str, Any]]:
    """Have what waits kept by mailboxes."""
    return Call("POST", "/v1/hand-over", _with("handed_over", "open"), {"to": to, "wait": wait_s})


def send_ephemeral(content: bytes, group: str | None) -> Call[int]:
    """Give what nobody keeps."""
    return Call("POST", "/v1/ephemeral", _number("recipients"), {"group": group}, content, _OCTETS)


def inbox(follow_s: int, after: int, *, in_order: bool) -> Call[Blob | None]:
    """Ask for the blobs that have arrived: a stream, of one a line."""
    query = {"follow": follow_s, "in_order": 1} if in_order else {"follow": follow_s, "after": after}
    return Call("GET", "/v1/inbox", _blob, query)


def delete(identifier: int) -> Call[None]:
    """Have a blob leave the inbox."""
    return Call("DELETE", f"/v1/inbox/{identifier}", lambda _content: None)


def history_page(group: str | None, wanted: Mapping[str, str | int | None]) -> Call[dict[str, Any]]:
    """Ask for one window of a history."""
    query = {"group": group} | {name: each or None for name, each in wanted.items()}
    return Call("GET", "/v1/history", _with("entries", "next", "event"), query)


def events(types: Iterable[str], group: str | None, last: str | None, follow_s: int) -> Call[Event | None]:
    """Ask for what happens after an event: a stream, whose lines make an event now and then."""
    query = {"types": ",".join(types) or None, "group": group, "follow": follow_s}
    return Call("GET", "/v1/events", EventLines().read, query, last_event=last)


def settings(prefix: str) -> Call[list[ProgramSetting]]:
    """Ask for the settings that hold now."""

    def read(content: bytes) -> list[ProgramSetting]:
        return [_setting(document(line)) for line in content.splitlines()]

    return Call("GET", "/v1/settings", read, {"prefix": prefix})


def changed_setting(event: Event, prefix: str) -> ProgramSetting | str | None:
    """Return the setting that an event speaks of, or its key where no event has its value; None: of no concern."""
    found = event.data.get("setting")
    if found is None or not found["key"].startswith(prefix):
        return None
    return str(found["key"]) if found.get("secret") else _setting(found)


def report_setting(setting: ProgramSetting, value: str | bool | float | None, refused: str) -> Call[bool]:
    """Say what a program made of a setting."""
    state = "refused" if refused else "applied"
    content = {"key": setting.key, "operation": setting.operation, "state": state, "value": value, "why": refused}

    def read(answer: bytes) -> bool:
        return bool(document(answer).get("reported"))

    return Call("POST", "/v1/settings/report", read, {}, json.dumps(content).encode(), _JSON)


def own() -> Call[dict[str, Any]]:
    """Ask for the person's devices, groups and preferences."""
    return Call("GET", "/v1/own", _with("devices", "groups", "preferences"))


def set_preference(key: str, value: str | None, group: str | None) -> Call[dict[str, Any]]:
    """Say how the person wants something."""
    content = json.dumps({"key": key, "value": value, "group": group}).encode()
    return Call("POST", "/v1/own/preferences", document, {}, content, _JSON)


class EventLines:
    """A stream of events, line by line (WHATWG HTML, section 9.2), as far as an agent writes it."""

    def __init__(self) -> None:
        self._identifier = self._type = ""
        self._data = b""

    def read(self, line: bytes) -> Event | None:
        """Return the event that a line ends."""
        name, _, value = line.rstrip(b"\n").partition(b": ")
        match name:
            case b"id":
                self._identifier = value.decode()
            case b"event":
                self._type = value.decode()
            case b"data":
                self._data = value
            case b"" if not line.strip() and self._identifier:
                found = Event(self._identifier, self._type, document(self._data) if self._data else {})
                self._type, self._data = "", b""
                return found
        return None


class FollowedEvents:
    """Streams of events one after the other, each where the one before ended; times are of a monotonic clock."""

    def __init__(self, last: str, follow_s: float | None, now_s: float) -> None:
        self.last = last
        self._until_s = math.inf if follow_s is None else now_s + follow_s
        self._met = False
        self._pause_s = 0.0

    def next_s(self, now_s: float) -> int:
        """Return how long the next stream is to last."""
        return math.ceil(min(_FOLLOW_S, max(0.0, self._until_s - now_s)))

    def came(self, event: Event) -> bool:
        """Note an event; return whether it says more than how far the stream has come."""
        self.last, self._pause_s, self._met = event.id, 0.0, True
        return bool(event.type)

    def failed(self, error: AgentUnreachableError) -> None:
        """Note that nobody answers.

        Raises:
            AgentUnreachableError: nobody ever did.
        """
        if not self._met:
            raise error

    def pause_s(self, now_s: float) -> float | None:
        """Return how long to wait before the next stream; None: there is none."""
        if now_s >= self._until_s:
            return None
        pause_s = min(self._pause_s, max(0.0, self._until_s - now_s))
        self._pause_s = min(_PAUSE_S_MAX, 2 * self._pause_s + _PAUSE_S)
        return pause_s


def unreachable(path: str, error: OSError) -> AgentUnreachableError:
    """Return why nobody answers at a socket."""
    if isinstance(error, PermissionError):
        return AgentUnreachableError(
            f"this user may not open {path}",
            hint="add the user to the socket's group: sudo adduser $USER covey, then log in again",
        )
    return AgentUnreachableError(
        f"no agent answers at {path}: {error.strerror or error}",
        hint="check that it runs (systemctl status covey) and that api.socket is this path",
    )


def gone(path: str) -> AgentUnreachableError:
    """Return that an agent went away."""
    return AgentUnreachableError(f"the agent at {path} closed the connection before it answered", hint="try again")


def refused(content: bytes) -> CoveyError:
    """Return the agent's error as the class that it was there."""
    try:
        found = json.loads(content)
        kind, message, hint = _classes().get(found["error"], LocalError), str(found["message"]), str(found["hint"])
    except (ValueError, KeyError, TypeError):
        return AgentUnreachableError(
            "the program that answers there is not a Covey agent", hint="'covey config list' shows api.socket"
        )
    return kind(message, hint=hint)


def _with(*names: str) -> Callable[[bytes], dict[str, Any]]:
    def read(content: bytes) -> dict[str, Any]:
        found = document(content)
        if lacking := {*names} - found.keys():
            raise AgentVersionError.lacking(min(lacking))
        return found

    return read


def _number(name: str) -> Callable[[bytes], int]:
    def read(content: bytes) -> int:
        found = document(content).get(name)
        if not isinstance(found, int):
            raise AgentVersionError.lacking(name)
        return found

    return read


def _bodies(lines: Iterable[bytes]) -> Iterator[bytes]:
    body = bytearray()
    for line in lines:
        if body and len(body) + len(line) > _REQUEST_BYTES:
            yield bytes(body)
            body.clear()
        body += line.removesuffix(b"\n") + b"\n"
    yield bytes(body)


def _blob(line: bytes) -> Blob | None:
    """Read a line of the inbox; an empty one is a sign of life. Fields of later versions are ignored."""
    if not line.strip():
        return None
    found = document(line)
    try:
        known = {each.name: found[each.name] for each in fields(Blob)}
        return Blob(**{**known, "body": base64.b64decode(known["body"])})
    except KeyError as error:
        raise AgentVersionError.lacking(str(error.args[0])) from error
    except (ValueError, TypeError) as error:
        raise AgentVersionError.lacking("a body") from error


def _setting(found: Mapping[str, Any]) -> ProgramSetting:
    """Read a setting; fields of later versions are ignored."""
    try:
        needed = {each.name: found[each.name] for each in fields(ProgramSetting) if each.name != "secret"}
        return ProgramSetting(**needed, secret=found.get("secret") is True)
    except KeyError as error:
        raise AgentVersionError.lacking(str(error.args[0])) from error


def _classes() -> dict[str, type[CoveyError]]:
    found: dict[str, type[CoveyError]] = {}
    waiting: list[type[CoveyError]] = [CoveyError]
    while waiting:
        kind = waiting.pop()
        found[kind.code] = kind
        waiting += kind.__subclasses__()
    return found
