"""The local API from Python: publish, send, receive, ask. Nothing of the agent is loaded but its errors.

    from covey.client import Client

    covey = Client("/run/covey/api.sock")
    covey.publish([{"n": "urn:dev:shed:t", "u": "Cel", "v": 21.5}])
    for blob in covey.inbox(follow_s=3600):
        store(blob.body)
        covey.forget(blob.id)
    for event in covey.events(after=last_id, types=["operation"]):
        deal_with(event.data)

Every request has a connection of its own, so that an agent may restart between two. What the agent refuses is raised
as the error that it was there, with its hint. Paths and fields: `GET /openapi.json`. Files: `client_content.py`.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import partial
from http import HTTPStatus
from io import BytesIO
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlencode

from covey.errors import AgentUnreachableError, AgentVersionError, CoveyError, LocalError

if TYPE_CHECKING:
    from covey.client_content import ContentClient

SYSTEM_SOCKET = "/run/covey/api.sock"
"""Where the packaged units let the machine's agent answer."""

_PATIENCE_S = 60.0
"""Longer than the agent's signs of life are apart, and than a commit on a worn card takes."""

_FOLLOW_S = 3_600
"""Of one stream of events; the next one goes on where it ended."""

_PAUSE_S, _PAUSE_S_MAX = 0.25, 10.0
"""Between two tries to reach an agent that went away, at first and at last."""

_NDJSON = "application/x-ndjson"

_REQUEST_BYTES = 1_000_000
"""Of records in one request, about half of what an agent takes."""


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
    """What has happened; `id` is for `Client.events(after=…)`. Types and data: `/v1/events` in `GET /openapi.json`.

    One of no type only says how far the stream has come.
    """

    id: str
    type: str = ""
    data: dict[str, Any] = field(default_factory=dict)


