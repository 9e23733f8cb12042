"""Alerts at a real web server, a real mail server, and a real program: what they get, and what is said of failures."""

from __future__ import annotations

import base64
import json
import socket
import socketserver
import ssl
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from covey.adapters.alert_targets import AlertTarget, alert_targets
from covey.config.schema import AlertsConfig
from covey.core.alerts import AlertMessage
from covey.errors import AlertTargetError, ConfigurationError
from tests.dripping_server import dripping_server

_MESSAGE = AlertMessage(
    "65f-1", "silent", ended=False, title="Covey: 1 device: silent", text="büro is silent since 04:12", at_us=10**15
)


class _Web(BaseHTTPRequestHandler):
    answer = 200
    got: ClassVar[list[tuple[str, dict[str, str], str]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.got.append((self.path, dict(self.headers), body))
        self.send_response(self.answer)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Mail(socketserver.StreamRequestHandler):
    """As much of RFC 5321 as a client that only sends needs."""

    got: ClassVar[list[str]] = []
    refuses = False

    def handle(self) -> None:
        self._say("220 mail.example.org")
        for line in self.rfile:
            word = line.decode().split()[0].upper()
            if word == "DATA":
                self._say("354 go on")
                self.got.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                self._say("250 kept")
            elif word == "QUIT":
                self._say("221 bye")
                return
            elif word == "MAIL" and self.refuses:
                self._say("451 later, and a secret")
            else:
                self._say("250 fine")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


def _served(server: socketserver.TCPServer) -> Iterator[int]:
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def web() -> Iterator[int]:
    _Web.got.clear()
    yield from _served(ThreadingHTTPServer(("127.0.0.1", 0), _Web))


@pytest.fixture
def mail() -> Iterator[int]:
    _Mail.got.clear()
    yield from _served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mail))


def _target(folder: Path, **settings: Any) -> AlertTarget:
    (found,) = alert_targets(AlertsConfig(**settings), folder).values()
    return found


def _program(folder: Path, text: str) -> str:
    path = folder / "page-me"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return str(path)


def test_a_webhook_gets_the_text_with_an_id_and_its_token(web: int, tmp_path: Path) -> None:
    token = tmp_path / "webhook.token"
    token.write_text("tk_123\n")
    token.chmod(0o600)
    url = f"http://127.0.0.1:{web}/my-fleet?x=1"
    _target(tmp_path, webhook=url, webhook_token_file="webhook.token")(_MESSAGE)
    _target(tmp_path, webhook=url, webhook_json=True)(_MESSAGE)
    (path, text_headers, text), (_, headers, document) = _Web.got
    assert (path, text) == ("/my-fleet?x=1", _MESSAGE.text)
    assert (text_headers["Title"], text_headers["Idempotency-Key"]) == (_MESSAGE.title, "65f-1")
    assert text_headers["Authorization"] == "Bearer tk_123"
    assert "Authorization" not in headers
    assert json.loads(document)["text"] == _MESSAGE.text


@pytest.mark.parametrize("answer", [302, 404, 500])
def test_a_webhook_that_answers_otherwise_has_not_taken_it(
    web: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    monkeypatch.setattr(_Web, "answer", answer)
    with pytest.raises(AlertTargetError, match=f"the webhook answered with HTTP status {answer}"):
        _target(tmp_path, webhook=f"http://127.0.0.1:{web}/")(_MESSAGE)
    assert len(_Web.got) == 1, "no redirection is followed"


def test_mail_is_sent_to_all_with_an_id_that_stays(mail: int, tmp_path: Path) -> None:
    target = _target(tmp_path, mail_to=("ops@example.org", "night@example.org"), mail_server=f"smtp://127.0.0.1:{mail}")
    target(_MESSAGE)
    (text,) = _Mail.got
    assert "To: ops@example.org, night@example.org\r\n" in text
    assert "Subject: Covey: 1 device: silent\r\n" in text
    assert "Message-ID: <65f-1@covey.invalid>\r\n" in text


def test_a_mail_servers_text_is_not_repeated(mail: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Mail, "refuses", True)
    with pytest.raises(AlertTargetError, match=r"refused the alert: 451$"):
        _target(tmp_path, mail_to=("ops@example.org",), mail_server=f"smtp://127.0.0.1:{mail}")(_MESSAGE)


@pytest.mark.processes
def test_a_target_that_is_down_is_one_line(web: int, tmp_path: Path) -> None:
    for settings in (
        {"webhook": "http://127.0.0.1:1/"},
        {"mail_to": ("ops@example.org",), "mail_server": f"smtps://127.0.0.1:{web}"},
        {"program": ("/no/such/program",)},
    ):
        with pytest.raises(AlertTargetError) as caught:
            _target(tmp_path, **settings)(_MESSAGE)
        assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\nX-Drips: "])
def test_a_webhook_that_answers_byte_by_byte_has_not_taken_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: bytes
) -> None:
    monkeypatch.setattr("covey.adapters.alert_targets.ALERT_SEND_SECONDS", 0.2)
    with dripping_server(begins) as port, pytest.raises(AlertTargetError, match="cannot be reached: "):
        _target(tmp_path, webhook=f"http://127.0.0.1:{port}/")(_MESSAGE)


