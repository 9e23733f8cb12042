"""Choose how a command reaches the device: through the agent's socket, or by opening its state (ADR 2).

1. The state folder is the one that every command finds (`device.state_folder`), and its settings name the socket.
   Of /var/lib/covey it is the packaged units' where the settings name none.
2. Who may not read those settings, or has no device and names none, means the machine's agent: $COVEY_API_SOCKET,
   or else the packaged units' socket.
3. Through the agent where one answers there; into the state otherwise.
"""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing
from math import ceil
from typing import TYPE_CHECKING, Any

from covey.adapters.state_path import SYSTEM_STATE
from covey.app.checks.documents import Status
from covey.app.device.addresses import socket_path
from covey.app.documents import from_json
from covey.app.relays.documents import HandedOver, Outbox
from covey.client import SYSTEM_SOCKET, Blob, Client
from covey.client_calls import HAND_OVER_S_MAX
from covey.config.schema import TelemetryConfig
from covey.core.telemetry.times import UNUSABLE_US

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.app.history.documents import HistoryEntry
    from covey.app.history.pages import HistoryQuery
    from covey.core.telemetry.reading import Reading

_LOOK_S = 0.25
_REQUEST_BYTES = 500_000
"""Of one request to the agent, about; well below what a client splits, so that it is queued whole or not at all."""
_RECORD_BYTES = 200
"""A record's name, unit, time and number, about."""


def answering_agent(folder: StateFolder, *, named: bool) -> AnsweringAgent | None:
    """Return the agent to ask, or None where a command works on the state itself; `named`: a person named the state.

    Raises:
        AgentUnreachableError: this user may neither ask the agent nor read the state.
        ConfigurationError: the settings are wrong.
    """
    if not os.access(folder.configuration.path, os.R_OK):
        if (
            (named or "COVEY_STATE" in os.environ)
            and folder.path != SYSTEM_STATE
            and "COVEY_API_SOCKET" not in os.environ
        ):
            return None
        client = Client(os.environ.get("COVEY_API_SOCKET", SYSTEM_SOCKET))
        return AnsweringAgent(client) if client.answers() else None
    path = socket_path(folder, folder.configuration.config())
    if path is None or not folder.path.is_dir() or not folder.locks.agent_runs():
        return None
    client = Client(path)
    return AnsweringAgent(client) if client.answers() else None


class AnsweringAgent:
    """Implements `device_api.DeviceApi` through a running agent."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def status(self) -> Status:
        return from_json(Status, self._client.status())

    def outbox(self, limit: int) -> Outbox:
        return from_json(Outbox, self._client.outbox(limit))

    def metrics(self, form: str) -> str:
        """Return the numbers as text in one of `metrics.FORMS`."""
        return self._client.metrics(form)

    def outlet(self, batch: int | None) -> ThroughAgent:
        """Return where readings go, `batch` to a message."""
        return ThroughAgent(self._client, batch)

    def publish(self, content: bytes, content_type: str, batch: int | None, key: str | None) -> int:
        """Queue a request's readings durably; return how many those were."""
        return self._client.publish(content, batch, key=key, content_type=content_type)

    def send(
        self, content: bytes, group: str | None, to: str | None, expires_s: int | None, key: str | None = None
    ) -> int:
        """Queue a blob durably; return for how many devices."""
        return self._client.send(content, group, to, expires_s, key)

    def send_ephemeral(self, content: bytes, group: str | None) -> int:
        """Say something to the members of a group who are there now; return to how many it goes."""
        return self._client.send_ephemeral(content, group)

    def hand_over(self, to: str | None, seconds: float) -> HandedOver:
        done, deadline = dict[str, None](), time.monotonic() + seconds
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            found = self._client.hand_over(to, min(ceil(left_s), HAND_OVER_S_MAX))
            done |= dict.fromkeys(found["handed_over"])
            if not found["open"] or left_s <= HAND_OVER_S_MAX:
                return HandedOver(tuple(done), tuple(found["open"]))

    def receive(self, seconds: float, *, in_order: bool) -> Iterator[Blob]:
        """Yield the blobs that have arrived, waiting so long for the first."""
        with closing(self._client.inbox(follow_s=ceil(seconds), in_order=in_order)) as awaited:
            first = next(awaited, None)
        if first is not None:
            yield first
            yield from self._client.inbox(in_order=True) if in_order else self._client.inbox(after=first.id)

    def delete(self, identifier: int) -> None:
        """Take a blob out of the inbox."""
        self._client.delete(identifier)

    def history(self, query: HistoryQuery, *, follow: bool = False) -> Iterator[HistoryEntry]:
        """Yield what is wanted of a group's history, then perhaps what comes."""
        from covey.app.history.documents import HistoryEntry

        after: str | None = None
        while True:
            page = self._client.history_page(
                query.group, type=query.kind, author=query.author, since=query.since_us, last=query.last, after=after
            )
            yield from (from_json(HistoryEntry, each) for each in page["entries"])
            after = page["next"]
            if after is None:
                break
        if not follow:
            return
        for event in self._client.events(page["event"], types=("operation",), group=query.group):
            if event.type == "operation" and query.wants(entry := from_json(HistoryEntry, event.data)):
                yield entry

    def waiting_after(self, seconds: float) -> int:
        """Return how many messages still wait after so long."""
        deadline = time.monotonic() + seconds
        while (waiting := self.outbox(0).messages) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        return waiting


_UNUSABLE_S = 1e12
"""A time after the year 9999, which the agent replaces and counts, as it would have the one that was given."""


class ThroughAgent:
    """Implements `device_api.Outlet`. A reading without a time is sent with its age: the agent's clock tells when."""

    def __init__(self, agent: Client, batch: int | None) -> None:
        self._agent = agent
        self._batch = batch
        self._waiting: list[tuple[float, Reading]] = []
        self._bytes = 0

    def add(self, reading: Reading) -> bool:
        """Take a reading; return whether enough wait to be flushed."""
        self._waiting.append((time.monotonic(), reading))
        match reading.value:
            case str(text):
                self._bytes += len(json.dumps(text))
            case bytes(data):
                self._bytes += 2 * len(data)
        self._bytes += _RECORD_BYTES
        return self._bytes >= _REQUEST_BYTES

    def flush(self) -> int:
        """Queue what waits; return how many readings that were."""
        if not self._waiting:
            return 0
        now = time.monotonic()
        records = [record_of(reading, now - taken_at) for taken_at, reading in self._waiting]
        queued = self._agent.publish(records, self._batch)
        self._waiting, self._bytes = [], 0
        return queued

    def flush_if_due(self) -> int:
        """Queue what has waited long enough."""
        due = self._waiting and time.monotonic() >= self._waiting[0][0] + TelemetryConfig().batch_seconds
        return self.flush() if due else 0


def record_of(reading: Reading, age_s: float) -> dict[str, Any]:
    """Return a reading as a SenML record that stands alone; without a time of its own, it is so many seconds old."""
    if reading.time_us is None:
        time_s = -age_s
    else:
        time_s = _UNUSABLE_S if reading.time_us == UNUSABLE_US else reading.time_us / 1e6
    record: dict[str, Any] = {"n": reading.name, "t": time_s}
    if reading.unit:
        record["u"] = reading.unit
    match reading.value:
        case bool(value):
            record["vb"] = value
        case str(value):
            record["vs"] = value
        case bytes(value):
            record["vd"] = urlsafe_b64encode(value).decode().rstrip("=")
        case value:
            record["v"] = value
    return record
