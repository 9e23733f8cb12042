"""Gives files to peers of this network: HTTP, two kinds of GET, ranges (RFC 9110, section 14)."""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from covey.adapters.lan.chunks import GivenChunks, given_chunks
from covey.adapters.lan.tags import AT_RELAY, CONTENT_PATH, SALT_BYTES, SALT_PATH, is_near, tag_of
from covey.core.ids import ContentHash
from covey.errors import ConfigurationError
from covey.limits.content import LAN_CLIENTS, LAN_SECONDS, LAN_SILENCE_S
from covey.ports import GivenFile

_RANGE = re.compile(r"bytes=([0-9]{1,12})-([0-9]{1,12})?")


class LanServer:
    """Serves until closed, a thread for each connection. What is offered, `offer` says."""

    def __init__(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            ConfigurationError: that is no address of this machine's, or it is in use.
        """
        self.salt = secrets.token_bytes(SALT_BYTES)
        self._offered: Mapping[str, GivenFile] = {}
        try:
            self._server = _Server((host, port), self)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"files cannot be given at {host}:{port}: {error}", hint="covey config set content.lan_listen HOST:PORT"
            ) from error
        self._thread = threading.Thread(target=self._server.serve, name="lan", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def offer(self, files: Mapping[ContentHash, GivenFile]) -> None:
        """Give these, by their hashes, and nothing else, from now on."""
        self._offered = {tag_of(content, self.salt): each for content, each in files.items()}

    def offered(self, tag: str) -> GivenFile | None:
        """Return what a tag names; None: it names nothing that is here, or on its way."""
        return self._offered.get(tag)

    def close(self) -> None:
        """Stop listening; what is being given ends with the process."""
        self._server.stop()
        self._thread.join()
        self._server.server_close()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = LAN_CLIENTS

    def __init__(self, address: tuple[str, int], owner: LanServer) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._places = threading.BoundedSemaphore(LAN_CLIENTS)
        self._stopped = False
        super().__init__(address, lambda request, client, server: _Conversation(request, client, server, owner))

    def serve(self) -> None:
        """Serve until stopped."""
        while not self._stopped:
            self.handle_request()

    def stop(self) -> None:
        """Let `serve` return."""
        self._stopped = True
        self.socket.shutdown(socket.SHUT_RDWR)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - the base class's
        return is_near(str(client_address[0]))

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread more, as the service's TasksMax or the user's limit has it
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a peer that went away, or asked what is no request."""


class _Conversation(BaseHTTPRequestHandler):
    """One connection. A request that is none of the two is answered by its status alone."""

    protocol_version = "HTTP/1.1"
    server_version = "covey"
    sys_version = ""
    timeout = LAN_SILENCE_S

    def __init__(self, request: Any, client_address: Any, server: Any, owner: LanServer) -> None:
        self._owner = owner
        self._ends = time.monotonic() + LAN_SECONDS
        super().__init__(request, client_address, server)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing: strangers ask what they like."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the base class could not read."""
        del message, explain
        self.close_connection = True
        self._answer(HTTPStatus(code), 0)

    def do_GET(self) -> None:
        """Give the salt, or a part of what a tag names."""
        if time.monotonic() >= self._ends:
            self.close_connection = True
        elif self.path == SALT_PATH:
            self._answer(HTTPStatus.OK, len(self._owner.salt))
            self.wfile.write(self._owner.salt)
        elif (given := self._given()) is None:
            self._answer(HTTPStatus.NOT_FOUND, 0)
        else:
            self._give(given)

    def _given(self) -> GivenFile | None:
        if not self.path.startswith(CONTENT_PATH):
            return None
        return self._owner.offered(self.path.removeprefix(CONTENT_PATH))

    def _give(self, given: GivenFile) -> None:
        """Give what is asked for, as far as it is here; 202 where nothing of it is yet."""
        size = given.size
        asked = _RANGE.fullmatch(self.headers.get("Range", "bytes=0-"))
        first, last = (int(asked[1]), int(asked[2] or size - 1)) if asked else (size, 0)
        last = min(last, size - 1)
        if first > last:
            self._answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, {"Content-Range": f"bytes */{size}"})
            return
        with given_chunks(given) as chunks:
            verified = first if chunks is None else chunks.verified_to(first)
            if chunks is not None and verified > first:
                self._send(chunks, first, verified, min(last + 1, size if chunks.is_whole else verified), size)
            elif chunks is not None and chunks.is_whole:
                self._answer(HTTPStatus.NOT_FOUND, 0)  # it is damaged
            else:
                self._answer(HTTPStatus.ACCEPTED, 0, {} if given.looked_for else {AT_RELAY: "1"})

    def _send(self, chunks: GivenChunks, first: int, verified: int, end: int, size: int) -> None:
        """Give the bytes from `first` to `end`, those to `verified` as they are; fewer where one is damaged."""
        self._answer(HTTPStatus.PARTIAL_CONTENT, end - first, {"Content-Range": f"bytes {first}-{end - 1}/{size}"})
        while first < end and verified > first and time.monotonic() < self._ends:
            sent = self.connection.sendfile(chunks.file, first, min(end, verified) - first)
            if not sent:
                break
            first += sent
            if first >= verified:
                verified = chunks.verified_to(first)
        self.close_connection = self.close_connection or first < end

    def _answer(self, status: HTTPStatus, size: int, fields: Mapping[str, str] | None = None) -> None:
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(size))
            for name, value in (fields or {}).items():
                self.send_header(name, value)
            self.end_headers()
