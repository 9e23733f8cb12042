"""A POST of a batch, over one connection that stays open while batches follow each other."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path

from covey.adapters.exchange_deadline import ended_within
from covey.adapters.keys.key_file import read_secret
from covey.adapters.web_address import is_this_machine, web_address
from covey.errors import ConfigurationError, DoorError
from covey.limits.doors import DOOR_SEND_SECONDS, MAXIMUM_DOOR_SECRET_BYTES

_NEVER = {400, 413, 415, 422}
"""What a receiver answers that will not take this batch another time either."""


class HttpPost:
    """Posts to one address."""

    def __init__(self, text: str, where: str, folder: Path, token_file: str, ca_file: str) -> None:
        """Check the address; `where` names the setting, `folder` is that of the state.

        Raises:
            ConfigurationError: no address, a token that would cross a network in the clear, no certificates there.
        """
        self._url = web_address(text, f"{where}: url", {"http": 80, "https": 443})
        if token_file and self._url.scheme == "http" and not is_this_machine(self._url):
            raise ConfigurationError(f"{where}: token_file: Covey sends a token over https:// only")
        self._path = f"{self._url.path or '/'}{f'?{self._url.query}' if self._url.query else ''}"
        self._token = folder / token_file if token_file else None
        self._context: ssl.SSLContext | None = None
        if self._url.scheme == "https":
            try:
                self._context = ssl.create_default_context(cafile=str(folder / ca_file) if ca_file else None)
            except (OSError, ssl.SSLError) as error:
                raise ConfigurationError(f"{where}: ca_file: {ca_file} holds no certificates") from error
        self._connection: HTTPConnection | None = None

    def post(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Post, and return when it was taken: the beginning of what was answered.

        Raises:
            DoorError: it was not.
            ConfigurationError: the token's file is missing, or open to others.
        """
        headers = {"User-Agent": "covey", **headers}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {secret_text(self._token)}"
        try:
            answer, content = self._answer(body, headers)
        except (OSError, HTTPException, ValueError) as error:
            raise DoorError(f"{self._url.hostname} cannot be reached: {_why(error)}") from None
        if not 200 <= answer.status < 300:
            wait = answer.headers.get("Retry-After", "")
            raise DoorError(
                f"{self._url.hostname} answered with HTTP status {answer.status}",
                refused=answer.status in _NEVER,
                retry_after_s=float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < 6 else 0.0,
            )
        return content

    def _answer(self, body: bytes, headers: Mapping[str, str]) -> tuple[HTTPResponse, bytes]:
        if self._connection is not None:
            with suppress(OSError, HTTPException):
                return self._exchange(self._connection, body, headers)
        self.close()
        assert self._url.hostname is not None
        if self._context is None:
            self._connection = HTTPConnection(self._url.hostname, self._url.port, timeout=DOOR_SEND_SECONDS)
        else:
            self._connection = HTTPSConnection(
                self._url.hostname, self._url.port, timeout=DOOR_SEND_SECONDS, context=self._context
            )
        try:
            return self._exchange(self._connection, body, headers)
        except BaseException:
            self.close()
            raise

    def _exchange(
        self, connection: HTTPConnection, body: bytes, headers: Mapping[str, str]
    ) -> tuple[HTTPResponse, bytes]:
        if connection.sock is None:
            connection.connect()
        sock = connection.sock
        with ended_within(DOOR_SEND_SECONDS, lambda: sock):
            connection.request("POST", self._path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read(_READ_BYTES)
        if len(content) == _READ_BYTES or answer.will_close:  # more than anybody reads
            self.close()
        return answer, content

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_READ_BYTES = 65_536


def secret_text(path: Path) -> str:
    """Return the secret in a file.

    Raises:
        ConfigurationError: it is missing, open to others, or none.
        StorageError: the disk refused.
    """
    text = read_secret(path, MAXIMUM_DOOR_SECRET_BYTES).decode(errors="replace").strip()
    if not text or not text.isascii() or not text.isprintable():
        raise ConfigurationError(f"{path} must hold a secret: one line of ASCII")
    return text


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return type(error).__name__
