"""What the local API answers. Each request opens the store as a command would, and none needs the agent's loop.

GET    /openapi.json        this, for programs; `openapi.json` beside this file
GET    /v1/status           as `covey status --json`
GET    /v1/outbox           as `covey outbox ls --json`; ?limit=N messages of each recipient
GET    /v1/metrics          OpenMetrics; ?format=prometheus is the older text format
POST   /v1/publish          readings: application/x-ndjson (SenML records, one a line), application/senml+json or +cbor;
                            all of them are queued, durably, or none; ?batch=N readings to a message
POST   /v1/send?group=ID&to=MEMBER&expires=SECONDS
                               a blob to every member of the group, or to one; `group` may be left out where
                            there is only one
GET    /v1/inbox            the blobs that have arrived, oldest first, one JSON document a line; ?follow=SECONDS goes on
                            with those to come; ?after=ID leaves out what the client has seen; ?in_order=1 shows a
                            blob only when all that its sender sent before has come or is reported lost
DELETE /v1/inbox/ID         forget a blob: the client has it, durably. Until then it comes again.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from covey.adapters.journal import report
from covey.adapters.local_api import Answer, LocalApi, Request, Route, Text
from covey.app.device import Device, device_on
from covey.core.ids import device_name
from covey.core.telemetry.senml import Reading, readings_from_cbor, readings_from_json
from covey.errors import UsageError
from covey.limits import MAXIMUM_BATCH_READINGS, MAXIMUM_BLOB_BYTES, MIB

if TYPE_CHECKING:
    from pathlib import Path

_PUBLISH_BYTES = 16 * MIB
"""Readings of one request: they are held in memory until all of them are known to be good."""
_FOLLOW_S_MAX = 86_400
_EXPIRES_S_MAX = 3_650 * 86_400
_LOOK_S = 0.1
_SIGN_OF_LIFE_S = 15.0
"""An empty line, so that a client and its agent notice each other's end."""
_METRICS_TYPES = {
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "prometheus": "text/plain; version=0.0.4; charset=utf-8",
}
_BLOBS = 16
"""Read at a time: a client that takes none costs no memory."""


def serve(agent: Device, path: Path) -> LocalApi:
    """Listen, for the agent of this device.

    Raises:
        ConfigurationError: the socket cannot be there.
    """
    return LocalApi(path, agent.config.api.group, _Answers(agent).routes(), report)


