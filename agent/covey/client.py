"""The local API from Python: publish, send, receive, ask. Nothing of the agent is loaded but its errors.

    from covey.client import Client

    covey = Client("/run/covey/api.sock")
    covey.publish([{"n": "urn:dev:shed:t", "u": "Cel", "v": 21.5}])
    for blob in covey.inbox(follow_s=3600):
        store(blob.body)
        covey.forget(blob.id)

Every request has a connection of its own, so that an agent may restart between two. What the agent refuses is raised
as the error that it was there, with its hint; `LocalError` where this Covey does not know it. Paths and fields stand in
what the agent serves as `GET /openapi.json`.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from http import HTTPStatus
from io import BytesIO
from os import PathLike, fspath
from typing import Any
from urllib.parse import urlencode

from covey.errors import AgentUnreachableError, AgentVersionError, CoveyError, LocalError

SYSTEM_SOCKET = "/run/covey/api.sock"
"""Where the packaged units let the machine's agent answer."""

_PATIENCE_S = 60.0
"""Longer than the agent's signs of life are apart, and than a commit on a worn card takes."""

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
    """

    key: str
    value: str | bool | int | None
    state: str
    by: str
    operation: str
    group_id: str


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
        answer = self._json("POST", "/v1/send", query, content, "application/octet-stream", key)
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

    def settings(self, prefix: str = "app.", follow_s: int = 0) -> Generator[ProgramSetting, None, None]:
        """Yield the settings that operators gave this device, then their changes in the next seconds.

        `prefix`: only those whose keys begin so. A setting comes again whenever something of it has changed, so a
        program that follows them acts on those of state "handed_over", and reports.
        """
        query = {"prefix": prefix, "follow": follow_s}
        with closing(_Connection(self._path)) as connection:
            answer = connection.ask("GET", "/v1/settings", query)
            while line := self._read(answer.readline):
                if line.strip():
                    yield _setting(line)

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
        body: bytes | None = None,
        content_type: str = "",
        key: str | None = None,
    ) -> http.client.HTTPResponse:
        """Return the answer, unread, of a request that was not refused."""
        headers = {"Content-Type": content_type, "Idempotency-Key": key}
        words = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            self.request(
                method,
                f"{path}?{urlencode(words)}" if words else path,
                body,
                {name: value for name, value in headers.items() if value},
            )
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


def _setting(line: bytes) -> ProgramSetting:
    """Read a line of the settings; what only a later version says is left out."""
    found = _document(line)
    try:
        return ProgramSetting(**{each.name: found[each.name] for each in fields(ProgramSetting)})
    except KeyError as error:
        raise AgentVersionError.lacking(str(error.args[0])) from error


def _refused(content: bytes) -> CoveyError:
    """Return the agent's error as the class that it was there."""
    try:
        document = json.loads(content)
        kind, message, hint = (
            _classes().get(document["error"], LocalError),
            str(document["message"]),
            str(document["hint"]),
        )
    except (ValueError, KeyError, TypeError):
        return AgentUnreachableError("what answers there is no Covey agent", hint="covey config list shows api.socket")
    return kind(message, hint=hint)


def _classes() -> dict[str, type[CoveyError]]:
    found: dict[str, type[CoveyError]] = {}
    waiting: list[type[CoveyError]] = [CoveyError]
    while waiting:
        kind = waiting.pop()
        found[kind.code] = kind
        waiting += kind.__subclasses__()
    return found
