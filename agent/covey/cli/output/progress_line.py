"""A progress line on stderr, no longer than the terminal is wide."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Self

_REDRAWN_S = 0.1
_BAR = 20
_COLUMNS = 80
"""Of a terminal that does not say how wide it is."""


def bar_text(done: int, whole: int) -> str:
    """Return a progress bar: `[##########..........] 50 %`."""
    share = min(1.0, done / whole) if whole else 1.0
    filled = int(share * _BAR)
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {int(100 * share)} %"


class ProgressLine:
    """A line of stderr, redrawn on a terminal; elsewhere nothing.

    `plain`: without a terminal, print each text once, as a line.
    """

    def __init__(self, *, plain: bool = False) -> None:
        self._plain = plain
        self._terminal = sys.stderr.isatty()
        self._shown_at = 0.0
        self._text = ""

    def show(self, text: str, *, last: bool = False) -> None:
        """Show a text, on a terminal at most ten times a second; the last one always."""
        if self._terminal and (last or time.monotonic() - self._shown_at > _REDRAWN_S):
            self._shown_at = time.monotonic()
            print(f"\r\033[K{text[: _columns() - 1]}", end="", file=sys.stderr, flush=True)  # a wrapped one stays
        elif self._plain and not self._terminal and text != self._text:
            print(text, file=sys.stderr, flush=True)
        self._text = text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """End the line."""
        if self._terminal and self._shown_at:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        return _COLUMNS
