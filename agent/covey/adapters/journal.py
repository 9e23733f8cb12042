"""Write log lines on stderr: with a priority for systemd's journal, with the level's name for a terminal.

A line may contain names and texts from peers, so control characters are escaped and its length is bounded here.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from covey.core.ids import printable

_PRIORITIES = {"error": 3, "warning": 4, "notice": 5, "info": 6}
_least = "info"
_CHARACTERS = 1_000
"""Of a line: more than any line of Covey's own needs, with names and a system's message."""


def set_least(level: str) -> None:
    """Have this process write no lines of lower levels from now on."""
    global _least  # noqa: PLW0603 - stderr is the process's own, and so is what goes there
    _least = level


def report(level: str, line: str) -> None:
    """Write one line on stderr; errors of the stream are ignored. A `ports.Report`."""
    if _PRIORITIES[level] > _PRIORITIES[_least]:
        return
    prefix = f"<{_PRIORITIES[level]}>" if "JOURNAL_STREAM" in os.environ else f"{level}: "
    with suppress(OSError):
        print(prefix + printable(line, _CHARACTERS), file=sys.stderr, flush=True)


def notify_person(line: str) -> None:
    """Write a line on stderr where it is a terminal, and nothing elsewhere."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
