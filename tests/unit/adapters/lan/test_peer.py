"""Files from peer to peer on one network: what is given to whom, and what hostile peers of either side can do."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from covey.adapters.http.places import Bounds
from covey.adapters.lan.peer import LanPeer
from covey.adapters.lan.server import LanServer
from covey.adapters.lan.tags import CONTENT_PATH, SALT_PATH, is_near, tag_of
from covey.core.crypto import blake3_hash
from covey.core.ids import ContentHash
from covey.errors import ConfigurationError, PeerError
from covey.limits.content import CHUNK_BYTES, LAN_CLIENTS
from covey.ports import GivenFile
from tests.waiting import GUARD_S

HOST = "127.0.0.1"
OWN = b"\xff" * 16
"""A salt that waits for all others."""
CONTENT = random.Random(1).randbytes(3 * CHUNK_BYTES + 5)
HASH = ContentHash(blake3_hash(CONTENT))
INDEX = b"".join(blake3_hash(CONTENT[at : at + CHUNK_BYTES]) for at in range(0, len(CONTENT), CHUNK_BYTES))
INDEX_HASH = ContentHash(blake3_hash(INDEX))


def _given(path: Path, part: Path, *, looked_for: bool = False) -> GivenFile:
    """Return a file with its index beside it."""
    index = path.with_name("index")
    index.write_bytes(INDEX)
    return GivenFile(path, part, len(CONTENT), index, INDEX_HASH, HASH, looked_for)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LanServer]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    opened = LanServer(HOST, 0)
    opened.offer({HASH: _given(path, path)})
    yield opened
    opened.close()


def _read(peer: LanPeer, content: bytes, position: int, end: int) -> bytes | None:
    pieces = peer.read(content, position, end)
    return None if pieces is None else b"".join(map(bytes, pieces))


# accepts: 003.71, 003.72
def test_a_peer_gives_any_range_of_what_it_has_to_who_knows_the_hash(server: LanServer) -> None:
    with closing(LanPeer(HOST, server.port, OWN)) as peer:
        for position, end in ((0, len(CONTENT)), (CHUNK_BYTES, 2 * CHUNK_BYTES), (len(CONTENT) - 1, len(CONTENT))):
            assert _read(peer, HASH, position, end) == CONTENT[position:end]
        assert _read(peer, bytes(32), 0, 10) is None
        with pytest.raises(PeerError):
            _read(peer, HASH, 0, len(CONTENT) + 1)
        assert _read(peer, HASH, 5, 9) == CONTENT[5:9], "it is asked again after that"


def test_a_withdrawn_file_is_not_served(server: LanServer) -> None:
    with closing(LanPeer(HOST, server.port, OWN)) as peer:
        assert _read(peer, HASH, 0, 1) == CONTENT[:1]
        server.offer({})
        assert _read(peer, HASH, 0, 1) is None


def _asked(server: LanServer, request: bytes) -> bytes:
    with socket.create_connection((HOST, server.port), GUARD_S) as visitor:
        visitor.sendall(request)
        visitor.shutdown(socket.SHUT_WR)
        answer = b""
        while more := visitor.recv(65_536):
            answer += more
        return answer


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1",
        b"GET /covey/1/content/ HTTP/1.1",
        b"GET /covey/1/content/" + HASH.hex().encode() + b" HTTP/1.1",  # the hash itself is no tag
        b"GET /covey/1/content/../../etc/passwd HTTP/1.1",
        b"POST /covey/1/salt HTTP/1.1",
        b"GET http://elsewhere/covey/1/salt HTTP/1.1",
        b"\x00\xff nonsense",
    ],
)
def test_a_client_without_a_hash_receives_only_a_status(server: LanServer, request_line: bytes) -> None:
    answer = _asked(server, request_line + b"\r\nHost: x\r\n\r\n")
    assert CONTENT[:64] not in answer
    assert answer.split(b"\r\n\r\n", 1)[-1] == b"" or answer.startswith(b"HTTP/1.1 4") or not answer


@pytest.mark.parametrize("asked", [b"bytes=9-3", b"bytes=-5", b"bytes=0-1,4-5", b"lines=1-2", b"bytes=99999999-"])
def test_a_range_that_is_none_of_the_file_is_refused(server: LanServer, asked: bytes) -> None:
    path = f"{CONTENT_PATH}{tag_of(HASH, server.salt)}".encode()
    answer = _asked(server, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nRange: " + asked + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 416")


def test_a_tag_is_good_for_one_peer_alone(server: LanServer, tmp_path: Path) -> None:
    """Who listens on the network learns no hash, and can ask nobody else for the file."""
    with closing(LanServer(HOST, 0)) as other:
        other.offer({HASH: _given(tmp_path / "file", tmp_path / "file")})
        assert other.offered(tag_of(HASH, other.salt)) is not None
        assert other.offered(tag_of(HASH, server.salt)) is None


def test_a_peer_that_fetches_a_file_gives_what_has_come_to_who_waits_for_it(server: LanServer, tmp_path: Path) -> None:
    part, whole = tmp_path / "part", tmp_path / "whole"
    server.offer({HASH: _given(whole, part, looked_for=True)})
    with closing(LanPeer(HOST, server.port, bytes(16))) as first:
        assert first.read(HASH, 0, len(CONTENT)) is None, "it asks elsewhere"
        server.offer({HASH: _given(whole, part)})
        assert first.read(HASH, 0, len(CONTENT)) is not None, "it waits for who asks at a relay"
    with closing(LanPeer(HOST, server.port, OWN)) as second:
        pieces = second.read(HASH, 0, len(CONTENT))
        assert pieces is not None
        part.write_bytes(CONTENT[: CHUNK_BYTES + 9])
        come = b""
        while len(come) < CHUNK_BYTES:
            come += next(pieces)
        assert come == CONTENT[:CHUNK_BYTES], "what is torn is not given"
        part.write_bytes(CONTENT)
        part.rename(whole)
        assert come + b"".join(map(bytes, pieces)) == CONTENT


@pytest.mark.parametrize("damaged", [0, CHUNK_BYTES, 2 * CHUNK_BYTES + 7])
# accepts: 003.72
def test_a_damaged_chunk_is_not_served(server: LanServer, tmp_path: Path, damaged: int) -> None:
    """A chunk is compared with the index before it is given, and the file's keeper hears of the damage."""
    noticed: list[ContentHash] = []
    server.damaged = noticed.append
    path = tmp_path / "file"
    with path.open("r+b") as file:
        file.seek(damaged)
        file.write(bytes([CONTENT[damaged] ^ 1]))
    come = b""
    with closing(LanPeer(HOST, server.port, OWN)) as peer:
        try:
            for piece in peer.read(HASH, 0, len(CONTENT)) or []:
                come += piece
        except PeerError:
            assert damaged, "it says at once that it does not have it"
        assert CONTENT.startswith(come)
        assert len(come) <= damaged
        assert _read(peer, HASH, damaged, len(CONTENT)) is None, "it says so where it is asked for that"
    assert {*noticed} == {HASH}
    (tmp_path / "index").write_bytes(INDEX[:-1] + b"\0")
    with closing(LanPeer(HOST, server.port, bytes(16))) as peer:
        assert peer.read(HASH, 0, 1) is None, "nothing is given that cannot be compared"


