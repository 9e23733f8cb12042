"""The local API from asyncio: `AsyncClient` asks what `covey.client.Client` does, and waits for nothing but its turn.

    from covey.client_async import AsyncClient

    covey = AsyncClient("/run/covey/api.sock")
    await covey.publish([{"n": "urn:dev:shed:t", "u": "Cel", "v": 21.5}])
    async for event in covey.events(types=["operation"]):
        await deal_with(event.data)

What a call means stands once, in `covey.client_calls`; here is how it is carried. Files (`Client.content`) are read and
written to a disk: `await asyncio.to_thread(client.content.put, path)`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from os import PathLike, fspath
from typing import Any

from covey import client_calls as calls
from covey.client_calls import SYSTEM_SOCKET, Answer, Blob, Call, Event, ProgramSetting
from covey.errors import AgentUnreachableError

__all__ = ["SYSTEM_SOCKET", "AsyncClient", "Blob", "Event", "ProgramSetting"]

_LINE_BYTES = 16 * 1024 * 1024
"""More than a line of any answer: a blob of a megabyte, in base64."""


class AsyncClient:
    """One agent, by its socket; each request has a connection of its own, so many may be under way at a time.

    Raises (all methods):
        AgentUnreachableError: no agent answers there, or this user may not ask it.
        AgentVersionError: the agent is of another version, and does not say what is asked.
        CoveyError: the agent's own refusal.
    """

    def __init__(self, path: str | PathLike[str] = SYSTEM_SOCKET) -> None:
        self._path = fspath(path)

    async def status(self) -> dict[str, Any]:
        """Return what `covey status --json` prints."""
        return await self._done(calls.status())

    async def outbox(self, limit: int) -> dict[str, Any]:
        """Return what `covey message ls --json` prints, with the oldest `limit` messages of each recipient."""
        return await self._done(calls.outbox(limit))

    async def metrics(self, form: str = "openmetrics") -> str:
        """Return the numbers as `openmetrics`, or in the older text format of `prometheus`."""
        return await self._done(calls.metrics(form))

    async def publish(
        self,
        readings: bytes | Iterable[Mapping[str, Any]],
        batch: int | None = None,
        *,
        key: str | None = None,
        content_type: str = calls.NDJSON,
    ) -> int:
        """Queue SenML records durably, and return how many readings those were; as `Client.publish`."""
        return sum([await self._done(each) for each in calls.publish(readings, batch, key, content_type)])

    async def send(
        self,
        content: bytes,
        group: str | None = None,
        to: str | None = None,
        expires_s: int | None = None,
        key: str | None = None,
    ) -> int:
        """Queue a blob durably for every other member of the group, or for one; return how many: `Client.send`."""
        return await self._done(calls.send(content, group, to, expires_s, key))

    async def hand_over(self, to: str | None = None, wait_s: int = calls.HAND_OVER_S_MAX) -> dict[str, Any]:
        """Have what waits kept by mailboxes at once, and wait for that: `Client.hand_over`."""
        return await self._done(calls.hand_over(to, wait_s))

    async def send_ephemeral(self, content: bytes, group: str | None = None) -> int:
        """Say something to who is there now, which nobody keeps; return to how many: `Client.send_ephemeral`."""
        return await self._done(calls.send_ephemeral(content, group))

    async def inbox(self, follow_s: int = 0, after: int = 0, *, in_order: bool = False) -> AsyncGenerator[Blob, None]:
        """Yield the blobs that have arrived, then those of the next seconds; as `Client.inbox`."""
        async for blob in self._lines(calls.inbox(follow_s, after, in_order=in_order)):
            yield blob

    async def history(
        self, group: str | None = None, **wanted: str | int | None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield what a group's members have said, in the order that holds everywhere; as `Client.history`."""
        after: str | None = None
        while True:
            page = await self.history_page(group, **wanted, after=after)
            for entry in page["entries"]:
                yield entry
            after = page["next"]
            if after is None:
                return

    async def history_page(self, group: str | None = None, **wanted: str | int | None) -> dict[str, Any]:
        """Return one window of a history: `entries`, `next`, `event`; as `Client.history_page`."""
        return await self._done(calls.history_page(group, wanted))

    async def events(
        self,
        after: str | None = None,
        *,
        types: Iterable[str] = (),
        group: str | None = None,
        follow_s: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield what happens, each once, over restarts of the agent; as `Client.events`.

        Without `after`, what happens from when the first one is asked for.
        """
        begin = await self._place() if after is None else after
        following = calls.FollowedEvents(begin, follow_s, time.monotonic())
        wanted = tuple(types)
        while True:
            call = calls.events(wanted, group, following.last, following.next_s(time.monotonic()))
            try:
                async for event in self._lines(call):
                    if following.came(event):
                        yield event
            except AgentUnreachableError as error:
                following.failed(error)
            pause_s = following.pause_s(time.monotonic())
            if pause_s is None:
                return
            await asyncio.sleep(pause_s)

    async def _place(self) -> str:
        """Return the last event's id so far; later events may follow it while the agent answers."""
        return next(event.id for event in [each async for each in self._lines(calls.events((), None, None, 0))])

    async def settings(self, prefix: str = "app.", follow_s: int = 0) -> AsyncGenerator[ProgramSetting, None]:
        """Yield the settings that operators gave this device, then their changes; as `Client.settings`."""
        place = await self._place()
        for setting in await self._done(calls.settings(prefix)):
            yield setting
        if not follow_s:
            return
        async for event in self.events(place, types=("setting",), follow_s=follow_s):
            found = calls.changed_setting(event, prefix)
            if isinstance(found, ProgramSetting):
                yield found
            elif found is not None:
                for setting in await self._done(calls.settings(found)):
                    if setting.key == found:
                        yield setting

    async def report_setting(
        self,
        setting: ProgramSetting,
        value: str | bool | float | None = None,
        *,
        refused: str = "",
    ) -> bool:
        """Say that a program has applied a setting of its own, or why not; as `Client.report_setting`."""
        return await self._done(calls.report_setting(setting, value, refused))

    async def own(self) -> dict[str, Any]:
        """Return the person's own `devices`, their `groups` and `preferences`; as `Client.own`."""
        return await self._done(calls.own())

    async def set_preference(self, key: str, value: str | None, group: str | None = None) -> None:
        """Set how the person wants something, on all their devices, durably; None: no longer."""
        await self._done(calls.set_preference(key, value, group))

    async def delete(self, identifier: int) -> None:
        """Delete a blob from the inbox permanently."""
        await self._done(calls.delete(identifier))

    async def _done(self, call: Call[Answer]) -> Answer:
        async with self._asked(call) as (answer, length):
            content = await self._read(answer.read() if length is None else answer.readexactly(length))
        return call.read(content)

    async def _lines(self, call: Call[Answer | None]) -> AsyncGenerator[Answer, None]:
        async with self._asked(call) as (answer, _):
            while line := await self._read(answer.readline()):
                if (found := call.read(line)) is not None:
                    yield found

    @asynccontextmanager
    async def _asked(self, call: Call[Any]) -> AsyncIterator[tuple[asyncio.StreamReader, int | None]]:
        try:
            reader, writer = await asyncio.open_unix_connection(self._path, limit=_LINE_BYTES)
        except OSError as error:
            raise calls.unreachable(self._path, error) from error
        try:
            body = call.body or b""
            assert isinstance(body, bytes)
            writer.write(call.head(len(body)) + body)
            try:
                status, length, _ = calls.read_head(await self._read(reader.readuntil(b"\r\n\r\n")))
            except ValueError as error:
                raise calls.gone(self._path) from error
            if status != HTTPStatus.OK:
                raise calls.refused(await self._read(reader.read() if length is None else reader.readexactly(length)))
            yield reader, length
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _read(self, reading: Awaitable[bytes]) -> bytes:
        try:
            async with asyncio.timeout(calls.PATIENCE_S):
                return await reading
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:  # a time-out is an OSError
            raise calls.gone(self._path) from error
