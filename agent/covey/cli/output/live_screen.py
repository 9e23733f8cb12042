"""A screen that is redrawn every other second; q ends it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from covey.cli.grammar import seconds_option
from covey.core.ids import printable
from covey.errors import UsageError

if TYPE_CHECKING:
    import curses
    from collections.abc import Callable, Iterable

    from covey.cli.grammar import Parser

    Look = Callable[[], Iterable[str]]
    """Looks, and returns the lines of the picture."""


def interval_option(parser: Parser, seconds: float = 2.0) -> None:
    seconds_option(parser, "--interval", f"time between two pictures (default: {seconds:g})", seconds)


def read_interval(seconds: float) -> float:
    """Return the seconds between two pictures.

    Raises:
        UsageError: out of bounds.
    """
    if not 0.1 <= seconds <= 3600:
        raise UsageError("--interval must be between 0.1 and 3600 seconds")
    return seconds


def watch(look: Look, interval_s: float, otherwise: str) -> None:
    """Draw until q or Ctrl-C.

    Raises:
        UsageError: this terminal cannot be drawn on; `otherwise` is the command that needs no terminal.
    """
    import curses

    try:
        curses.wrapper(lambda screen: _live(screen, look, interval_s))
    except curses.error as error:
        raise UsageError(
            f"this terminal cannot show a live screen: {error}", hint=f"check TERM; {otherwise}"
        ) from error


def _live(screen: curses.window, look: Look, interval_s: float) -> None:
    import curses

    curses.use_default_colors()
    curses.curs_set(0)
    while True:
        lines = list(look())
        _draw(screen, lines)
        deadline = time.monotonic() + interval_s
        while (left_s := deadline - time.monotonic()) > 0:
            screen.timeout(max(1, int(left_s * 1000)))
            key = screen.getch()
            if key in {ord("q"), ord("Q"), 27}:
                return
            if key == curses.KEY_RESIZE:
                _draw(screen, lines)
            elif key == curses.ERR and not sys.stdin.isatty():
                return  # the terminal has gone, and with it whoever looked


def _draw(screen: curses.window, lines: list[str]) -> None:
    """Draw as many lines as fit."""
    height, width = screen.getmaxyx()
    screen.erase()
    for place, line in enumerate(lines[:height]):
        screen.addnstr(place, 0, printable(line, width), width - 1)  # the last column of the last line would scroll
    screen.refresh()
