"""`covey.adapters.http.exchange`: what a request begins with and what is refused."""

from __future__ import annotations

import io
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.http.exchange import Head, HeadError, read_head

START = b"GET /x?y=1 HTTP/1.1\r\n"


def _read(raw: bytes) -> Head | None:
    return read_head(io.BytesIO(raw))


def test_a_head_is_read_as_it_was_sent() -> None:
    head = _read(b"\r\nPOST /v1/x%20y HTTP/1.1\r\nHOST: covey \r\nX:\t a:b  c\r\nx: second\r\nEmpty:\r\n\r\nbody")
    assert head is not None
    assert (head.method, head.target, head.keeps_open) == ("POST", "/v1/x%20y", True)
    assert head.fields.get("Host") == "covey"
    assert head.fields.get_all("X") == ["a:b  c", "second"]
    assert "empty" in head.fields
    assert "none" not in head.fields


def test_a_client_that_ends_sends_no_head() -> None:
    assert _read(b"") is None
    assert _read(b"\r\n") is None


@pytest.mark.parametrize(
    ("raw", "open_after"),
    [
        (START + b"\r\n", True),
        (START + b"Connection: Close\r\n\r\n", False),
        (START + b"Connection: x, close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\nConnection: keep-alive\n\n", True),
    ],
)
def test_whether_a_connection_stays_is_as_the_client_says(raw: bytes, open_after: bool) -> None:
    head = _read(raw)
    assert head is not None
    assert head.keeps_open is open_after


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01", HTTPStatus.BAD_REQUEST),  # TLS
        (b"GET /x\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET  /x HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /x y HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /x HTTP/1.1 \r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GE\x00T /x HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /x HTTP/2.0\r\n\r\n", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        (START + b"Name : x\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (START + b" Name: x\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (START + b"Name: x\r\n continued\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (START + b"Name\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (START + b": x\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (START + b"Name: x\ry\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (START + b"Name: x\x00\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (START + b"Name: x\r\n", HTTPStatus.BAD_REQUEST),  # the client ends within its head
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", HTTPStatus.REQUEST_URI_TOO_LONG),
        (START + b"Name: " + b"x" * 70_000 + b"\r\n\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (START + b"Name: x\r\n" * 101 + b"\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
def test_ambiguous_requests_are_refused(raw: bytes, status: HTTPStatus) -> None:
    with pytest.raises(HeadError) as refused:
        _read(raw)
    assert refused.value.status is status


@given(st.binary(max_size=200))
def test_any_bytes_give_a_head_or_a_refusal(raw: bytes) -> None:
    for start in (b"", START):
        try:
            _read(start + raw)
        except HeadError:
            continue
