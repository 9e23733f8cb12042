"""Every listener of the agent: neither slow clients nor guessers keep a client out that has proved itself."""

from __future__ import annotations

import base64
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from covey.adapters.http.places import Bounds
from covey.adapters.lan.server import LanServer
from covey.adapters.lan.tags import CONTENT_PATH, tag_of
from covey.adapters.local_api.routes import Route
from covey.adapters.local_api.server import LocalApi
from covey.adapters.page_server import Listen, PageServer
from covey.core.crypto import blake3_hash
from covey.core.ids import ContentHash
from covey.ports import GivenFile
from tests.integration.certificates import make_certificate
from tests.waiting import GUARD_S

HOST = "127.0.0.1"
PASSWORD = "a long enough password"
SLOW, GUESSERS = 40, 20


@dataclass
class Served:
    """A listener, how one connects to it, what a known client asks, and what a guesser does."""

    connect: Callable[[], socket.socket]
    known: bytes
    guess: bytes
    right: bytes = b""
    """What lets a stranger in."""

    def answer(self, request: bytes) -> bytes:
        """Return the status line of the answer to a request on a connection of its own."""
        with self.connect() as connection:
            connection.sendall(request)
            with connection.makefile("rb") as answer:
                return answer.readline()

    def is_available(self) -> bool:
        """Say whether a known client is answered."""
        return self.answer(self.known).split()[1:2] in ([b"200"], [b"206"])


def _request(path: str, *fields: str, host: str = "covey") -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()


def _basic(password: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"me:{password}".encode()).decode()


def _local_api(folder: Path, held: ExitStack) -> Served:
    path = folder / "api.sock"
    held.callback(
        LocalApi(path, "", (Route("GET", re.compile("/x"), 0, lambda _: {"ok": True}),), lambda *_: None).close
    )

    def connect() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(GUARD_S)
        connection.connect(str(path))
        return connection

    return Served(connect, _request("/x"), _request("/guess"))


def _lan(folder: Path, held: ExitStack) -> Served:
    content, index = b"content", folder / "index"
    (folder / "file").write_bytes(content)
    index.write_bytes(blake3_hash(content))
    server = LanServer(HOST, 0)
    held.callback(server.close)
    file, hash_of = folder / "file", ContentHash(blake3_hash(content))
    index_hash = ContentHash(blake3_hash(index.read_bytes()))
    server.offer({hash_of: GivenFile(file, file, len(content), index, index_hash, hash_of)})
    known, guess = (f"{CONTENT_PATH}{tag_of(each, server.salt)}" for each in (hash_of, bytes(32)))
    return Served(lambda: socket.create_connection((HOST, server.port), GUARD_S), _request(known), _request(guess))


def _pages(folder: Path) -> Path:
    (folder / "index.html").write_text("<!doctype html>")
    return folder


def _page(folder: Path, held: ExitStack) -> Served:
    page = PageServer(Listen(HOST, 0), _pages(folder), {}, {}, {}, lambda _: None)
    held.callback(page.close)

    def connect() -> socket.socket:
        return socket.create_connection((HOST, page.port), GUARD_S)

    host = urlsplit(page.url).netloc
    link = urlsplit(page.link)
    cookie = _entered(connect, _request(f"/?{link.query}", host=host))
    return Served(connect, _request("/", f"Cookie: {cookie}", host=host), _request("/?key=guess", host=host))


def _page_for_others(folder: Path, held: ExitStack) -> Served:
    certificate, key = make_certificate(folder / "authority", -1, 1)
    page = PageServer(Listen(HOST, 0, certificate, key, PASSWORD), _pages(folder), {}, {}, {}, lambda _: None)
    held.callback(page.close)
    context = ssl.create_default_context(cafile=str(certificate))

    def connect() -> socket.socket:
        return context.wrap_socket(socket.create_connection((HOST, page.port), GUARD_S), server_hostname=HOST)

    right = _request("/", _basic(PASSWORD))
    known = _request("/", f"Cookie: {_entered(connect, right)}")
    return Served(connect, known, _request("/", _basic("a wrong password")), right)


def _entered(connect: Callable[[], socket.socket], request: bytes) -> str:
    """Sign in; return the cookie."""
    with connect() as connection:
        connection.sendall(request)
        answer = connection.recv(65_536).decode()
    return answer.partition("Set-Cookie: ")[2].partition(";")[0]


LISTENERS = {"local API": _local_api, "LAN": _lan, "page": _page, "page for others": _page_for_others}


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.processes if name == "page for others" else ()) for name in LISTENERS]
)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as held:
        yield LISTENERS[request.param](tmp_path, held)


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_forty_slow_connections_keep_nobody_out(served: Served, begun: bytes) -> None:
    with ExitStack() as slow:
        for _ in range(SLOW):
            slow.enter_context(served.connect()).sendall(begun)
        for _ in range(5):
            assert served.is_available()


def test_forty_silent_sockets_keep_nobody_out(served: Served) -> None:
    """Where TLS is spoken, the handshake never comes."""
    with ExitStack() as slow, served.connect() as first:
        for _ in range(SLOW):
            silent = slow.enter_context(socket.socket(first.family, socket.SOCK_STREAM))
            silent.connect(first.getpeername())
        assert served.is_available()


@pytest.mark.parametrize("guessers", [GUESSERS, 2 * GUESSERS])
def test_guessers_delay_no_client_that_is_signed_in(
    served: Served, guessers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.adapters.page_server._WRONG_S", 10 * GUARD_S)  # none of them is answered meanwhile
    with ExitStack() as guessing:
        for _ in range(guessers):
            guessing.enter_context(served.connect()).sendall(served.guess)
        for _ in range(5):
            assert served.is_available()
        if served.right:
            assert served.answer(served.right).split()[1] == b"303", "a right password is not delayed either"


def test_known_clients_that_keep_their_connections_leave_places_for_others(served: Served) -> None:
    with ExitStack() as kept:
        for _ in range(Bounds().known + 8):
            connection = kept.enter_context(served.connect())
            connection.sendall(served.known)
            assert connection.recv(12).startswith(b"HTTP/1.1 20")
        assert served.is_available()
