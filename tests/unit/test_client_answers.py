"""`covey.client_connection`: an answer is read whole, however its bytes arrive, and one that is cut off is an error."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from covey.client import Client
from covey.client_calls import read_head
from covey.errors import AgentUnreachableError, LocalError

_HEAD = b"HTTP/1.1 200 OK\r\nServer: covey\r\ncontent-length: %d\r\n\r\n"
_SENT = b'{"bytes":1,"recipients":3}\n'

Serve = Callable[[list[bytes]], Client]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Answer each connection's first request with these pieces, one after the other, and end it."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(tmp_path / "api.sock"))
    listening.listen()

    def answer(pieces: list[bytes]) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                for piece in pieces:
                    connection.send(piece)

    def start(pieces: list[bytes]) -> Client:
        threading.Thread(target=answer, args=(pieces,), daemon=True).start()
        return Client(tmp_path / "api.sock")

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def _in_bytes(content: bytes) -> list[bytes]:
    return [content[place : place + 1] for place in range(len(content))]


def test_an_answer_may_come_byte_by_byte(serve: Serve) -> None:
    assert serve(_in_bytes(_HEAD % len(_SENT) + _SENT)).send(b"x") == 3


def test_an_answer_without_a_length_ends_with_its_connection(serve: Serve) -> None:
    assert serve([b"HTTP/1.1 200\r\n\r\n", _SENT[:9], _SENT[9:]]).send(b"x") == 3


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"HTTP/1.1 200 OK\r\n"],
        [_HEAD % (len(_SENT) + 1), _SENT],
        [_HEAD % (len(_SENT) - 1) + _SENT],
        [b"220 mail.example.org ESMTP\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nx: " + bytes(70_000), bytes(70_000)],
    ],
)
def test_what_is_cut_off_too_long_or_no_answer_is_an_error(serve: Serve, pieces: list[bytes]) -> None:
    with pytest.raises(AgentUnreachableError):
        serve(pieces).send(b"x")


def test_a_refusal_is_the_error_that_the_agent_names(serve: Serve) -> None:
    refusal = b'{"error":"local","message":"no such group","hint":""}'
    with pytest.raises(LocalError, match="no such group"):
        serve([b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(refusal), refusal]).send(b"x")


def test_lines_longer_than_a_piece_are_read_whole(serve: Serve) -> None:
    body = "A" * 400_000
    blob = {"id": 1, "author": "a", "name": "", "group_id": "g", "sent_at_us": 1, "received_at_us": 2, "body": body}
    line = json.dumps(blob).encode()
    whole = b"HTTP/1.1 200 OK\r\n\r\n" + line + b"\n\n" + line + b"\n"
    client = serve([whole[place : place + 50_000] for place in range(0, len(whole), 50_000)])
    assert [len(blob.body) for blob in client.inbox()] == [300_000, 300_000]


def test_a_field_that_is_not_one_line_is_refused_before_anything_is_sent(serve: Serve) -> None:
    with pytest.raises(ValueError, match="one line"):
        serve([]).send(b"x", key="a\r\nb: c")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5", (200, 5, False)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close", (200, 5, True)),
        (b"HTTP/1.1 200 OK\r\nX: y", (200, None, True)),
        (b"HTTP/1.0 503\r\nCONTENT-LENGTH:0\r\n\r\n", (503, 0, True)),
    ],
)
def test_a_head_says_where_the_answer_ends(head: bytes, expected: tuple[int, int | None, bool]) -> None:
    assert read_head(head) == expected


def test_a_large_request_is_written_whole(tmp_path: Path) -> None:
    received: list[int] = []
    path = tmp_path / "large.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()

        def take() -> None:
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as file:
                head = b"".join(iter(file.readline, b"\r\n"))
                assert b"Content-Length: 3000000\r\n" in head
                received.append(len(file.read(3_000_000)))
                connection.sendall(_HEAD % len(_SENT) + _SENT)

        taking = threading.Thread(target=take)
        taking.start()
        assert Client(path).send(bytes(3_000_000)) == 3
        taking.join()
    assert received == [3_000_000]
