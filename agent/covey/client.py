"""The local API from Python: publish, send, receive, ask. Nothing of the agent is loaded but its errors.

    from covey.client import Client

    covey = Client("/run/covey/api.sock")
    covey.publish([{"n": "urn:dev:shed:t", "u": "Cel", "v": 21.5}])
    for blob in covey.inbox(follow_s=3600):
        store(blob.body)
        covey.delete(blob.id)
    for event in covey.events(after=last_id, types=["operation"]):
        deal_with(event.data)

Threads may share a client. It keeps connections open for the next requests for some seconds; an agent may restart
between two requests. What the agent refuses is raised as the error that it was there, with its hint. Paths and fields:
`GET /openapi.json`. Files: `client_content.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from covey import client_calls as calls
from covey.client_calls import SYSTEM_SOCKET, Answer, Blob, Call, Event, ProgramSetting
from covey.client_connection import AgentConnection
from covey.errors import AgentUnreachableError

if TYPE_CHECKING:
    from covey.client_content import ContentClient

__all__ = ["SYSTEM_SOCKET", "Blob", "Client", "Event", "ProgramSetting"]


_IDLE_MOST = 8


class Client:
    """One agent, by its socket.

    Raises (all methods):
        AgentUnreachableError: no agent answers there, or this user may not ask it.
        AgentVersionError: the agent is of another version, and does not say what is asked.
        CoveyError: the agent's own refusal.
    """

    def __init__(self, path: str | PathLike[str] = SYSTEM_SOCKET) -> None:
        self._idle: list[AgentConnection] = []
        self._path = fspath(path)
        self._process = os.getpid()

    def close(self) -> None:
        """Close the connections that are kept for further requests; a later request opens another one."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()

    def answers(self) -> bool:
        """Say whether an agent listens there.

        Raises:
            AgentUnreachableError: one may, but this user may not ask it.
        """
        try:
            with closing(AgentConnection(self._path)) as connection:
                connection.connect()
        except AgentUnreachableError as error:
            if isinstance(error.__cause__, PermissionError):
                raise
            return False
        return True

    def status(self) -> dict[str, Any]:
        """Return what `covey status --json` prints."""
        return self._done(calls.status())

    def outbox(self, limit: int) -> dict[str, Any]:
        """Return what `covey message ls --json` prints, with the oldest `limit` messages of each recipient."""
        return self._done(calls.outbox(limit))

    def metrics(self, form: str = "openmetrics") -> str:
        """Return the numbers as `openmetrics`, or in the older text format of `prometheus`."""
        return self._done(calls.metrics(form))

    def publish(
        self,
        readings: bytes | Iterable[Mapping[str, Any]],
        batch: int | None = None,
        *,
        key: str | None = None,
        content_type: str = calls.NDJSON,
    ) -> int:
        """Queue SenML records durably, `batch` to a message; bytes are NDJSON. Return how many readings those were.

        What is longer than a megabyte goes in several requests. Of each, all is queued or nothing. With a `key`, drawn
        by the caller, it is one request of at most 2 MiB: tried again with the same key, it queues nothing more.
        """
        return sum(self._done(each) for each in calls.publish(readings, batch, key, content_type))

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
        return self._done(calls.send(content, group, to, expires_s, key))

    def hand_over(self, to: str | None = None, wait_s: int = calls.HAND_OVER_S_MAX) -> dict[str, Any]:
        """Push waiting messages to mailboxes at once, and wait for that so many seconds, 30 at most.

        In the answer, `handed_over` names recipients whose messages a mailbox, or they themselves, have stored: so this
        device may be switched off. `open` names those without a confirmation. `to`: only what waits for one, by its
        label or the beginning of its key.

        Raises:
            LocalError: something waits, and no group names a mailbox for it.
        """
        return self._done(calls.hand_over(to, wait_s))

    def send_ephemeral(self, content: bytes, group: str | None = None) -> int:
        """Say something to the members of a group who are there now, which nobody keeps; return to how many it goes.

        They get it as an event of type "ephemeral".

        Raises:
            TransientError: no relay is reached, or too much was said in a short time.
        """
        return self._done(calls.send_ephemeral(content, group))

    def inbox(self, follow_s: int = 0, after: int = 0, *, in_order: bool = False) -> Generator[Blob, None, None]:
        """Yield the blobs that have arrived, oldest first, then those of the next seconds. They stay until `delete`.

        `in_order`: each only when all that its sender sent before has come or is reported lost; `after` is not heeded.
        """
        yield from self._lines(calls.inbox(follow_s, after, in_order=in_order))

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
        return self._done(calls.history_page(group, wanted))

    def events(
        self,
        after: str | None = None,
        *,
        types: Iterable[str] = (),
        group: str | None = None,
        follow_s: float | None = None,
    ) -> Generator[Event, None, None]:
        """Yield events from now on, each once, also across agent restarts: a lost connection is resumed.

        `after`: the `id` of the last processed event, perhaps by an earlier process; "0" for all events. `types`: only
        these; `missed` means that events are gone, as after a restored state: read again what you keep. `follow_s`: how
        long; None forever.

        Raises:
            AgentUnreachableError: no agent answers at the first try; later it waits.
        """
        begin = self._place() if after is None else after
        return self._resumed(tuple(types), group, calls.FollowedEvents(begin, follow_s, time.monotonic()))

    def _resumed(
        self, types: tuple[str, ...], group: str | None, following: calls.FollowedEvents
    ) -> Generator[Event, None, None]:
        while True:
            call = calls.events(types, group, following.last, following.next_s(time.monotonic()))
            try:
                for event in self._lines(call):
                    if following.came(event):
                        yield event
            except AgentUnreachableError as error:
                following.failed(error)
            pause_s = following.pause_s(time.monotonic())
            if pause_s is None:
                return
            time.sleep(pause_s)

    def _place(self) -> str:
        """Return the last event's id so far; later events may follow it while the agent answers."""
        return next(event.id for event in [*self._lines(calls.events((), None, None, 0))])

    def settings(self, prefix: str = "app.", follow_s: int = 0) -> Generator[ProgramSetting, None, None]:
        """Yield the settings that operators gave this device, then their changes in the next seconds.

        `prefix`: only those whose keys begin so. A setting comes again whenever something of it has changed, so a
        program that follows them acts on those of state "handed_over", and reports.
        """
        place = self._place()
        yield from self._done(calls.settings(prefix))
        if not follow_s:
            return
        for event in self.events(place, types=("setting",), follow_s=follow_s):
            found = calls.changed_setting(event, prefix)
            if isinstance(found, ProgramSetting):
                yield found
            elif found is not None:
                yield from (each for each in self._done(calls.settings(found)) if each.key == found)

    def report_setting(
        self,
        setting: ProgramSetting,
        value: str | bool | float | None = None,
        *,
        refused: str = "",
    ) -> bool:
        """Report that a program has applied a setting of its own, or why it refused it, to the operators.

        `value`: its value now. Return False if another operation orders the setting by now.
        """
        return self._done(calls.report_setting(setting, value, refused))

    def own(self) -> dict[str, Any]:
        """Return the person's own `devices`, their `groups` and `preferences`: Own in `GET /openapi.json`.

        Changes are events of types `own_group` and `preference`.

        Raises:
            LocalError: this device is in no group of its person's devices.
        """
        return self._done(calls.own())

    def set_preference(self, key: str, value: str | None, group: str | None = None) -> None:
        """Set how the person wants something, on all their devices, durably; None: no longer.

        `group`: for one of the person's groups alone, start of its id.
        """
        self._done(calls.set_preference(key, value, group))

    @property
    def content(self) -> ContentClient:
        """The files of its groups: put, get, list, pin, drop."""
        from covey.client_content import ContentClient

        return ContentClient(self._path)

    def delete(self, identifier: int) -> None:
        """Delete a blob from the inbox permanently."""
        self._done(calls.delete(identifier))

    def _done(self, call: Call[Answer]) -> Answer:
        connection = self._connection()
        try:
            answer = connection.answer(call)
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.closes or len(self._idle) >= _IDLE_MOST:
            connection.close()
        else:
            connection.rest()
            self._idle.append(connection)
        return call.read(content)

    def _connection(self) -> AgentConnection:
        """Return a connection that is kept, or another one."""
        if self._process != os.getpid():  # after a fork they are the parent's
            self.close()
            self._process = os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return AgentConnection(self._path)
            if connection.is_usable():
                return connection
            connection.close()

    def _lines(self, call: Call[Answer | None]) -> Generator[Answer, None, None]:
        with closing(AgentConnection(self._path)) as connection:
            answer = connection.answer(call)
            while line := answer.readline():
                if (found := call.read(line)) is not None:
                    yield found
