"""The description of the local API, tried on a running agent: what it promises holds, and nothing else is answered."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from requests.adapters import HTTPAdapter
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from covey.app.api.operations import _FOLLOW_S_MAX, api_description
from covey.app.api.service import _Answers
from covey.app.device.shared_commits import SharedCommits
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytest_plugins = ["schemathesis.pytest.plugin"]  # of this file alone: pyproject.toml
DESCRIPTION = json.loads(json.dumps(api_description()))
_EXAMPLES = 40
_schema = schemathesis.openapi.from_dict(DESCRIPTION)


@schemathesis.serializer("application/x-ndjson", "application/senml+cbor")
def _bytes(_: object, value: object) -> bytes:
    """Send what schemathesis has no words for as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


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


def _goes_on(said: object) -> bool:
    """Say whether an agent takes this for how long to follow, in whatever form it comes."""
    text = str(said[0] if isinstance(said, list) and len(said) == 1 else said)
    return text.isascii() and text.isdigit() and int(text) <= _FOLLOW_S_MAX


@seeded(7)
@settings(
    max_examples=_EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@_schema.parametrize()
def test_every_promise(case: Any, session: Any) -> None:
    says = _goes_on(case.query.get("follow"))
    follows = {"/v1/inbox": says, "/v1/events": says or "follow" not in case.query}
    follows["/v1/content/{ref}/fetch"] = follows["/v1/events"]
    if follows.get(case.path):
        case.query["follow"] = 0  # or the test would follow for up to a day
    # A schema can say neither which text is a reading nor which groups there are, and whose, nor which files.
    names = case.method == "POST" or case.path in {"/v1/history", "/v1/events", "/v1/own", "/v1/content"}
    names |= case.path.startswith("/v1/content/")
    excluded = [positive_data_acceptance] if names else []
    if case.path == "/v1/ephemeral":
        excluded.append(not_a_server_error)  # it promises a 503 where no relay is reached, as here
    case.call_and_validate(base_url="http://covey", session=session, excluded_checks=excluded)


def test_it_describes_what_is_served(session: requests.Session) -> None:
    assert session.get("http://covey/openapi.json").json() == DESCRIPTION
    parameters = {each["name"]: each for each in DESCRIPTION["paths"]["/v1/publish"]["post"]["parameters"]}
    assert parameters["batch"]["schema"]["maximum"] == MAXIMUM_BATCH_READINGS
    routes = {
        (route.method, route.pattern)
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