def test_an_index_is_given_and_the_file_after_it_by_one_connection(server: LanServer, tmp_path: Path) -> None:
    """Whoever has the last byte of an answer asks on at once."""
    given = _given(tmp_path / "file", tmp_path / "file")
    index = tmp_path / "index"
    server.offer({HASH: given, INDEX_HASH: GivenFile(index, index, len(INDEX), None, INDEX_HASH, HASH)})
    with closing(LanPeer(HOST, server.port, OWN)) as peer:
        pieces = peer.read(INDEX_HASH, 0, len(INDEX))
        assert pieces is not None
        assert next(pieces) == INDEX
        assert _read(peer, HASH, 0, len(CONTENT)) == CONTENT


def test_an_idle_client_gives_its_place_to_a_new_one(server: LanServer) -> None:
    held = [socket.create_connection((HOST, server.port), GUARD_S) for _ in range(LAN_CLIENTS)]
    try:
        for each in held:
            each.sendall(f"GET {SALT_PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert each.recv(1) == b"H"
        with closing(LanPeer(HOST, server.port, OWN)) as peer:
            assert _read(peer, HASH, 0, 1) == CONTENT[:1]
    finally:
        for each in held:
            each.close()


def test_a_connection_for_which_no_thread_begins_costs_no_place(
    server: LanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a service has no task left."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        for _ in range(LAN_CLIENTS + 1):
            with closing(LanPeer(HOST, server.port, OWN)) as peer, pytest.raises(PeerError):
                peer.read(HASH, 0, 1)
    with closing(LanPeer(HOST, server.port, OWN)) as peer:
        assert _read(peer, HASH, 0, 1) == CONTENT[:1]


def test_the_lan_server_answers_private_networks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.adapters.lan.server.is_near", lambda _address: False)
    with (
        closing(LanServer(HOST, 0)) as server,
        closing(LanPeer(HOST, server.port, OWN)) as peer,
        pytest.raises(PeerError),
    ):
        peer.read(HASH, 0, 1)


def test_a_connection_is_served_for_so_long_and_a_silent_one_ends(
    server: LanServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(LanServer(HOST, 0, Bounds(silence_s=0.05))) as brief,
        socket.create_connection((HOST, brief.port), GUARD_S) as silent,
    ):
        assert silent.recv(1) == b""
    monkeypatch.setattr("covey.adapters.lan.server.LAN_SECONDS", 0.0)
    assert _asked(server, f"GET {SALT_PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) == b""


def test_an_address_that_is_none_is_said_so() -> None:
    with pytest.raises(ConfigurationError, match=r"content\.lan_listen|cannot listen"):
        LanServer("192.0.2.1", 1)


@pytest.mark.parametrize(
    ("address", "near"),
    [
        *((each, True) for each in ("127.0.0.1", "10.1.2.3", "192.168.7.9", "169.254.1.1", "::1", "fe80::1%eth0")),
        *((each, False) for each in ("8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "0.0.0.0", "nonsense", "")),
        ("::ffff:192.168.1.1", True),
    ],
)
def test_only_private_networks_are_answered(address: str, near: bool) -> None:
    assert is_near(address) is near


_SALT_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + bytes(16)


@pytest.fixture
def lying() -> Iterator[Callable[[bytes], int]]:
    """Give a function that starts a peer which answers as told, and returns its port."""
    opened: list[socket.socket] = []

    def start(answer: bytes) -> int:
        listener = socket.create_server((HOST, 0))
        opened.append(listener)

        def serve() -> None:
            try:
                client, _ = listener.accept()
                with client:
                    client.recv(65_536)
                    client.sendall(_SALT_ANSWER)
                    client.recv(65_536)
                    client.sendall(answer)
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + bytes(10),
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 9\r\n\r\n" + bytes(9),
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 99999999999\r\n\r\n" + bytes(100),
        b"HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + bytes(100),
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 206 " + b"x" * 100_000,
        b"HTTP/1.1 206 OK\r\n" + b"a: b\r\n" * 1_000 + b"\r\n",
    ],
)
def test_a_hostile_peer_causes_an_error_and_sends_at_most_what_was_requested(
    lying: Callable[[bytes], int], answer: bytes
) -> None:
    with closing(LanPeer(HOST, lying(answer), OWN)) as peer, pytest.raises(PeerError):
        b"".join(peer.read(HASH, 0, 10) or [])


def test_a_peer_that_gives_a_byte_at_a_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow bytes: a chunk in so long, or the next place has its turn."""
    monkeypatch.setattr("covey.adapters.lan.peer.LAN_SILENCE_S", 0.2)
    stopped = threading.Event()

    def drip(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.recv(65_536)
            client.sendall(_SALT_ANSWER)
            client.recv(65_536)
            client.sendall(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 100000\r\n\r\n")
            while not stopped.wait(0.02):
                client.sendall(b"x")

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        with (
            closing(LanPeer(HOST, listener.getsockname()[1], OWN)) as peer,
            pytest.raises(PeerError, match="too slowly"),
        ):
            b"".join(peer.read(HASH, 0, 100_000) or [])
        stopped.set()
        thread.join(GUARD_S)


def test_a_peer_that_gives_more_than_it_was_asked_for_is_read_no_further(lying: Callable[[bytes], int]) -> None:
    answer = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\r\n" + b"0123456789" + bytes(100_000)
    with closing(LanPeer(HOST, lying(answer), OWN)) as peer:
        assert _read(peer, HASH, 0, 10) == b"0123456789"
