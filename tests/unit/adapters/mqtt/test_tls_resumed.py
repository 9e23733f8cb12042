"""A connection resumes the TLS session of the last one with the same settings, and checks certificates otherwise."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.mqtt.tls import tls_context
from tests.integration.certificates import make_certificate


class Server:
    """A TLS server that sends each client a byte and waits for its end."""

    def __init__(self, chain: Path, key: Path) -> None:
        self.chain = chain
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(chain, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
                with self._context.wrap_socket(plain, server_side=True) as client:
                    client.sendall(b"!")
                    client.recv(1)
            except ssl.SSLError:
                continue
            except OSError:
                return

    def visit(self, context: ssl.SSLContext) -> bool:
        """Connect, read the byte, and return whether a session was resumed."""
        plain = socket.create_connection(self._listener.getsockname())
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connected:
            assert connected.recv(1) == b"!"
            return bool(connected.session_reused)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


pytestmark = pytest.mark.processes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(*make_certificate(tmp_path / "server", -1, 1))
    yield found
    found.close()


def test_a_later_connection_resumes_the_session(server: Server) -> None:
    context = tls_context(server.chain)
    assert [server.visit(context) for _ in range(3)] == [False, True, True]


def test_a_handshake_that_fails_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        plain = socket.create_connection(silent.getsockname(), timeout=0.05)
        with pytest.raises(TimeoutError):
            tls_context(None).wrap_socket(plain, server_hostname="127.0.0.1")


def test_other_settings_resume_nothing(server: Server) -> None:
    context = tls_context(server.chain)
    server.visit(context)
    assert not server.visit(tls_context(server.chain))


def test_a_server_that_does_not_know_the_session_is_checked_in_full(server: Server, tmp_path: Path) -> None:
    context = tls_context(server.chain)
    server.visit(context)
    stranger = Server(*make_certificate(tmp_path / "stranger", -1, 1))
    try:
        with pytest.raises(ssl.SSLCertVerificationError):
            stranger.visit(context)
    finally:
        stranger.close()
    assert not server.visit(context)