@pytest.mark.slow
@pytest.mark.parametrize("begins", [b"", b"220 mail.example.org\r\n250-"])
def test_a_mail_server_that_answers_byte_by_byte_has_not_taken_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: bytes
) -> None:
    monkeypatch.setattr("covey.adapters.alert_targets.ALERT_SEND_SECONDS", 0.2)
    with dripping_server(begins) as port, pytest.raises(AlertTargetError, match="refused the alert: "):
        _target(tmp_path, mail_to=("ops@example.org",), mail_server=f"smtp://127.0.0.1:{port}")(_MESSAGE)


@pytest.mark.processes
def test_a_program_reads_the_message_and_its_words_are_no_shell(tmp_path: Path) -> None:
    program = _program(tmp_path, f'cat > {tmp_path}/got; echo "$1" > {tmp_path}/word')
    _target(tmp_path, program=(program, "$(id); x"))(_MESSAGE)
    assert json.loads((tmp_path / "got").read_text())["id"] == "65f-1"
    assert (tmp_path / "word").read_text() == "$(id); x\n"


@pytest.mark.processes
def test_a_program_that_fails_or_hangs_has_not_taken_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AlertTargetError, match="exited with code 3"):
        _target(tmp_path, program=(_program(tmp_path, "exit 3"),))(_MESSAGE)
    monkeypatch.setattr("covey.adapters.alert_targets.ALERT_SEND_SECONDS", 0.05)
    with pytest.raises(AlertTargetError, match="did not end"):
        _target(tmp_path, program=(_program(tmp_path, "sleep 1000"),))(_MESSAGE)


@pytest.mark.parametrize(
    "settings",
    [
        {"webhook": "ftp://example.org/"},
        {"webhook": "https://user:secret@example.org/"},
        {"webhook": "http://example.org/", "webhook_token_file": "token"},
        {"webhook": "https://"},
        {"mail_to": ("a@example.org",), "mail_server": "smtps://hub@example.org"},
        {"mail_to": ("a@example.org",), "mail_server": "example.org"},
        {"program": ("page-me",)},
    ],
)
def test_unusable_alert_targets_are_refused_at_set_up(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        alert_targets(AlertsConfig(**settings), tmp_path)
    assert "secret@" not in str(caught.value)


def test_nothing_is_configured_at_first(tmp_path: Path) -> None:
    assert alert_targets(AlertsConfig(), tmp_path) == {}


@pytest.fixture
def server_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's certificate for this machine, which this process trusts as the system's."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(certificate.public_bytes(Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.fixture
def secure_web(server_context: ssl.SSLContext) -> Iterator[int]:
    _Web.got.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Web)
    server.socket = server_context.wrap_socket(server.socket, server_side=True)
    yield from _served(server)


def test_an_https_webhook_gets_the_token_if_its_certificate_is_trusted(
    secure_web: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "webhook.token").write_text("tk_123\n")
    (tmp_path / "webhook.token").chmod(0o600)
    token = {"webhook_token_file": "webhook.token"}
    _target(tmp_path, webhook=f"https://localhost:{secure_web}/x", **token)(_MESSAGE)
    ((_, headers, text),) = _Web.got
    assert (headers["Authorization"], text) == ("Bearer tk_123", _MESSAGE.text)
    with pytest.raises(AlertTargetError, match="cannot be reached"):
        _target(tmp_path, webhook=f"https://127.0.0.1:{secure_web}/x", **token)(_MESSAGE)
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(AlertTargetError, match="cannot be reached"):
        _target(tmp_path, webhook=f"https://localhost:{secure_web}/x", **token)(_MESSAGE)
    assert len(_Web.got) == 1


