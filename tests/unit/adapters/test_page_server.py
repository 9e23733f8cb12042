"""The server of the fleet's page: whom it lets in, what it tells browsers, and what it refuses."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from covey.adapters.page_server import Listen, PageServer
from covey.errors import ConfigurationError, LocalError
from tests.integration.certificates import make_certificate
from tests.waiting import GUARD_S, wait_until

_PASSWORD = "a long enough password"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., PageServer]]:
    """Serve a page of two files; closed at the end."""
    made: list[PageServer] = []
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "page.js").write_text("x" * 5_000)
    (tmp_path / "uplot.LICENSE").write_text("not served")

    def start(**listen: Any) -> PageServer:
        links: list[str] = []

        def unknown(query: Mapping[str, str]) -> Any:
            raise LocalError(f"no device {query['key']}")

        def watched(query: Mapping[str, str], has_gone: Callable[[], bool]) -> Iterator[Any]:
            yield {"n": 1}
            wait_until(has_gone, "its reader has gone")
            (tmp_path / "gone").write_text(query["who"])

        page = PageServer(
            Listen("127.0.0.1", 0, **listen),
            tmp_path,
            {"/fleet": lambda query: {"found": dict(query)}, "/device": unknown},
            {"/events": lambda *_: iter([{"n": 1}, None, {"n": 2}]), "/watched": watched},
            {"/accept": lambda query: {"accepted": query["group"]}},
            links.append,
        )
        made.append(page)
        return page

    yield start
    for page in made:
        page.close()


def _ask(
    page: PageServer, path: str, method: str = "GET", context: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    at = urlsplit(page.url)
    assert at.hostname is not None
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    options: dict[str, Any] = {"context": context} if context else {}
    connection = kind(at.hostname, at.port, timeout=GUARD_S, **options)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), content


def _enter(page: PageServer) -> str:
    """Follow the link; return the cookie."""
    at = urlsplit(page.link)
    status, headers, _ = _ask(page, f"{at.path}?{at.query}")
    assert (status, headers["Location"]) == (303, "/")
    cookie, _, attributes = headers["Set-Cookie"].partition(";")
    assert "HttpOnly" in attributes
    assert "SameSite=Strict" in attributes
    return cookie


@pytest.mark.parametrize("secure", [False, pytest.param(True, marks=pytest.mark.processes)], ids=["plain", "TLS"])
def test_a_stream_ends_with_its_reader_though_there_is_nothing_to_tell(
    serve: Callable[..., PageServer], tmp_path: Path, secure: bool
) -> None:
    if secure:
        certificate, key = make_certificate(tmp_path / "authority", -1, 1)
        page = serve(certificate=certificate, key=key, password=_PASSWORD)
        word = base64.b64encode(f"me:{_PASSWORD}".encode()).decode()
        context = ssl.create_default_context(cafile=str(certificate))
        cookie = _ask(page, "/", context=context, Authorization=f"Basic {word}")[1]["Set-Cookie"].partition(";")[0]
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            "127.0.0.1", page.port, timeout=GUARD_S, context=context
        )
    else:
        page = serve()
        cookie = _enter(page)
        connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=GUARD_S)
    connection.request("GET", "/watched?who=me", headers={"Cookie": cookie})
    answer = connection.getresponse()
    assert answer.readline() == b'data: {"n": 1}\n'
    assert not (tmp_path / "gone").exists()
    answer.close()
    connection.close()
    wait_until(lambda: (tmp_path / "gone").exists() and (tmp_path / "gone").read_text(), "the stream has ended")
    assert (tmp_path / "gone").read_text() == "me"


def test_control_characters_of_members_do_not_reach_the_page(serve: Callable[..., PageServer]) -> None:
    page = serve()
    asked = "/fleet?label=gate%E2%80%AEevil%C2%9B31m"
    _, _, content = _ask(page, asked, Cookie=_enter(page))
    text = content.decode()
    assert "gate" in text
    assert text.isprintable()


def test_a_link_lets_one_browser_in(serve: Callable[..., PageServer]) -> None:
    page = serve()
    for path in ("/", "/fleet", "/events", "/page.js", "/?key=", "/?key=x", "/nothing"):
        assert _ask(page, path)[0] == 401, path
    link = urlsplit(page.link)
    cookie = _enter(page)
    assert _ask(page, f"/?{link.query}")[0] == 401
    assert _ask(page, "/", Cookie=cookie)[2] == b"<!doctype html>"
    assert _ask(page, "/fleet?find=a%20b", Cookie=cookie)[2] == b'{"found": {"find": "a b"}}'
    assert _ask(page, "/events", Cookie=cookie)[2] == b'data: {"n": 1}\n\n: \n\ndata: {"n": 2}\n\n'
    assert _ask(page, "/", Cookie=_enter(page))[0] == 200  # by the next link, which it has printed
    for wrong in ("covey-page=x", "covey-page=", "covey-page=\xe4", ";;;=", cookie + "x"):
        assert _ask(page, "/", Cookie=wrong)[0] == 401


def test_browsers_receive_the_security_headers(serve: Callable[..., PageServer]) -> None:
    page = serve()
    cookie = _enter(page)
    status, headers, content = _ask(page, "/page.js", Cookie=cookie)
    assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert len(content) == 5_000
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    zipped = _ask(page, "/page.js", Cookie=cookie, Accept_Encoding="gzip")
    assert zipped[1]["Content-Encoding"] == "gzip"
    assert len(zipped[2]) < 200


def test_it_reads_only_and_serves_nothing_else(serve: Callable[..., PageServer]) -> None:
    page = serve()
    cookie = _enter(page)
    for path in ("/uplot.LICENSE", "/../page.js", "/%2e%2e/x", "/index.html/..", "/fleet/x"):
        assert _ask(page, path, Cookie=cookie)[0] == 404, path
    for method in ("PUT", "DELETE", "OPTIONS"):
        assert _ask(page, "/fleet", method, Cookie=cookie)[0] == 501
    assert _ask(page, "/device?key=1", Cookie=cookie)[::2] == (404, b"no device 1\n")


def test_only_the_page_itself_may_change_something(serve: Callable[..., PageServer]) -> None:
    page = serve()
    cookie, origin = _enter(page), page.url.rstrip("/")
    assert _ask(page, "/accept?group=1", "POST", Cookie=cookie, Origin=origin)[::2] == (200, b'{"accepted": "1"}')
    for other in (
        "http://evil.example",
        "null",
        "",
        f"http://127.0.0.1:{page.port + 1}",
        f"https://127.0.0.1:{page.port}",
    ):
        assert _ask(page, "/accept?group=1", "POST", Cookie=cookie, Origin=other)[0] == 403, other
    assert _ask(page, "/accept?group=1", "POST", Cookie=cookie)[0] == 403
    assert _ask(page, "/accept?group=1", "POST", Origin=origin)[0] == 401
    assert _ask(page, "/accept?group=1", "POST", Cookie=cookie, Origin=origin, Host="evil.example")[0] == 421
    assert _ask(page, "/accept?group=1", Cookie=cookie)[0] == 404
    for path in ("/fleet", "/", "/events", "/page.js"):
        assert _ask(page, path, "POST", Cookie=cookie, Origin=origin)[0] == 404, path


def test_a_name_of_a_strangers_reaches_nothing(serve: Callable[..., PageServer]) -> None:
    page = serve()
    cookie = _enter(page)
    assert _ask(page, "/", Cookie=cookie, Host=f"localhost:{page.port}")[0] == 200
    for host in ("rebound.example", f"rebound.example:{page.port}", "127.0.0.1:1", ""):
        assert _ask(page, "/", Cookie=cookie, Host=host)[0] == 421


def test_silent_clients_keep_nobody_out(serve: Callable[..., PageServer]) -> None:
    page = serve()
    silent = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(5)]
    assert _ask(page, "/", Cookie=_enter(page))[0] == 200
    for each in silent:
        each.close()


@pytest.mark.processes
def test_others_come_by_tls_and_a_password(serve: Callable[..., PageServer], tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path / "authority", -1, 1)
    page = serve(certificate=certificate, key=key, password=_PASSWORD)
    assert page.link == page.url == f"https://127.0.0.1:{page.port}/"
    context = ssl.create_default_context(cafile=str(certificate))
    status, headers, _ = _ask(page, "/", context=context)
    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="covey", charset="UTF-8"')
    for said in ("x:" + _PASSWORD[:-1], _PASSWORD, ""):
        basic = base64.b64encode(said.encode()).decode()
        assert _ask(page, "/", context=context, Authorization=f"Basic {basic}")[0] == 401
    assert _ask(page, "/", context=context, Authorization="Basic ?")[0] == 401
    basic = base64.b64encode(f"anybody:{_PASSWORD}".encode()).decode()
    status, headers, _ = _ask(page, "/", context=context, Authorization=f"Basic {basic}", Host="hub.example")
    assert status == 303
    assert headers["Set-Cookie"].endswith("; Secure")
    assert _ask(page, "/", context=context, Cookie=headers["Set-Cookie"].partition(";")[0])[0] == 200


def test_a_proxy_that_authenticates_visitors_is_admitted_and_nobody_else(serve: Callable[..., PageServer]) -> None:
    page = serve(proxy="127.0.0.1")
    assert page.link == page.url
    status, headers, content = _ask(page, "/", Host="home.example:8123")
    assert (status, content) == (200, b"<!doctype html>")
    assert headers["Content-Security-Policy"].endswith("frame-ancestors 'self'")
    with pytest.raises(ConnectionError):
        _ask(serve(proxy="127.0.0.2"), "/")


def test_behind_a_proxy_only_the_page_itself_may_change_something(serve: Callable[..., PageServer]) -> None:
    page = serve(proxy="127.0.0.1")
    host = "home.example:8123"
    for origin in (f"https://{host}", f"http://{host}"):
        assert _ask(page, "/accept?group=1", "POST", Host=host, Origin=origin)[0] == 200, origin
    public: dict[str, Any] = {"Host": "hub.internal", "X_Forwarded_Host": "home.example"}
    assert _ask(page, "/accept?group=1", "POST", Origin="https://home.example", **public)[0] == 200
    for origin in ("http://evil.example", "null", "", "https://", f"file://{host}", "https://home.example"):
        assert _ask(page, "/accept?group=1", "POST", Host=host, Origin=origin)[0] == 403, origin
    assert _ask(page, "/accept?group=1", "POST", Host=host)[0] == 403
    assert _ask(page, "/accept?group=1", "POST", Host="", Origin="https://")[0] == 403


def test_a_page_that_cannot_be_served_is_an_error(serve: Callable[..., PageServer], tmp_path: Path) -> None:
    page = serve()
    with pytest.raises(ConfigurationError, match="cannot listen on"):
        PageServer(Listen("127.0.0.1", page.port), tmp_path, {}, {}, {}, lambda _: None)
    with pytest.raises(ConfigurationError, match="not a usable certificate"):
        serve(certificate=tmp_path / "index.html")
