"""A TCP tap in front of the broker, one port for each device: counts the bytes that really cross the wire."""

from __future__ import annotations

import asyncio
import threading

_CHUNK = 64 * 1024


class WireTap:
    """Forwards connections to the broker and counts each device's bytes, both directions, MQTT overhead included."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._bytes: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire-tap", daemon=True)
        self._thread.start()

    def port_for(self, device: str) -> int:
        """Open a port for a device and return it."""
        self._bytes[device] = 0
        return asyncio.run_coroutine_threadsafe(self._listen(device), self._loop).result(timeout=10)

    def bytes_of(self, device: str) -> int:
        """Return how many bytes a device has sent and received."""
        return self._bytes[device]

    def close(self) -> None:
        """Stop forwarding."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

    async def _listen(self, device: str) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(device, reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, device: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(device, reader, broker_writer), self._pump(device, broker_reader, writer))

    async def _pump(self, device: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(_CHUNK):
                self._bytes[device] += len(chunk)
                sink.write(chunk)
                await sink.drain()
        except OSError:
            pass  # one side was killed: the other one is closed below, as a real network would
        finally:
            sink.close()
