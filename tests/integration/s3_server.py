"""A server that speaks S3 (moto), in a process of its own, with a bucket for each test."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from tests.waiting import GUARD_S, wait_until

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "not a secret",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}


class S3Server:
    """A running server; `url(bucket)` names a vault in it."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What the usual chain of credentials reads."""
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.endpoint}

    def answers(self) -> bool:
        """Say whether it is up."""
        try:
            return bool(self._ask("GET", "/moto-api/").status)
        except OSError:
            return False

    def make_bucket(self, name: str) -> str:
        """Make a bucket and return the URL of a vault in it."""
        self._ask("PUT", f"/{name}")
        return f"s3://{name}/fleet/one"

    def _ask(self, method: str, path: str):  # type: ignore[no-untyped-def]
        signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        request = urllib.request.Request(self.endpoint + path, method=method, headers={"Authorization": signed})
        return urllib.request.urlopen(request, timeout=GUARD_S)

    def stop(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Boot the server once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = S3Server(port)
    try:
        wait_until(server.answers, "the S3 server answers")
        yield server
    finally:
        server.stop()


@pytest.fixture
def s3_vault(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty vault, with this process's credentials for it set."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    digits = "".join(character for character in request.node.name.lower() if character.isalnum())
    return s3_server.make_bucket(f"b{digits[:60]}")
