"""A server that speaks as much of S3 as `obstore` and the Delta library ask for, in memory, and fails as asked.

`orders` is asked once for each request; what it answers decides what becomes of it: `Order`. `FAILURES` are honest:
whoever asked learns that something went wrong. `LIES` are not, or say the wrong thing. Conditional puts
(`If-None-Match: *`, `If-Match`) are compared and stored under one lock, as S3 does. Signatures are not looked at.
`objects` is all that there is: a copy of it is a copy of the store.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager, suppress
from email.utils import formatdate
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

Stored = tuple[bytes, float]
"""Content, and when it came, in seconds since 1970."""


Answer = tuple[int, bytes, dict[str, str]]
Act = Callable[[bytes], Answer]


class Order(Enum):
    """What becomes of a request."""

    OBEY = auto()
    REFUSE = auto()
    """503, and nothing is done."""
    LOSE = auto()
    """It is done, and the connection is cut before the answer."""
    CUT = auto()
    """The connection is cut, and nothing is done."""
    FORGET = auto()
    """Nothing is changed, and the answer is that it is done. What changes nothing is obeyed."""
    SHORTEN = auto()
    """Half of an object is stored, or read, and the answer is that it is the whole one."""
    DENY = auto()
    """It is done, and the answer is that the request was wrong (400): nobody asks again by himself."""
    TWICE = auto()
    """It is done twice; the second answer is given."""
    OLDER = auto()
    """A listing, or an object, as it was a few changes ago. What changes something is obeyed."""


FAILURES = (Order.OBEY, Order.REFUSE, Order.LOSE, Order.CUT)
LIES = (Order.FORGET, Order.SHORTEN, Order.DENY, Order.TWICE, Order.OLDER)
_CHANGES_AGO = 6
_READS = ("GET", "HEAD")


class FailingS3:
    """The server; `endpoint` is where it listens."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.asked: list[str] = []
        self.moments: MutableSequence[dict[str, Stored]] = []
        """What was there after each change: what whoever writes leaves if he is killed then. Grows with its square."""
        self.older: deque[dict[str, Stored]] = deque(maxlen=_CHANGES_AGO)
        """What was there before each of the last changes."""
        self.orders: Callable[[str, str], Order] = lambda _method, _key: Order.OBEY
        self.lock = threading.Lock()
        self.connections: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What the usual chain of credentials reads."""
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "not a secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ENDPOINT_URL": self.endpoint,
            # No certificates are there: the Delta library reads all of the machine's for each table that it opens, 4 ms
            "SSL_CERT_DIR": str(Path(__file__).parent),
        }

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin so, bucket first."""
        with self.lock:
            return sorted(key for key in self.objects if key.startswith(prefix))

    def age(self, seconds: float) -> None:
        """Make all that is there older."""
        with self.lock:
            self.objects = {key: (content, came - seconds) for key, (content, came) in self.objects.items()}

    @contextmanager
    def running(self) -> Iterator[FailingS3]:
        """Serve while the block runs."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            for connection in self.connections.copy():  # those that whoever asks keeps for later
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that whoever asked has left, or was killed on."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _handler(store: FailingS3) -> type[BaseHTTPRequestHandler]:
    class Handler(_Request):
        held = store

    return Handler


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    held: FailingS3

    def setup(self) -> None:
        """Note the connection."""
        super().setup()
        self.held.connections.add(self.connection)

    def finish(self) -> None:
        """Forget the connection."""
        self.held.connections.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self._serve(self._list if "list-type" in self._query else self._get)

    def do_HEAD(self) -> None:
        self._serve(self._get)

    def do_PUT(self) -> None:
        self._serve(self._put_part if "partNumber" in self._query else self._put)

    def do_POST(self) -> None:
        if "uploads" in self._query:
            self._serve(self._begin_parts)
        elif "uploadId" in self._query:
            self._serve(self._join_parts)
        else:
            self._serve(self._delete_many)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query, keep_blank_values=True)

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).strip("/")

    def _serve(self, act: Act) -> None:
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        order = self.held.orders(self.command, self._key)
        with self.held.lock:
            self.held.asked.append(f"{self.command} {self._key}")
            if order not in (Order.REFUSE, Order.CUT):
                status, answer, headers = self._done(act, body, order)
        if order is Order.REFUSE:
            status, answer, headers = 503, b"<Error><Code>SlowDown</Code></Error>", {}
        elif order is Order.DENY:
            status, answer, headers = 400, b"<Error><Code>InvalidRequest</Code></Error>", {}
        elif order in (Order.LOSE, Order.CUT):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        length = headers.pop("Content-Length", str(len(answer)))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": length}.items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # who asked may have gone
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

    def _done(self, act: Act, body: bytes, order: Order) -> Answer:
        """Do what was asked, or what the order makes of it."""
        before = dict(self.held.objects)
        if self.command in _READS:
            if order is Order.OLDER and self.held.older:
                self.held.objects = self.held.older[0]
            if order is Order.SHORTEN:
                self._shorten(self._key)
            answered = act(body)
            self.held.objects = before
            return answered
        answered = act(body)
        if order is Order.TWICE:
            answered = act(body)
        if order is Order.FORGET:
            self.held.objects = before
        elif order is Order.SHORTEN and self.held.objects.get(self._key) != before.get(self._key):
            self._shorten(self._key)
        if self.held.objects != before:
            self.held.older.append(before)
            self.held.moments.append(dict(self.held.objects))
        return answered

    def _shorten(self, key: str) -> None:
        if key in self.held.objects:
            content, came = self.held.objects[key]
            self.held.objects = {**self.held.objects, key: (content[: len(content) // 2], came)}

    def _get(self, _: bytes) -> Answer:
        found = self.held.objects.get(self._key)
        if found is None:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        content, came = found
        headers = {"ETag": _tag(content), "Last-Modified": formatdate(came, usegmt=True), "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range")
        if asked is None or self.command == "HEAD":
            return 200, content, {**headers, "Content-Length": str(len(content))}
        first, _dash, last = asked.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(len(content) - int(last), 0)
        end = min(int(last) + 1, len(content)) if first and last else len(content)
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
        return 206, content[begin:end], headers

    def _put(self, body: bytes) -> Answer:
        found = self.held.objects.get(self._key)
        exists, expected = self.headers.get("If-None-Match") == "*", self.headers.get("If-Match")
        if (exists and found) or (expected and (found is None or _tag(found[0]) != expected)):
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
        self.held.objects[self._key] = (body, time.time())
        return 200, b"", {"ETag": _tag(body)}

    def _begin_parts(self, _: bytes) -> Answer:
        upload = f"u{len(self.held.parts)}"
        self.held.parts[upload] = {}
        return (
            200,
            f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode(),
            {},
        )

    def _put_part(self, body: bytes) -> Answer:
        self.held.parts[self._query["uploadId"][0]][int(self._query["partNumber"][0])] = body
        return 200, b"", {"ETag": _tag(body)}

    def _join_parts(self, _: bytes) -> Answer:
        parts = self.held.parts[self._query["uploadId"][0]]
        content = b"".join(parts[number] for number in sorted(parts))
        self.held.objects[self._key] = (content, time.time())
        said = f"<CompleteMultipartUploadResult><ETag>{escape(_tag(content))}</ETag></CompleteMultipartUploadResult>"
        return 200, said.encode(), {}

    def _delete(self, _: bytes) -> Answer:
        self.held.objects.pop(self._key, None)
        return 204, b"", {}

    def _delete_many(self, body: bytes) -> Answer:
        bucket = self._key.partition("/")[0]
        named = [str(found.text) for found in ET.fromstring(body).iter() if found.tag.endswith("Key")]
        for name in named:
            self.held.objects.pop(f"{bucket}/{name}", None)
        said = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in named)
        return 200, f"<DeleteResult>{said}</DeleteResult>".encode(), {}

    def _list(self, _: bytes) -> Answer:
        bucket, query = self._key.partition("/")[0], {name: values[0] for name, values in self._query.items()}
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("start-after", "")
        contents, folders = [], set()
        for key, (content, came) in sorted(self.held.objects.items()):
            name = key.removeprefix(f"{bucket}/")
            if name == key or not name.startswith(prefix) or name <= after:
                continue
            rest, separator, _tail = name[len(prefix) :].partition(delimiter or "\0")
            if delimiter and separator:
                folders.add(prefix + rest + delimiter)
                continue
            at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(came))
            contents.append(
                f"<Contents><Key>{escape(name)}</Key><LastModified>{at}</LastModified><ETag>{escape(_tag(content))}</ETag>"
                f"<Size>{len(content)}</Size></Contents>"
            )
        listed = "".join(contents) + "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders)
        )
        said = f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"
        return 200, said.encode(), {"Content-Type": "application/xml"}


def _tag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'