class Client:
    """One agent, by its socket.

    Raises (all methods):
        AgentUnreachableError: no agent answers there, or this user may not ask it.
        AgentVersionError: the agent is of another version, and does not say what is asked.
        CoveyError: the agent's own refusal.
    """

    def __init__(self, path: str | PathLike[str] = SYSTEM_SOCKET) -> None:
        self._path = fspath(path)

    def answers(self) -> bool:
        """Say whether an agent listens there.

        Raises:
            AgentUnreachableError: one may, but this user may not ask it.
        """
        try:
            with closing(_Connection(self._path)) as connection:
                connection.connect()
        except AgentUnreachableError as error:
            if isinstance(error.__cause__, PermissionError):
                raise
            return False
        return True

    def status(self) -> dict[str, Any]:
        """Return what `covey status --json` prints."""
        return self._json("GET", "/v1/status")

    def outbox(self, limit: int) -> dict[str, Any]:
        """Return what `covey outbox ls --json` prints, with the oldest `limit` messages of each recipient."""
        return self._json("GET", "/v1/outbox", {"limit": limit})

    def metrics(self, form: str = "openmetrics") -> str:
        """Return the numbers as `openmetrics`, or in the older text format of `prometheus`."""
        return self._ask("GET", "/v1/metrics", {"format": form}).decode()

    def publish(
        self,
        readings: bytes | Iterable[Mapping[str, Any]],
        batch: int | None = None,
        *,
        key: str | None = None,
        content_type: str = _NDJSON,
    ) -> int:
        """Queue SenML records durably, `batch` to a message; bytes are NDJSON. Return how many readings those were.

        What is longer than a megabyte goes in several requests. Of each, all is queued or nothing. With a `key`, drawn
        by the caller, it is one request of at most 2 MiB: tried again with the same key, it queues nothing more.
        """
        if isinstance(readings, bytes) and (key is not None or content_type != _NDJSON):
            return self._publish(readings, batch, content_type, key)
        lines = BytesIO(readings) if isinstance(readings, bytes) else (json.dumps(each).encode() for each in readings)
        if key is not None:
            return self._publish(b"\n".join(lines), batch, content_type, key)
        return sum(self._publish(body, batch, content_type, None) for body in _bodies(lines))

    def _publish(self, body: bytes, batch: int | None, content_type: str, key: str | None) -> int:
        answer = self._json("POST", "/v1/publish", {"batch": batch}, body, content_type, key)
        return _number(answer, "queued_readings")

    def send(
        self,
        content: bytes,
        group: str | None = None,
        to: str | None = None,
        expires_s: int | None = None,
        key: str | None = None,
    ) -> int:
        """Queue a blob durably for every other member of the group, or for one; return how many.

        `group`: beginning of its id. `to`: a member's label, or the beginning of its key. `expires_s`: drop it if it
        has not come after so much running time of the agent, in seconds. `key`: drawn by the caller; tried again with
        the same one, it queues nothing more.
        """
        query = {"group": group, "to": to, "expires": expires_s}
        return _number(self._json("POST", "/v1/send", query, content, "application/octet-stream", key), "recipients")

    def send_ephemeral(self, content: bytes, group: str | None = None) -> int:
        """Say something to the members of a group who are there now, which nobody keeps; return to how many it goes.

        They get it as an event of type "ephemeral".

        Raises:
            TransientError: no relay is reached, or too much was said in a short time.
        """
        answer = self._json("POST", "/v1/ephemeral", {"group": group}, content, "application/octet-stream")
        return _number(answer, "recipients")

    def inbox(self, follow_s: int = 0, after: int = 0, *, in_order: bool = False) -> Generator[Blob, None, None]:
        """Yield the blobs that have arrived, oldest first, then those of the next seconds. They stay until `forget`.

        `in_order`: each only when all that its sender sent before has come or is reported lost; `after` is not heeded.
        """
        query = {"follow": follow_s, "in_order": 1} if in_order else {"follow": follow_s, "after": after}
        with closing(_Connection(self._path)) as connection:
            answer = connection.ask("GET", "/v1/inbox", query)
            while line := self._read(answer.readline):
                if line.strip():  # an empty one is a sign of life
                    yield _blob(line)

    def history(self, group: str | None = None, **wanted: str | int | None) -> Generator[dict[str, Any], None, None]:
        """Yield what a group's members have said, in the order that holds everywhere, a window at a time.

        `wanted`: `type`, `author` (label, or the beginning of a key), `since` (Unix microseconds, by the author's
        clock), `last` (only so many). What an entry has: HistoryEntry in `GET /openapi.json`.
        """
        after: str | None = None
        while True:
            page = self.history_page(group, **wanted, after=after)
            yield from page["entries"]
            after = page["next"]
            if after is None:
                return

    def history_page(self, group: str | None = None, **wanted: str | int | None) -> dict[str, Any]:
        """Return one window, as `history` has them: `entries`, `next` (its `after` gives the next window, None: none
        does), and `event`, after which `events` goes on where the first window was read."""
        query = {"group": group} | {name: each or None for name, each in wanted.items()}
        return _with(self._json("GET", "/v1/history", query), "entries", "next", "event")

    def events(
        self,
        after: str | None = None,
        *,
        types: Iterable[str] = (),
        group: str | None = None,
        follow_s: float | None = None,
    ) -> Generator[Event, None, None]:
        """Yield what happens from now on, each once, over restarts of the agent: a lost connection is resumed.

        `after`: the `id` of the last event that was dealt with, perhaps by an earlier process; "0" for all that ever
        happened. `types`: only these; `missed` says that events are gone, as after a restored state: read anew what you
        keep. `follow_s`: how long; None for ever.

        Raises:
            AgentUnreachableError: nobody answers at the first try; later on that is waited for.
        """
        stream = partial(self._stream, {"types": ",".join(types) or None, "group": group})
        return _resumed(stream, self._place() if after is None else after, follow_s)

    def _place(self) -> str:
        """Return the id of the last event so far; what happens while the agent answers may follow it."""
        return next(event.id for event in [*self._stream({}, None, 0)])

    def _stream(self, query: Mapping[str, object], last: str | None, follow_s: int) -> Iterator[Event]:
        with closing(_Connection(self._path)) as connection:
            answer = connection.ask("GET", "/v1/events", {**query, "follow": follow_s}, last_event=last)
            yield from _server_sent(iter(lambda: self._read(answer.readline), b""))

    def settings(self, prefix: str = "app.", follow_s: int = 0) -> Generator[ProgramSetting, None, None]:
        """Yield the settings that operators gave this device, then their changes in the next seconds.

        `prefix`: only those whose keys begin so. A setting comes again whenever something of it has changed, so a
        program that follows them acts on those of state "handed_over", and reports.
        """
        place = self._place()
        yield from self._settings(prefix)
        if follow_s:
            for event in self.events(place, types=("setting",), follow_s=follow_s):
                found = event.data.get("setting")
                if found is None or not found["key"].startswith(prefix):
                    continue
                if found.get("secret"):  # no event has its value
                    yield from (each for each in self._settings(found["key"]) if each.key == found["key"])
                else:
                    yield _setting(found)

    def _settings(self, prefix: str) -> Iterator[ProgramSetting]:
        for line in self._ask("GET", "/v1/settings", {"prefix": prefix}).splitlines():
            yield _setting(_document(line))

    def report_setting(
        self,
        setting: ProgramSetting,
        value: str | bool | float | None = None,
        *,
        refused: str = "",
    ) -> bool:
        """Say that a program has applied a setting of its own, or why it refused it; operators are told.

        `value`: what it has now. Return False where another operation asks for the setting by now.
        """
        state = "refused" if refused else "applied"
        content = {"key": setting.key, "operation": setting.operation, "state": state, "value": value, "why": refused}
        answer = self._json("POST", "/v1/settings/report", None, json.dumps(content).encode(), "application/json")
        return bool(answer.get("reported"))

    def own(self) -> dict[str, Any]:
        """Return the person's own `devices`, their `groups` and `preferences`: Own in `GET /openapi.json`.

        Changes are events of types `own_group` and `preference`.

        Raises:
            LocalError: this device is in no group of its person's devices.
        """
        return _with(self._json("GET", "/v1/own"), "devices", "groups", "preferences")

    def set_preference(self, key: str, value: str | None, group: str | None = None) -> None:
        """Set how the person wants something, on all their devices, durably; None: no longer.

        `group`: for one of the person's groups alone, the beginning of its id.
        """
        content = json.dumps({"key": key, "value": value, "group": group}).encode()
        self._json("POST", "/v1/own/preferences", None, content, "application/json")

    @property
    def content(self) -> ContentClient:
        """The files of its groups: put, get, list, pin, drop."""
        from covey.client_content import ContentClient

        return ContentClient(lambda: _Connection(self._path), self._read)

    def forget(self, identifier: int) -> None:
        """Take a blob out of the inbox, for good."""
        self._ask("DELETE", f"/v1/inbox/{identifier}")

    def _json(self, *words: Any) -> dict[str, Any]:
        return _document(self._ask(*words))

    def _ask(self, *words: Any) -> bytes:
        with closing(_Connection(self._path)) as connection:
            return self._read(connection.ask(*words).read)

    def _read(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except (OSError, http.client.HTTPException) as error:
            raise _gone(self._path) from error


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("covey", timeout=_PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except PermissionError as error:
            raise AgentUnreachableError(
                f"{self._path} is not this user's to open",
                hint="members of the socket's group may: sudo adduser $USER covey, then log in again",
            ) from error
        except OSError as error:
            raise AgentUnreachableError(
                f"no agent answers at {self._path}: {error.strerror or error}",
                hint="does it run, with api.socket set to this path? systemctl status covey",
            ) from error

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: bytes | BinaryIO | None = None,
        content_type: str = "",
        key: str | None = None,
        last_event: str | None = None,
        length: int | None = None,
    ) -> http.client.HTTPResponse:
        """Return the answer, unread, of a request that was not refused."""
        headers = {"Content-Type": content_type, "Idempotency-Key": key, "Last-Event-ID": last_event}
        headers["Content-Length"] = None if length is None else str(length)
        words = {name: value for name, value in (query or {}).items() if value is not None}
        place = f"{path}?{urlencode(words)}" if words else path
        try:
            self.request(method, place, body, {name: value for name, value in headers.items() if value})
            answer = self.getresponse()
            if answer.status == HTTPStatus.OK:
                return answer
            refusal = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise _gone(self._path) from error
        raise _refused(refusal)


def _gone(path: str) -> AgentUnreachableError:
    return AgentUnreachableError(f"the agent at {path} went away before it answered", hint="try again")


def _document(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise AgentVersionError.lacking("a JSON object")
    return found


def _with(found: dict[str, Any], *names: str) -> dict[str, Any]:
    if lacking := {*names} - found.keys():
        raise AgentVersionError.lacking(min(lacking))
    return found


def _number(answer: Mapping[str, Any], name: str) -> int:
    found = answer.get(name)
    if not isinstance(found, int):
        raise AgentVersionError.lacking(name)
    return found


def _bodies(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to bodies of one request each; none is split, and there is one body at least."""
    body = bytearray()
    for line in lines:
        if body and len(body) + len(line) > _REQUEST_BYTES:
            yield bytes(body)
            body.clear()
        body += line.removesuffix(b"\n") + b"\n"
    yield bytes(body)


def _blob(line: bytes) -> Blob:
    """Read a line of the inbox; what only a later version says is left out."""
    found = _document(line)
    try:
        known = {each.name: found[each.name] for each in fields(Blob)}
        return Blob(**{**known, "body": base64.b64decode(known["body"])})
    except KeyError as error:
        raise AgentVersionError.lacking(str(error.args[0])) from error
    except (ValueError, TypeError) as error:
        raise AgentVersionError.lacking("a body") from error


def _setting(found: Mapping[str, Any]) -> ProgramSetting:
    """Read a setting; what only a later version says is left out."""
    try:
        needed = {each.name: found[each.name] for each in fields(ProgramSetting) if each.name != "secret"}
        return ProgramSetting(**needed, secret=found.get("secret") is True)
    except KeyError as error:
        raise AgentVersionError.lacking(str(error.args[0])) from error


def _resumed(
    stream: Callable[[str, int], Iterator[Event]], last: str, follow_s: float | None
) -> Generator[Event, None, None]:
    """Yield events of streams that go on where the one before ended."""
    deadline = math.inf if follow_s is None else time.monotonic() + follow_s
    met = False
    pause_s = 0.0
    while True:
        try:
            left_s = min(_FOLLOW_S, max(0.0, deadline - time.monotonic()))
            for event in stream(last, math.ceil(left_s)):
                last, pause_s, met = event.id, 0.0, True
                if event.type:
                    yield event
        except AgentUnreachableError:
            if not met:
                raise
        if time.monotonic() >= deadline:
            return
        time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
        pause_s = min(_PAUSE_S_MAX, 2 * pause_s + _PAUSE_S)


def _server_sent(lines: Iterator[bytes]) -> Iterator[Event]:
    """Read a stream of events (WHATWG HTML, section 9.2), as far as an agent writes it."""
    identifier, kind, data = "", "", b""
    for line in lines:
        name, _, value = line.rstrip(b"\n").partition(b": ")
        match name:
            case b"id":
                identifier = value.decode()
            case b"event":
                kind = value.decode()
            case b"data":
                data = value
            case b"" if not line.strip() and identifier:
                yield Event(identifier, kind, _document(data) if data else {})
                kind, data = "", b""


def _refused(content: bytes) -> CoveyError:
    """Return the agent's error as the class that it was there."""
    try:
        document = json.loads(content)
        kind = _classes().get(document["error"], LocalError)
        return kind(str(document["message"]), hint=str(document["hint"]))
    except (ValueError, KeyError, TypeError):
        return AgentUnreachableError("what answers there is no Covey agent", hint="covey config list shows api.socket")


def _classes() -> dict[str, type[CoveyError]]:
    found: dict[str, type[CoveyError]] = {}
    waiting: list[type[CoveyError]] = [CoveyError]
    while waiting:
        kind = waiting.pop()
        found[kind.code] = kind
        waiting += kind.__subclasses__()
    return found
