"""What the service tells the server: which requests it answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks."""

    matched: tuple[str, ...]
    query: dict[str, str]
    content_type: str
    body: bytes
    key: str | None = None
    """Of an `Idempotency-Key` header."""
    last_event: str | None = None
    """Of a `Last-Event-ID` header."""
    file: BinaryIO | None = None
    """The body, if its route wants it in a file; open until the answer is made."""


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is not JSON."""

    content_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Octets:
    """An answer of `size` bytes, which come in parts."""

    size: int
    parts: Iterator[bytes]


class NoContent:
    """An answer that says nothing but that it is done."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event of a stream (WHATWG HTML, section 9.2); `id` is the place to resume from, without `type` it is all."""

    id: str | None
    type: str = ""
    data: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer of server-sent events; None in it is a sign of life."""

    events: Iterator[ServerSentEvent | None]


Answer = dict[str, Any] | Text | Octets | NoContent | Iterator[dict[str, Any] | None] | EventStream


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path; groups of the pattern come as `Request.matched`."""

    method: str
    pattern: re.Pattern[str]
    body_bytes_max: int
    answer: Callable[[Request], Answer]
    spool: Callable[[int], BinaryIO] | None = None
    """Gives a file for a body of so many bytes, which is closed after the answer; without it, memory holds bodies."""
