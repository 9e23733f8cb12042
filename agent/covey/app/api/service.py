"""The local API's service: answers requests by `DeviceApi` on the agent's own state.

The agent's loop queues what clients publish and send, and deletes what they have taken: requests that come at about the
same time share a commit, and each is answered after it (`app/device/shared_commits.py`). All other requests open the
store as a command would, and do not need the loop. The operations stand in `operations.py`; `GET /openapi.json`
describes them. A blob comes again until the client, which then has it durably, deletes it.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from covey.adapters.journal import report
from covey.adapters.local_api.routes import Answer, NoContent, Request, Route, Text
from covey.adapters.local_api.server import LocalApi
from covey.app.api.opened_device import OpenedDevice, blob_of
from covey.app.api.operations import OPERATIONS, api_description
from covey.app.checks.metrics import FORMS
from covey.app.content.api import ContentAnswers
from covey.app.device.device import Device, device_on
from covey.app.documents import Deleted, to_json
from covey.app.groups.documents import ArrivedBlob, QueuedBlob, SentEphemeral, SetPreference
from covey.app.history.documents import HISTORY_PAGE_ENTRIES
from covey.app.loop.following import Following
from covey.app.orders.documents import ReportedSettingDocument
from covey.app.telemetry.documents import QueuedReadings
from covey.errors import UsageError
from covey.limits.content import MAXIMUM_CONTENT_BYTES
from covey.limits.ephemeral import MAXIMUM_EPHEMERAL_BYTES
from covey.limits.message import MAXIMUM_BLOB_BYTES
from covey.limits.telemetry import MAXIMUM_PUBLISH_BYTES
from covey.limits.units import KIB

if TYPE_CHECKING:
    from pathlib import Path

    from covey.app.device.shared_commits import SharedCommits
    from covey.app.openapi import Endpoint
    from covey.client import Blob

_BODY_BYTES = {
    "publish": MAXIMUM_PUBLISH_BYTES,
    "write_lines": MAXIMUM_PUBLISH_BYTES,
    "send": MAXIMUM_BLOB_BYTES,
    "send_ephemeral": MAXIMUM_EPHEMERAL_BYTES,
    "report_setting": 8 * KIB,
    "set_preference": 8 * KIB,
    "put_content": MAXIMUM_CONTENT_BYTES,
}
"""The others have no body."""
_METRICS_TYPES = {
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "prometheus": "text/plain; version=0.0.4; charset=utf-8",
}
_BLOBS = 16
"""Read at a time: a client that takes none costs no memory."""


def serve(agent: Device, commits: SharedCommits, path: Path) -> LocalApi:
    """Listen, for the agent of this device.

    Raises:
        ConfigurationError: the socket cannot be there.
    """
    return LocalApi(path, agent.config.api.group, _Answers(agent, commits).routes(), report)


class _Answers:
    """The operations on one device."""

    def __init__(self, agent: Device, commits: SharedCommits) -> None:
        self._agent = agent
        self._shared = OpenedDevice(agent, commits.commit)
        self._content = ContentAnswers(self._opened)

    def routes(self) -> tuple[Route, ...]:
        """Return a route for every operation."""
        answers: dict[str, Callable[[Request], Answer]] = {
            "description": self._description,
            "status": self._status,
            "outbox": self._outbox,
            "metrics": self._metrics,
            "publish": self._publish,
            "write_lines": self._write_lines,
            "send": self._send,
            "send_ephemeral": self._send_ephemeral,
            "hand_over": self._hand_over,
            "inbox": self._inbox,
            "delete_blob": self._delete_blob,
            "history": self._history,
            "events": self._events,
            "settings": self._settings,
            "report_setting": self._report_setting,
            "own": self._own,
            "set_preference": self._set_preference,
            **self._content.answers(),
        }
        return tuple(
            Route(
                each.method,
                re.compile(each.path.replace("{id}", "([0-9]{1,18})").replace("{ref}", "([^/]{1,1024})")),
                _BODY_BYTES.get(each.name, 0),
                _checked(each, answers[each.name]),
                self._content.spool if each.name == "put_content" else None,
            )
            for each in OPERATIONS
        )

    @contextmanager
    def _opened(self) -> Iterator[Device]:
        """Open the store for this thread, with the agent's key and settings: nobody is asked for a passphrase."""
        with device_on(self._agent.folder, self._agent.node.identity, self._agent.config) as device:
            yield device

    def _description(self, _: Request) -> Answer:
        return Text("application/json", json.dumps(api_description(), indent=1) + "\n")

    def _status(self, _: Request) -> Answer:
        with self._opened() as device:
            return _document(OpenedDevice(device).status())

    def _outbox(self, request: Request) -> Answer:
        with self._opened() as device:
            return _document(OpenedDevice(device).outbox(int(request.query.get("limit", 0))))

    def _metrics(self, request: Request) -> Answer:
        form = request.query.get("format", "openmetrics")
        if form not in FORMS:
            raise UsageError(f"format must be one of: {', '.join(FORMS)}")
        with self._opened() as device:
            return Text(_METRICS_TYPES[form], OpenedDevice(device).metrics(form))

    def _publish(self, request: Request) -> Answer:
        batch = int(request.query["batch"]) if "batch" in request.query else None
        queued = self._shared.publish(request.body, request.content_type, batch, request.key)
        return _document(QueuedReadings(queued))

    def _write_lines(self, request: Request) -> Answer:
        self._shared.write_lines(request.body, request.query.get("precision", "ns"), request.key)
        return NoContent()

    def _send(self, request: Request) -> Answer:
        query = request.query
        expires_s = int(query.get("expires", 0))
        recipients = self._shared.send(request.body, query.get("group"), query.get("to"), expires_s, request.key)
        return _document(QueuedBlob(len(request.body), recipients))

    def _hand_over(self, request: Request) -> Answer:
        with self._opened() as device:
            return _document(OpenedDevice(device).hand_over(request.query.get("to"), int(request.query.get("wait", 0))))

    def _send_ephemeral(self, request: Request) -> Answer:
        with self._opened() as device:
            group_id = device.pick_group(request.query.get("group")).group_id
        recipients = self._agent.ephemeral.say(group_id, request.body)
        return _document(SentEphemeral(len(request.body), recipients))

    def _inbox(self, request: Request) -> Answer:
        after, follow_s, in_order = (int(request.query.get(name, 0)) for name in ("after", "follow", "in_order"))
        return self._blobs(after, follow_s, in_order=bool(in_order))

    def _blobs(self, after: int, follow_s: int, *, in_order: bool) -> Iterator[dict[str, Any] | None]:
        shown: set[int] = set()
        with self._opened() as device:
            store, following = device.store, Following(device.store, follow_s)
            while True:
                rows = store.inbox.arrived_in_order(_BLOBS, shown) if in_order else store.inbox.arrived(_BLOBS, after)
                for row in rows:
                    yield _document(_arrived(blob_of(row)))
                    shown.add(row[0])
                    after = row[0]
                    following.spoke()
                if rows:
                    continue
                if following.over:
                    return
                if following.wait():
                    yield None

    def _history(self, request: Request) -> Answer:
        from covey.app.history.pages import HistoryQuery, page

        query = request.query
        since_us, last = (int(query.get(name, 0)) for name in ("since", "last"))
        wanted = HistoryQuery(query.get("group"), query.get("type", ""), query.get("author", ""), since_us, last)
        with self._opened() as device:
            return _document(page(device, wanted, query.get("after"), int(query.get("limit", HISTORY_PAGE_ENTRIES))))

    def _events(self, request: Request) -> Answer:
        from covey.app.api.events import event_stream

        return event_stream(self._opened, self._agent.ephemeral, request)

    def _settings(self, request: Request) -> Answer:
        from covey.app.orders.program_settings import ordered_settings

        prefix = request.query.get("prefix", "")
        with self._opened() as device:
            return iter(
                [_document(each) for each in ordered_settings(device, secrets=True) if each.key.startswith(prefix)]
            )

    def _report_setting(self, request: Request) -> Answer:
        from covey.app.orders.program_settings import read_report, report_setting

        with self._opened() as device:
            return _document(ReportedSettingDocument(report_setting(device, read_report(request.body))))

    def _own(self, _: Request) -> Answer:
        from covey.app.groups.own import own

        with self._opened() as device:
            return _document(own(device))

    def _set_preference(self, request: Request) -> Answer:
        from covey.app.groups.own import read_preference, set_preference

        key, value, group = read_preference(request.body)
        with self._opened() as device:
            said = set_preference(device, key, value, group)
        return _document(SetPreference(said))

    def _delete_blob(self, request: Request) -> Answer:
        self._shared.delete(int(request.matched[0]))
        return _document(Deleted())


def _document(value: object) -> dict[str, Any]:
    found: dict[str, Any] = to_json(value)
    return found


def _arrived(blob: Blob) -> ArrivedBlob:
    body = b64encode(blob.body).decode()
    return ArrivedBlob(blob.id, blob.author, blob.name, blob.group_id, blob.sent_at_us, blob.received_at_us, body)


def _checked(operation: Endpoint, answer: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """Return an answer that is given only to a request which says what its operation knows.

    Raises (the returned one):
        UsageError: a parameter that this path does not know, or a number that is none or out of bounds.
    """
    known = {each.name: each.schema for each in operation.parameters if each.where == "query"}

    def answered(request: Request) -> Answer:
        if unknown := set(request.query) - set(known):
            raise UsageError(
                f"unknown parameter: {min(unknown)}", hint=f"known parameters: {', '.join(known) or 'none'}"
            )
        for name, text in request.query.items():
            if known[name].get("type") == "integer":
                _check_number(name, text, known[name]["minimum"], known[name]["maximum"])
        return answer(request)

    return answered


def _check_number(name: str, text: str, least: int, most: int) -> None:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise UsageError(f"{name} must be a whole number between {least} and {most}")
