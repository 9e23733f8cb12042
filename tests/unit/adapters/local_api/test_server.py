"""What clients can take of the local API: hostile ones end, and leave room to everybody else."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from covey.adapters.http.places import Bounds, ConnectedClient, Phase, Places
from covey.adapters.local_api.routes import Request, Route
from covey.adapters.local_api.server import LocalApi
from tests.waiting import GUARD_S, take, wait_until

BODY_BYTES = 100_000
BOUNDS = Bounds(strangers=4, known=4, streams=2, own_bytes=1_000, shared_bytes=150_000)


def _endless(_: Request) -> Iterator[dict[str, Any] | None]:
    while True:
        yield {"more": True}


ROUTES = (
    Route("POST", re.compile("/size"), BODY_BYTES, lambda request: {"bytes": len(request.body)}),
    Route("GET", re.compile("/stream"), 0, _endless),
)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Give a function that lets a server of these bounds listen."""
    servers = []

    def start(bounds: Bounds = BOUNDS, routes: tuple[Route, ...] = ROUTES) -> Path:
        path = tmp_path / "api.sock"
        servers.append(LocalApi(path, "", routes, lambda *_: None, bounds))
        return path

    yield start
    for server in servers:
        server.close()


def _visit(path: Path, raw: bytes = b"") -> socket.socket:
    visitor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    visitor.settimeout(GUARD_S)
    visitor.connect(str(path))
    visitor.sendall(raw)
    return visitor


def _answer(visitor: socket.socket) -> tuple[int, Any]:
    """Return status and document of an answer that comes at once, whole."""
    with visitor.makefile("rb") as answer:
        status = int(answer.readline().split()[1])
        length = 0
        while field := answer.readline().strip():
            name, _, value = field.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return status, json.loads(answer.read(length))


def _ended(visitor: socket.socket) -> bool:
    try:
        return visitor.recv(1) == b""
    except ConnectionResetError:
        return True


def _request(size: int, *fields: str) -> bytes:
    lines = ["POST /size HTTP/1.1", "Host: covey", f"Content-Length: {size}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()


def _is_served(path: Path) -> bool:
    with _visit(path, _request(3) + b"abc") as visitor:
        return _answer(visitor) == (200, {"bytes": 3})


@pytest.mark.parametrize(
    "fields",
    [
        ["Content-Length: 4"],
        ["Content-Length: 3"],
        ["Transfer-Encoding: chunked"],
        ["Transfer-Encoding: identity"],
        ["transfer-encoding: gzip, chunked"],
        ["Transfer-Encoding : chunked"],
        ["\x0bTransfer-Encoding: chunked"],
    ],
)
def test_a_length_that_two_readers_understand_differently_is_refused(
    serve: Callable[..., Path], fields: list[str]
) -> None:
    path = serve()
    with _visit(path, _request(3, *fields) + b"abc") as visitor:
        assert _answer(visitor)[0] == 400
        assert _ended(visitor)
    assert _is_served(path)


@pytest.mark.parametrize("length", ["+3", "3 3", "0x3", "3,3", "", "٣", "9" * 13])
def test_a_length_that_is_no_number_is_refused(serve: Callable[..., Path], length: str) -> None:
    with _visit(serve(), f"POST /size HTTP/1.1\r\nContent-Length: {length}\r\n\r\nabc".encode()) as visitor:
        assert _answer(visitor)[0] == 400


@pytest.mark.parametrize("begun", [b"", b"POST /si", _request(3), _request(3) + b"a"])
def test_a_newcomer_takes_the_place_of_the_slowest_connection(
    serve: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    awaited: SimpleQueue[Phase] = SimpleQueue()
    enter = Places.enter

    def noted(places: Places, client: ConnectedClient, phase: Phase) -> bool:
        entered = enter(places, client, phase)
        awaited.put(phase)
        return entered

    path, dawdling = serve(), []
    with monkeypatch.context() as noting:
        noting.setattr(Places, "enter", noted)
        for _ in range(BOUNDS.strangers):
            dawdling.append(_visit(path, begun))
            take(awaited, "its request is awaited")  # or a later one's might be before it
    for _ in range(2 * BOUNDS.strangers):
        wait_until(lambda: _is_served(path), "who was answered before has gone")
    dawdling[0].setblocking(False)  # by now: a connection that says nothing would end by itself at last
    assert _ended(dawdling[0])
    for visitor in dawdling:
        visitor.close()


def test_a_request_is_whole_in_time_however_steadily_it_drips(serve: Callable[..., Path]) -> None:
    with _visit(serve(Bounds(request_s=0.2)), _request(BODY_BYTES)) as visitor:

        def is_refused() -> bool:
            visitor.settimeout(0.01)
            try:
                visitor.sendall(b"x")
                return visitor.recv(1, socket.MSG_PEEK) != b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(is_refused, "the server has had enough")


def test_bodies_are_bounded_over_all_clients_and_small_ones_go_on(serve: Callable[..., Path]) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold(request: Request) -> dict[str, Any]:
        held.set()
        go_on.wait(GUARD_S)
        return {"bytes": len(request.body)}

    path = serve(routes=(*ROUTES, Route("POST", re.compile("/hold"), BODY_BYTES, hold)))
    holding = _visit(path, _request(BODY_BYTES).replace(b"/size", b"/hold") + bytes(BODY_BYTES))
    assert held.wait(GUARD_S)
    with _visit(path, _request(BODY_BYTES) + bytes(BODY_BYTES)) as visitor:
        assert _answer(visitor)[0] == 503
    assert _is_served(path)  # within each client's own bytes
    go_on.set()
    assert _answer(holding) == (200, {"bytes": BODY_BYTES})
    holding.close()
    wait_until(lambda: _is_taken(path), "what the first body took is free again")


def _is_taken(path: Path) -> bool:
    with _visit(path, _request(BODY_BYTES) + bytes(BODY_BYTES)) as visitor:
        return _answer(visitor) == (200, {"bytes": BODY_BYTES})


def test_streams_leave_places_for_others(serve: Callable[..., Path]) -> None:
    path = serve()
    streams = [_visit(path, b"GET /stream HTTP/1.1\r\n\r\n") for _ in range(BOUNDS.streams)]
    for stream in streams:
        assert stream.recv(15) == b"HTTP/1.1 200 OK"
    with _visit(path, b"GET /stream HTTP/1.1\r\n\r\n") as visitor:
        assert _answer(visitor)[0] == 503
    assert _is_served(path)
    for stream in streams:
        stream.close()
