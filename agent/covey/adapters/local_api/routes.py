"""What the service tells the server: which requests it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks."""

    matched: tuple[str, ...]
    query: dict[str, str]
    content_type: str
    body: bytes
    key: str | None = None
    """Of an `Idempotency-Key` header."""


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is not JSON."""

    content_type: str
    text: str


Answer = dict[str, Any] | Text | Iterator[dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path; groups of the pattern come as `Request.matched`."""

    method: str
    pattern: str
    body_bytes_max: int
    answer: Callable[[Request], Answer]
