"""A web server that takes batches, refuses them, or takes them and does not say so."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Post:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(slots=True)
class Receiver:
    """What came, and what is answered: `answers` first, one for each request, then 200; 0 hangs up instead."""

    port: int = 0
    posts: list[Post] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    poison: bytes = b""
    """What in a body is answered with 400."""
    headers: dict[str, str] = field(default_factory=dict)
    says: bytes = b"ok"
    connections: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/in"

    def messages(self) -> list[dict[str, Any]]:
        """Return all messages that came, each id once, in the order of the first time."""
        found: dict[str, dict[str, Any]] = {}
        for post in self.posts:
            for each in post.document["messages"]:
                found.setdefault(each["id"], each)
        return list(found.values())

    def answer(self, post: Post) -> int:
        """Note a request and say how it is answered."""
        self.posts.append(post)
        if self.poison and self.poison in post.body:
            return 400
        return self.answers.pop(0) if self.answers else 200


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Serve until the block ends."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            found.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = found.answer(Post(self.path, {key.lower(): text for key, text in self.headers.items()}, body))
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            for key, text in found.headers.items():
                self.send_header(key, text)
            self.send_header("Content-Length", str(len(found.says)))
            self.end_headers()
            self.wfile.write(found.says)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
