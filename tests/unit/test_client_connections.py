"""`covey.client`: connections are kept for the next requests, and no request is lost with one that has ended."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from covey.client import Client
from covey.errors import LocalError


class _Agent:
    """What answers on a socket; it counts connections and requests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connections = self.requests = 0
        self.lock = threading.Lock()
        self.open: list[socket.socket] = []
        agent = self

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with agent.lock:
                    agent.connections += 1
                    agent.open.append(self.connection)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with agent.lock:
                    agent.requests += 1
                refused = body == b"refuse"
                answer = b'{"error":"local","message":"no","hint":""}' if refused else b'{"bytes":1,"recipients":1}'
                self.send_response(400 if refused else 200)
                self.send_header("Content-Length", str(len(answer)))
                if refused:
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.server = Server(str(path), Answer)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def end_connections(self) -> None:
        """Close what is open, as an agent that restarts does."""
        for each in self.open:
            with suppress(OSError):  # it has ended
                each.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def close(self) -> None:
        """Stop."""
        self.end_connections()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[_Agent]:
    made = _Agent(tmp_path / "api.sock")
    yield made
    made.close()


@pytest.fixture
def client(agent: _Agent) -> Iterator[Client]:
    made = Client(agent.path)
    yield made
    made.close()


def test_requests_share_a_connection(agent: _Agent, client: Client) -> None:
    assert [client.send(b"x") for _ in range(20)] == [1] * 20
    assert (agent.connections, agent.requests) == (1, 20)


def test_threads_have_connections_of_their_own(agent: _Agent, client: Client) -> None:
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: client.send(b"x"), range(200))) == [1] * 200
    assert agent.connections <= 4
    assert agent.requests == 200


def test_a_connection_that_the_agent_has_ended_is_not_used_again(agent: _Agent, client: Client) -> None:
    for _ in range(5):
        assert client.send(b"x") == 1
        agent.end_connections()
    assert (agent.connections, agent.requests) == (5, 5)


def test_a_connection_that_the_agent_may_end_now_is_not_used_again(
    agent: _Agent, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.send(b"x")
    monkeypatch.setattr("covey.client_connection._IDLE_S", 0.0)
    client.send(b"x")
    assert agent.connections == 2


def test_a_refusal_ends_its_connection_alone(agent: _Agent, client: Client) -> None:
    with pytest.raises(LocalError):
        client.send(b"refuse")
    assert client.send(b"x") == 1
    assert agent.connections == 2


def test_a_child_does_not_speak_on_its_parents_connection(
    agent: _Agent, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.send(b"x")
    monkeypatch.setattr("covey.client.os.getpid", lambda: -1)  # as after a fork
    client.send(b"x")
    assert agent.connections == 2
