"""A server that answers whatever comes with one byte after the other, without an end."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PAUSE_S = 0.01


@contextmanager
def dripping_server(begins: bytes = b"") -> Iterator[int]:
    """Serve until the block ends, and yield the port; `begins` is said at once, and is followed by the same letter."""
    over = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.sendall(begins)
                while not over.wait(_PAUSE_S):
                    self.request.sendall(b"x")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        over.set()
        server.shutdown()
        server.server_close()