class _Answers:
    """The routes on one device."""

    def __init__(self, agent: Device) -> None:
        self._agent = agent

    def routes(self) -> tuple[Route, ...]:
        """Return every route."""
        return (
            Route("GET", "/openapi.json", 0, _description),
            Route("GET", "/v1/status", 0, self._status),
            Route("GET", "/v1/outbox", 0, self._outbox),
            Route("GET", "/v1/metrics", 0, self._metrics),
            Route("POST", "/v1/publish", _PUBLISH_BYTES, self._publish),
            Route("POST", "/v1/send", MAXIMUM_BLOB_BYTES, self._send),
            Route("GET", "/v1/inbox", 0, self._inbox),
            Route("DELETE", "/v1/inbox/([0-9]{1,18})", 0, self._forget),
        )

    def _session(self) -> AbstractContextManager[Device]:
        """Open the store for this thread; key and settings are the agent's, so that nobody is asked a passphrase."""
        return device_on(self._agent.folder, self._agent.node.identity, self._agent.config)

    def _status(self, request: Request) -> Answer:
        from covey.cli.cmd_status import status_of

        _only(request)
        with self._session() as device:
            return status_of(device)

    def _outbox(self, request: Request) -> Answer:
        from covey.cli.cmd_outbox import MOST_SHOWN, outbox_of

        _only(request, "limit")
        limit = _number(request, "limit", 0, MOST_SHOWN)
        with self._session() as device:
            return outbox_of(device, limit)

    def _metrics(self, request: Request) -> Answer:
        from covey.cli.cmd_metrics import FORMS, families

        _only(request, "format")
        form = request.query.get("format", "openmetrics")
        if form not in FORMS:
            raise UsageError(f"format must be one of: {', '.join(FORMS)}")
        with self._session() as device:
            return Text(_METRICS_TYPES[form], FORMS[form](list(families(device))))

    def _publish(self, request: Request) -> Answer:
        _only(request, "batch")
        batch = _number(request, "batch", 1, MAXIMUM_BATCH_READINGS) if "batch" in request.query else None
        with self._session() as device:
            readings = _readings(request, device.clock.monotonic_us())
            publisher = device.publisher(batch)
            for reading in readings:
                publisher.add(reading.name, reading.unit, reading.time_us, reading.value)
            return {"queued_readings": publisher.flush(device.node)}

    def _send(self, request: Request) -> Answer:
        from covey.app.operations.groups import pick_member

        _only(request, "group", "to", "expires")
        expires_s = _number(request, "expires", 0, _EXPIRES_S_MAX)
        with self._session() as device:
            group = device.pick_group(request.query.get("group"))
            to = pick_member(group, request.query["to"]).keys.signing_public if "to" in request.query else None
            with device.store.transaction():
                lifetime_us = expires_s * 1_000_000 or None
                recipients = device.node.send_blob(group.group_id, request.body, device.now(), to, lifetime_us)
        return {"bytes": len(request.body), "recipients": recipients}

    def _inbox(self, request: Request) -> Answer:
        _only(request, "after", "follow", "in_order")
        in_order = bool(_number(request, "in_order", 0, 1))
        after, follow_s = _number(request, "after", 0, 2**62), _number(request, "follow", 0, _FOLLOW_S_MAX)
        return self._blobs(after, follow_s, in_order=in_order)

    def _blobs(self, after: int, follow_s: int, *, in_order: bool) -> Iterator[dict[str, Any] | None]:
        shown: set[int] = set()
        deadline = time.monotonic() + follow_s
        spoken_at = time.monotonic()
        with self._session() as device:
            while True:
                store = device.store
                rows = store.inbox.arrived_in_order(_BLOBS, shown) if in_order else store.inbox.arrived(_BLOBS, after)
                for row in rows:
                    yield _blob(row)
                    shown.add(row[0])
                    after, spoken_at = row[0], time.monotonic()
                now = time.monotonic()
                if not rows and now >= deadline:
                    return
                if now - spoken_at >= _SIGN_OF_LIFE_S:
                    spoken_at = now
                    yield None
                while (
                    not rows
                    and not device.store.changed_elsewhere()
                    and time.monotonic() < min(deadline, spoken_at + _SIGN_OF_LIFE_S)
                ):
                    time.sleep(_LOOK_S)

    def _forget(self, request: Request) -> Answer:
        _only(request)
        with self._session() as device, device.store.transaction():
            device.store.inbox.consume(int(request.matched[0]))
        return {}


def _blob(row: tuple[int, bytes, bytes, int, int, bytes]) -> dict[str, Any]:
    identifier, group_id, author, sent_at, received_at, body = row
    return {
        "id": identifier,
        "author": author.hex(),
        "name": device_name(author),
        "group_id": group_id.hex(),
        "sent_at_us": sent_at,
        "received_at_us": received_at,
        "body": base64.b64encode(body).decode(),
    }


def _readings(request: Request, now_us: int) -> list[Reading]:
    """Read the body; a relative time counts from now on the monotonic clock."""
    match request.content_type:
        case "application/senml+json":
            return readings_from_json(request.body, now_us)
        case "application/senml+cbor":
            return readings_from_cbor(request.body, now_us)
        case _:
            from covey.cli.cmd_publish import readings_of_lines

            return [each for each in readings_of_lines(request.body.split(b"\n"), now_us) if each is not None]


def _only(request: Request, *known: str) -> None:
    """Refuse what a client believes to have said.

    Raises:
        UsageError: a parameter that this path does not know.
    """
    if unknown := set(request.query) - {*known}:
        raise UsageError(f"unknown parameter: {min(unknown)}", hint=f"known here: {', '.join(known) or 'none'}")


def _number(request: Request, name: str, least: int, most: int) -> int:
    text = request.query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise UsageError(f"{name} must be a whole number between {least} and {most}")
    return int(text)


def _description(request: Request) -> Answer:
    from importlib import resources

    _only(request)
    return Text("application/json", (resources.files("covey.app") / "openapi.json").read_text("utf-8"))
