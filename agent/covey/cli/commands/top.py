"""`covey top`: this device's status, redrawn every other second; q ends it.

Without a terminal, or with --once, it prints one picture: `covey status`, and the difference between two of them. The
agent answers one query for each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.cli.device_options import device_api
from covey.cli.grammar import Parser
from covey.cli.output.live_screen import interval_option, read_interval, watch
from covey.cli.output.status_view import BOARDS_HEAD, DEVICES_HEAD, boards, devices, overview
from covey.cli.output.terminal import table_lines

if TYPE_CHECKING:
    from covey.app.checks.documents import Status

_LOSSES = ("dropped_", "quarantined_", "lost_", "refused_", "unresolved_")
"""Counters of what did not get where it should."""


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--once", action="store_true", help="print once and exit")
    interval_option(parser)


def run(options: argparse.Namespace) -> int:
    interval_s = read_interval(options.interval)
    view = _View(options)
    if options.once or not sys.stdout.isatty():
        view.look()
        time.sleep(interval_s)
        view.look()
        print("\n".join(view.lines()))
        return 0
    watch(view.picture, interval_s, "covey top --once")
    return 0


class _View:
    """Compares two looks at one device."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._before: tuple[float, Status] | None = None
        self._now: tuple[float, Status] | None = None

    def look(self) -> None:
        with device_api(self._options) as device:
            self._before, self._now = self._now, (time.monotonic(), device.status())

    def picture(self) -> Iterator[str]:
        """Look, and yield the picture."""
        self.look()
        return self.lines()

    def lines(self) -> Iterator[str]:
        assert self._now is not None
        status = self._now[1]
        yield from overview(status)
        yield from self._rates()
        losses = {name: value for name, value in status.counters.items() if name.startswith(_LOSSES) and value}
        yield "losses   " + (", ".join(f"{name} {value}" for name, value in losses.items()) or "none")
        rows = list(devices(status))
        if rows:
            yield ""
            yield from table_lines(DEVICES_HEAD, rows)
        if status.boards:
            yield ""
            yield from table_lines(BOARDS_HEAD, list(boards(status)))

    def _rates(self) -> Iterator[str]:
        """Yield a line of rates; the first look has none."""
        assert self._now is not None
        if self._before is None:
            yield "rates    -"
            return
        before, now = _moved(self._before[1]), _moved(self._now[1])
        seconds = self._now[0] - self._before[0]
        yield "rates    " + ", ".join(f"{name} {max(0, now[name] - before[name]) / seconds:.1f}/s" for name in now)


def _moved(status: Status) -> dict[str, int]:
    """Return the totals of moved messages and bytes, by name."""
    counters = status.counters
    return {
        "readings published": counters.get("published_readings", 0),
        "messages published": counters.get("published_messages", 0),
        "acknowledged": sum(each.acknowledged for each in status.queues),
        "stored": counters.get("landed_messages", 0),
    }
