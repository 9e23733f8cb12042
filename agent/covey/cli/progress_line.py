"""One line that tells a person who waits how far it is."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

_REDRAWN_S = 0.1


class ProgressLine:
    """A line of stderr that is redrawn on a terminal, and leaves it at the end; elsewhere nothing.

    `plain`: where there is no terminal, each text is printed as a line, once.
    """

    def __init__(self, *, plain: bool = False) -> None:
        self._plain = plain
        self._terminal = sys.stderr.isatty()
        self._shown_at = 0.0
        self._text = ""

    def show(self, text: str, *, last: bool = False) -> None:
        """Show a text, on a terminal at most ten times a second; the last one in any case."""
        if self._terminal and (last or time.monotonic() - self._shown_at > _REDRAWN_S):
            self._shown_at = time.monotonic()
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif self._plain and not self._terminal and text != self._text:
            print(text, file=sys.stderr, flush=True)
        self._text = text

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Leave the line, for what comes after it."""
        if self._terminal and self._shown_at:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