class _SecureMail(socketserver.StreamRequestHandler):
    """A mail server that takes a password after STARTTLS alone (RFC 3207, RFC 4954); `said` is (secure, line)."""

    context: ClassVar[ssl.SSLContext]
    at_once: ClassVar[bool] = False
    """Whether it speaks TLS from the first byte (RFC 8314), not after STARTTLS."""
    said: ClassVar[list[tuple[bool, str]]] = []

    def handle(self) -> None:
        connection: socket.socket = self.request
        secure = self.at_once
        if secure:
            try:
                connection = self.context.wrap_socket(connection, server_side=True)
            except OSError:
                return  # a client that does not trust it
        stream = connection.makefile("rwb", buffering=0)
        stream.write(b"220 mail.example.org\r\n")
        while line := stream.readline().decode().strip():
            self.said.append((secure, line))
            word = line.split()[0].upper()
            if word == "STARTTLS":
                stream.write(b"220 go on\r\n")
                connection = self.context.wrap_socket(connection, server_side=True)
                secure, stream = True, connection.makefile("rwb", buffering=0)
            elif word == "EHLO":
                stream.write(b"250-mail\r\n250 AUTH PLAIN\r\n" if secure else b"250-mail\r\n250 STARTTLS\r\n")
            elif word == "DATA":
                stream.write(b"354 go on\r\n")
                while stream.readline() != b".\r\n":
                    pass
                stream.write(b"250 kept\r\n")
            elif word == "QUIT":
                stream.write(b"221 bye\r\n")
                connection.close()
                return
            else:
                stream.write(b"235 welcome\r\n" if word == "AUTH" else b"250 fine\r\n")


def test_mail_is_sent_with_a_password_after_starttls_alone(
    server_context: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mail.password").write_text("s3cret\n")
    (tmp_path / "mail.password").chmod(0o600)
    monkeypatch.setattr(_SecureMail, "context", server_context, raising=False)
    monkeypatch.setattr(_SecureMail, "said", [])
    for port in _served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _SecureMail)):
        server = f"smtp://hub%40example.org@localhost:{port}"
        _target(tmp_path, mail_to=("ops@example.org",), mail_server=server, mail_password_file="mail.password")(
            _MESSAGE
        )
        elsewhere = server.replace("localhost", "127.0.0.1")
        with pytest.raises(AlertTargetError, match="certificate"):
            _target(tmp_path, mail_to=("ops@example.org",), mail_server=elsewhere, mail_password_file="mail.password")(
                _MESSAGE
            )
    plain = base64.b64encode(b"\0hub@example.org\0s3cret").decode()
    assert (True, f"AUTH PLAIN {plain}") in _SecureMail.said
    assert (True, "data") in _SecureMail.said
    assert [line.split()[0].upper() for secure, line in _SecureMail.said if not secure] == ["EHLO", "STARTTLS"] * 2
    assert len([line for _, line in _SecureMail.said if line.startswith("AUTH PLAIN ")]) == 1


def test_mail_by_tls_from_the_first_byte_needs_a_certificate_that_is_trusted(
    server_context: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authority is of one's own: $SSL_CERT_FILE names it."""
    (tmp_path / "mail.password").write_text("s3cret\n")
    (tmp_path / "mail.password").chmod(0o600)
    for name, value in {"context": server_context, "at_once": True, "said": []}.items():
        monkeypatch.setattr(_SecureMail, name, value, raising=False)
    for port in _served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _SecureMail)):
        server = f"smtps://hub%40example.org@localhost:{port}"
        settings = {"mail_to": ("ops@example.org",), "mail_server": server, "mail_password_file": "mail.password"}
        _target(tmp_path, **settings)(_MESSAGE)
        with pytest.raises(AlertTargetError, match="certificate"):
            _target(tmp_path, **settings | {"mail_server": server.replace("localhost", "127.0.0.1")})(_MESSAGE)
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(AlertTargetError, match="certificate"):
            _target(tmp_path, **settings)(_MESSAGE)
    assert all(secure for secure, _ in _SecureMail.said)
    assert [line for _, line in _SecureMail.said if line.startswith("AUTH PLAIN ")]
