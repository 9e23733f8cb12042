"""The description of the local API, tried on a running agent: what it promises holds, and nothing else is answered."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from covey.app.api.operations import api_description
from covey.app.api.service import _Answers
from covey.app.device.shared_commits import SharedCommits
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS
from tests.examples import parameters
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

DESCRIPTION = json.loads(json.dumps(api_description()))


class _UnixConnection(HTTPConnection):
    """urllib3's connection, to a Unix socket."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__("covey", **options)
        self._socket_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(str(self._socket_path))


class _UnixPool(HTTPConnectionPool):
    def __init__(self, path: Path) -> None:
        super().__init__("covey")
        self._socket_path = path

    def _new_conn(self) -> _UnixConnection:
        return _UnixConnection(self._socket_path)


class _UnixAdapter(HTTPAdapter):
    """Lets `requests` speak to one socket, whatever the URL's host is."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._pool = _UnixPool(path)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        return self._pool


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[requests.Session]:
    """Speak with an agent in a group of its own, which no relay reaches."""
    gateway = Gateway(tmp_path_factory.mktemp("api"), "one")
    gateway.ok("group", "create", "--capability", "collector")
    gateway.ok("config", "set", "api.socket", "api.sock")
    gateway.ok("relay", "set", "mqtt://127.0.0.1:9")
    gateway.start("run", "--no-sensors")
    wait_until((gateway.state / "api.sock").is_socket, "the API listens")
    with requests.Session() as opened:
        opened.mount("http://", _UnixAdapter(gateway.state / "api.sock"))
        yield opened
    assert gateway.end() == 0
    assert "unforeseen" not in gateway.log.read_text()
    assert "Traceback" not in gateway.log.read_text()


@pytest.mark.parametrize("count", parameters([8, 40], plain=1))
@pytest.mark.parametrize(
    ("method", "path"), [(method, path) for path, each in DESCRIPTION["paths"].items() for method in each]
)
def test_every_promise(method: str, path: str, count: int, session: requests.Session) -> None:
    from tests.integration.api_promises import try_promises  # schemathesis takes seconds to load, in each worker

    try_promises(DESCRIPTION, method, path, session, count)


def test_it_describes_what_is_served(session: requests.Session) -> None:
    assert session.get("http://covey/openapi.json").json() == DESCRIPTION
    parameters = {each["name"]: each for each in DESCRIPTION["paths"]["/v1/publish"]["post"]["parameters"]}
    assert parameters["batch"]["schema"]["maximum"] == MAXIMUM_BATCH_READINGS
    routes = {
        (route.method, route.pattern.pattern)
        for route in _Answers(cast("Any", None), SharedCommits(cast("Any", None), lambda: None)).routes()
    }
    described = {
        (method.upper(), path.replace("{id}", "([0-9]{1,18})").replace("{ref}", "([^/]{1,1024})"))
        for path, methods in DESCRIPTION["paths"].items()
        for method in methods
    }
    assert described == routes


def test_unknown_and_repeated_parameters_are_refused(session: requests.Session) -> None:
    unknown = ("x=1", "x", "=", "%00", "=&limit=1", "limit=1&x", "LIMIT=1", "limit%3D1", "limit[]=1", "x=%ff")
    twice = ("limit=1&limit=2", "limit=a&limit=1", "limit=1&limit=1", "limit=1&%6Cimit=1")
    no_number = ("limit", "limit=", "limit=1;x=2", "limit=+1", "limit=%201", "limit=-1", "limit=1001", "limit=1e2")
    for query in (*unknown, *twice, *no_number):
        assert session.get(f"http://covey/v1/outbox?{query}").status_code == 400, query
    for query in ("", "&&", "limit=%31", "limit=1"):
        assert session.get(f"http://covey/v1/outbox?{query}").status_code == 200, query


@pytest.mark.parametrize("path", ["api/v2/write", "v1/publish"])
def test_a_key_that_is_none_is_refused_though_there_is_nothing_to_do(session: requests.Session, path: str) -> None:
    for key in ("", "a" * 129, "\x80", "a\tb"):
        assert session.post(f"http://covey/{path}", headers={"Idempotency-Key": key}).status_code == 400, key
    assert session.post(f"http://covey/{path}", headers={"Idempotency-Key": "a" * 128}).ok


def test_an_unknown_method_is_answered_with_the_known_ones(session: requests.Session) -> None:
    answer = session.put("http://covey/v1/status")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")
    assert session.head("http://covey/v1/status").status_code == 405
