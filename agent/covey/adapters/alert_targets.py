"""Alert targets: a webhook, e-mail, a program. Each sends a message or raises `AlertTargetError`; none is kept open.

1. A secret is in a file, is read when needed, and is sent only over TLS or to this machine.
2. A redirection does not count as accepting the message: a token goes nowhere else.
3. Only the status of a target's answer is read.
4. A program runs without a shell, gets the message as JSON on its standard input, and has a time limit.
"""

from __future__ import annotations

import json
import os
import signal
import smtplib
import socket
import ssl
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from email.message import EmailMessage
from email.utils import format_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, unquote

from covey.adapters.exchange_deadline import ended_within
from covey.adapters.keys.key_file import read_secret
from covey.adapters.web_address import is_this_machine, web_address
from covey.errors import AlertTargetError, ConfigurationError
from covey.limits.alerts import ALERT_SEND_SECONDS

if TYPE_CHECKING:
    from covey.config.schema import AlertsConfig
    from covey.core.alerts import AlertMessage

AlertTarget = Callable[["AlertMessage"], None]
"""Sends a message, and returns when it was taken. Raises AlertTargetError, ConfigurationError or StorageError."""

_SECRET_BYTES = 4_096
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def alert_targets(config: AlertsConfig, folder: Path) -> Mapping[str, AlertTarget]:
    """Return the targets that are configured, by name; `folder` is that of the state.

    Raises:
        ConfigurationError: an address that cannot be used, or a secret that would cross a network in the clear.
    """
    found: dict[str, AlertTarget] = {}
    if config.webhook:
        found["webhook"] = _webhook(config, folder)
    if config.mail_to:
        found["mail"] = _mail(config, folder)
    if config.program:
        found["program"] = _program(config.program)
    return found


def _webhook(config: AlertsConfig, folder: Path) -> AlertTarget:
    url = web_address(config.webhook, "alerts.webhook", {"http": 80, "https": 443})
    if config.webhook_token_file and url.scheme == "http" and not is_this_machine(url):
        raise ConfigurationError("alerts.webhook_token_file: Covey sends a token over https:// only")
    path = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"

    def send(message: AlertMessage) -> None:
        headers = {"Idempotency-Key": message.id, "User-Agent": "covey"}
        if config.webhook_json:
            body, headers["Content-Type"] = _as_json(message), "application/json"
        else:
            body, headers["Content-Type"] = message.text.encode(), "text/plain; charset=utf-8"
            headers |= {"Title": message.title, "Tags": "white_check_mark" if message.ended else "warning"}
        if config.webhook_token_file:
            headers["Authorization"] = f"Bearer {read_password(folder, config.webhook_token_file)}"
        connection = _connection(url)
        try:
            connection.connect()
            sock = connection.sock
            with ended_within(ALERT_SEND_SECONDS, lambda: sock):
                connection.request("POST", path, body, headers)
                status = connection.getresponse().status
        except (OSError, HTTPException, ValueError) as error:
            raise AlertTargetError(f"the webhook cannot be reached: {_why(error)}") from None
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise AlertTargetError(f"the webhook answered with HTTP status {status}")

    return send


def _connection(url: SplitResult) -> HTTPConnection:
    assert url.hostname is not None
    if url.scheme == "http":
        return HTTPConnection(url.hostname, url.port, timeout=ALERT_SEND_SECONDS)
    return HTTPSConnection(url.hostname, url.port, timeout=ALERT_SEND_SECONDS, context=ssl.create_default_context())


class _NamedServerContext(ssl.SSLContext):
    """TLS with a server of this name: smtplib knows it only if it connects while it is made, and nobody could cut that.

    Trusts what `ssl.create_default_context` does.
    """

    _name: str

    @classmethod
    def of(cls, name: str) -> Self:
        """Return one for a server."""
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags = ssl.create_default_context().verify_flags
        context.load_default_certs()
        context._name = name
        return context

    def wrap_socket(self, sock: socket.socket, *words: Any, **options: Any) -> ssl.SSLSocket:
        """Begin TLS, whatever name is asked for."""
        return super().wrap_socket(sock, *words, **{**options, "server_hostname": self._name})


def _mail(config: AlertsConfig, folder: Path) -> AlertTarget:
    ports = {"smtp": 25, "smtps": 465}
    url = web_address(config.mail_server, "alerts.mail_server", ports)
    if url.username and not config.mail_password_file:
        raise ConfigurationError("alerts.mail_server names a user, but alerts.mail_password_file is not set")
    sender = config.mail_from or config.mail_to[0]

    def send(message: AlertMessage) -> None:
        assert url.hostname is not None
        port, context = url.port or ports[url.scheme], _NamedServerContext.of(url.hostname)
        try:
            mail = _mail_of(message, sender, config.mail_to)
            server = (
                smtplib.SMTP(timeout=ALERT_SEND_SECONDS)
                if url.scheme == "smtp"
                else smtplib.SMTP_SSL(timeout=ALERT_SEND_SECONDS, context=context)
            )
            with ended_within(ALERT_SEND_SECONDS, lambda: server.sock), server:
                server.connect(url.hostname, port)
                if url.scheme == "smtp" and (url.username or not is_this_machine(url)):
                    server.starttls(context=context)
                if url.username:
                    server.login(unquote(url.username), read_password(folder, config.mail_password_file))
                server.send_message(mail, sender, list(config.mail_to))
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise AlertTargetError(f"the mail server {url.hostname} refused the alert: {_why(error)}") from None

    return send


def _mail_of(message: AlertMessage, sender: str, recipients: tuple[str, ...]) -> EmailMessage:
    from datetime import UTC, datetime

    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, ", ".join(recipients), message.title
    mail["Date"] = format_datetime(datetime.fromtimestamp(message.at_us // 1_000_000, UTC))
    mail["Message-ID"] = f"<{message.id}@covey.invalid>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    return mail


def _program(argv: tuple[str, ...]) -> AlertTarget:
    if not Path(argv[0]).is_absolute():
        raise ConfigurationError("alerts.program must be an absolute path")

    def send(message: AlertMessage) -> None:
        try:
            process = subprocess.Popen(  # noqa: S603 - the owner's own program and words, no shell
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise AlertTargetError(f"{argv[0]} cannot be started: {_why(error)}") from None
        try:
            process.communicate(_as_json(message), ALERT_SEND_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise AlertTargetError(f"{argv[0]} did not end within {ALERT_SEND_SECONDS:.0f} s") from None
        if process.returncode:
            raise AlertTargetError(f"{argv[0]} exited with code {process.returncode}")

    return send


def _as_json(message: AlertMessage) -> bytes:
    document: dict[str, Any] = asdict(message)
    return json.dumps(document, ensure_ascii=False).encode()


def read_password(folder: Path, name: str) -> str:
    """Return the content of a target's token or password file; `name` is relative to the state folder.

    Raises:
        ConfigurationError: it is missing, open to others, or empty.
        StorageError: the disk refused.
    """
    text = read_secret(folder / name, _SECRET_BYTES).decode(errors="replace").strip()
    if not text:
        raise ConfigurationError(f"{folder / name} is empty", hint="write the token or the password into it")
    return text


def _why(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return type(error).__name__
