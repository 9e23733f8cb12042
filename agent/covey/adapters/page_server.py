"""The server of the fleet page: static files and a few API answers for signed-in browsers.

1. Nobody is let in without the key of the printed link, which is good for one browser and then replaced, or, over TLS,
   the password of a file. Both become a cookie that scripts cannot read and other sites' pages do not send.
2. Whatever `Host` a browser names must be one that the page is served under: a stranger's name that is made to stand
   for this machine reaches nothing.
3. Nothing but the page's own files is ever run or drawn by a browser: the policy names no other source.
4. It reads. What changes something is a POST without a body, and only from the page itself: the browser names where it
   comes from, which no other site can make it leave out or say otherwise.
5. Behind a proxy that authenticates visitors, such as Home Assistant, rules 1 and 2 are the proxy's: nobody else is
   admitted. Then pages of the proxy's own origin may show this one in a frame.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hmac
import json
import secrets
import select
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from covey.adapters.http.exchange import Exchange
from covey.adapters.http.listener import Listener, listening_at
from covey.adapters.http.places import ConnectedClient, Phase, Places
from covey.errors import ConfigurationError, CoveyError, LocalError

_COOKIE = "covey-page"
_OTHER_NAME = "this page has another name"
_BUSY = "too many browsers at once"
_SESSIONS = 64
_WRONG_S = 1.0
"""Before a wrong password is answered: 32 strangers have so many guesses a second, of passwords of 12 characters or
more. A right one is answered at once."""
_LEAST_TO_COMPRESS = 1_024
_GZIP = 16
"""Added to zlib's window bits, it asks for gzip's header."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors "
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Query = Mapping[str, str]
Answer = Callable[[Query], Any]
"""From a query to what JSON holds."""
Stream = Callable[[Query, Callable[[], bool]], Iterator[Any]]
"""From a query, and what says that the client has gone, to what JSON holds, one event after the other.

None is a sign of life."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen, and how: with a certificate (PEM files) and a password, or for this machine alone."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    password: str | None = field(default=None, repr=False)
    proxy: str | None = None
    """The address of a proxy that authenticates visitors (rule 5)."""


class PageServer:
    """Serves until closed."""

    def __init__(
        self,
        listen: Listen,
        files: Traversable,
        answers: Mapping[str, Answer],
        streams: Mapping[str, Stream],
        actions: Mapping[str, Answer],
        link_used: Callable[[str], None],
    ) -> None:
        """Listen.

        Args:
            listen: where.
            files: the folder of the page's files.
            answers: what answers with JSON, by path.
            streams: what answers with server-sent events, by path.
            actions: what changes something and answers with JSON, by path.
            link_used: called with the next link when the last one has let a browser in.

        Raises:
            ConfigurationError: that is no address of this machine's, it is in use, or the certificate cannot be used.
        """
        self._doorkeeper = _Doorkeeper(listen.password)
        self._link_used = link_used
        self._content = {f"/{file.name}": file.read_bytes() for file in files.iterdir() if _suffix(file.name) in _TYPES}
        self._content["/"] = self._content.pop("/index.html")
        self._answers, self._streams, self._actions = answers, streams, actions
        tls = None if listen.certificate is None else _tls(listen.certificate, listen.key)
        try:
            listening = listening_at(listen.host, listen.port)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {listen.host}:{listen.port}: {error.strerror or error}", hint="--listen HOST:PORT"
            ) from error
        scheme = "http" if tls is None else "https"
        self._cookie_end = "" if tls is None else "; Secure"
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        self.port = int(listening.getsockname()[1])
        self.url = f"{scheme}://{host}:{self.port}/"
        self._proxy = listen.proxy
        is_named = listen.password is None and listen.proxy is None
        self._hosts = {f"{host}:{self.port}", f"localhost:{self.port}"} if is_named else None
        self.headers = _headers("'none'" if listen.proxy is None else "'self'")
        self._listener = Listener(
            listening,
            "page",
            lambda client, places: _Visit(client, places, self).converse(),
            tls=tls,
            admits=lambda host: self._proxy in {None, host},
        )

    @property
    def link(self) -> str:
        """What lets the next browser in."""
        key = None if self._proxy is not None else self._doorkeeper.link_key
        return self.url if key is None else f"{self.url}?key={key}"

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def answer(self, visit: _Visit) -> None:
        """Answer one request that reads."""
        parts = urlsplit(visit.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if not self._is_host(visit):
            visit.refuse(HTTPStatus.MISDIRECTED_REQUEST, _OTHER_NAME)
        elif not self._is_let_in(visit):
            self._let_in(visit, query)
        elif not visit.recognise():
            visit.refuse(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
        elif parts.path in self._streams:
            visit.stream(self._streams[parts.path](query, visit.has_gone))
        elif parts.path in self._answers:
            visit.send("application/json", _json(self._answers[parts.path](query)).encode())
        elif parts.path in self._content:
            kind = _TYPES[_suffix(parts.path if parts.path != "/" else "index.html")]
            visit.send(kind, self._content[parts.path])
        else:
            visit.refuse(HTTPStatus.NOT_FOUND, "no such page")

    def act(self, visit: _Visit) -> None:
        """Answer one request that changes something (rule 4)."""
        parts = urlsplit(visit.path)
        if not self._is_host(visit):
            visit.refuse(HTTPStatus.MISDIRECTED_REQUEST, _OTHER_NAME)
        elif not self._is_let_in(visit):
            visit.refuse(HTTPStatus.UNAUTHORIZED, "open the fleet page first")
        elif not visit.recognise():
            visit.refuse(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
        elif not self._is_from_page(visit):
            visit.refuse(HTTPStatus.FORBIDDEN, "this request comes from another site")
        elif parts.path not in self._actions:
            visit.refuse(HTTPStatus.NOT_FOUND, "no such action")
        else:
            found = self._actions[parts.path](dict(parse_qsl(parts.query, keep_blank_values=True)))
            visit.send("application/json", _json(found).encode())

    def _is_host(self, visit: _Visit) -> bool:
        return self._hosts is None or visit.headers.get("Host", "") in self._hosts

    def _is_let_in(self, visit: _Visit) -> bool:
        return self._proxy is not None or self._doorkeeper.knows(visit.headers.get("Cookie", ""))

    def _is_from_page(self, visit: _Visit) -> bool:
        """Say whether the page itself sends a request. A proxy may add TLS, and says what the browser calls it."""
        scheme, _, host = visit.headers.get("Origin", "").partition("://")
        if self._proxy is None:
            return (scheme, host) == (urlsplit(self.url).scheme, visit.headers.get("Host", ""))
        names = {visit.headers.get("Host", ""), visit.headers.get("X-Forwarded-Host", "")}
        return scheme in {"http", "https"} and host in names - {""}

    def _let_in(self, visit: _Visit, query: Query) -> None:
        session = self._doorkeeper.let_in(query.get("key", ""), visit.headers.get("Authorization", ""))
        if session is None:
            by_password = self._doorkeeper.link_key is None
            if visit.headers.get("Authorization"):
                visit.delay(_WRONG_S)
            visit.refuse(
                HTTPStatus.UNAUTHORIZED,
                "a password is needed" if by_password else "open the link that 'covey dashboard' printed last",
                {"WWW-Authenticate": 'Basic realm="covey", charset="UTF-8"'} if by_password else {},
            )
            return
        cookie = f"{_COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/{self._cookie_end}"
        visit.redirect("/", cookie)
        if self._doorkeeper.link_key is not None:
            self._link_used(self.link)


def _headers(frame_ancestors: str) -> dict[str, str]:
    return {"Content-Security-Policy": _POLICY + frame_ancestors, **_HEADERS}


def _suffix(name: str) -> str:
    return PurePath(name).suffix


class _Doorkeeper:
    """Who is let in (rule 1)."""

    def __init__(self, password: str | None) -> None:
        self._password = None if password is None else password.encode()
        self.link_key = secrets.token_urlsafe(24) if password is None else None
        self._sessions: list[str] = []
        self._lock = threading.Lock()

    def knows(self, cookie: str) -> bool:
        """Say whether a cookie is of somebody who was let in."""
        try:
            found = SimpleCookie(cookie).get(_COOKIE)
        except CookieError:
            return False
        if found is None:
            return False
        with self._lock:
            return any(hmac.compare_digest(each.encode(), found.value.encode()) for each in self._sessions)

    def let_in(self, key: str, authorization: str) -> str | None:
        """Return a session for who has the link's key, which is then another one, or the password; else None."""
        with self._lock:
            if self.link_key is not None:
                if not hmac.compare_digest(key.encode(), self.link_key.encode()):
                    return None
                self.link_key = secrets.token_urlsafe(24)
            elif not self._is_password(authorization):
                return None
            session = secrets.token_urlsafe(32)
            self._sessions = [*self._sessions[1 - _SESSIONS :], session]
            return session

    def _is_password(self, authorization: str) -> bool:
        kind, _, encoded = authorization.partition(" ")
        if kind.lower() != "basic" or self._password is None:
            return False
        try:
            _, _, said = base64.b64decode(encoded, validate=True).partition(b":")
        except binascii.Error:
            said = b""
        return hmac.compare_digest(said, self._password)


