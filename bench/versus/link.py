"""The network between edge and hub: a TCP proxy on loopback that can fall silent, and reset all its connections."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

_CHUNK = 64 * 1024


class Link:
    """Carries every connection to one port. Silent, it carries nothing and answers nothing, as a cable that is out."""

    def __init__(self, port: int) -> None:
        """Listen; `port` is the hub's."""
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._sound = asyncio.Event()
        self._sound.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)
        self._thread.start()
        self.port: int = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def fall_silent(self) -> None:
        """Carry nothing more; connections stay open."""
        self._loop.call_soon_threadsafe(self._sound.clear)

    def heal(self) -> None:
        """Carry again, also what was sent meanwhile, as TCP does."""
        self._loop.call_soon_threadsafe(self._sound.set)

    def reset(self) -> None:
        """Break every connection."""
        self._loop.call_soon_threadsafe(self._abort)

    def close(self) -> None:
        """Break every connection and listen no more."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _cancel(self) -> None:
        self._abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._sound.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(far_writer)
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(_CHUNK):
                await self._sound.wait()
                sink.write(chunk)
                await sink.drain()
        sink.close()