class _Visit(Exchange):
    """A connection of a browser."""

    def __init__(self, client: ConnectedClient, places: Places, page: PageServer) -> None:
        self._page = page
        super().__init__(client, places)

    def respond(self) -> None:
        """Answer, or act. A body is not read: whatever follows it is not taken for another request."""
        self.close_connection |= self.command != "GET" or "Content-Length" in self.headers
        try:
            match self.command:
                case "GET":
                    self._page.answer(self)
                case "POST":
                    self._page.act(self)
                case _:
                    self.refuse(HTTPStatus.NOT_IMPLEMENTED, "this page accepts GET and POST only")
        except LocalError as error:
            self.refuse(HTTPStatus.NOT_FOUND, f"{error}; {error.hint}" if error.hint else str(error))
        except CoveyError as error:
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def send(self, kind: str, content: bytes, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> None:
        """Send one answer whole."""
        headers["Content-Type"] = kind
        if len(content) >= _LEAST_TO_COMPRESS and self._takes_gzip():
            content = gzip.compress(content, 5)
            headers["Content-Encoding"] = "gzip"
        self._begin(status, {**headers, "Content-Length": str(len(content))})
        self.write(content)

    def refuse_head(self, status: HTTPStatus, why: str) -> None:
        """Answer what is no request."""
        self.refuse(status, why)

    def refuse(self, status: HTTPStatus, why: str, headers: Mapping[str, str] | None = None) -> None:
        """Say why not."""
        self.send("text/plain; charset=utf-8", f"{why}\n".encode(), status, **(headers or {}))

    def redirect(self, path: str, cookie: str) -> None:
        """Send the browser on, without the key in its address."""
        self._begin(HTTPStatus.SEE_OTHER, {"Location": path, "Set-Cookie": cookie, "Content-Length": "0"})

    def stream(self, events: Iterator[Any]) -> None:
        """Send server-sent events (WHATWG HTML, section 9.2) until the client goes."""
        self.close_connection = True
        if not self.enter(Phase.STREAMED):
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
            return
        headers = {"Content-Type": "text/event-stream", "Connection": "close"}
        compress: Callable[[bytes], bytes] = bytes
        if self._takes_gzip():
            headers["Content-Encoding"] = "gzip"
            compress = _pieces(zlib.compressobj(5, zlib.DEFLATED, zlib.MAX_WBITS | _GZIP))
        self._begin(HTTPStatus.OK, headers)
        for event in events:
            text = ": \n\n" if event is None else f"data: {_json(event)}\n\n"
            self.write(compress(text.encode()))

    def has_gone(self) -> bool:
        """Say whether a client that is sent events has gone: until then it has nothing more to say."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(0))

    def _takes_gzip(self) -> bool:
        return "gzip" in self.headers.get("Accept-Encoding", "")

    def _begin(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.begin(status, {**self._page.headers, **headers})


def _pieces(compressor: zlib._Compress) -> Callable[[bytes], bytes]:
    return lambda piece: compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH)


def _tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{certificate} is not a usable certificate: {error.strerror or error}",
            hint="--certificate FILE --key FILE",
        ) from error
    return context


def _json(value: object) -> str:
    """Return a document without characters by which a member's text could reorder or hide text near it."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
