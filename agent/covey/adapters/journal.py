"""One line for whoever runs a process: to systemd's journal with its priority, to a person with the level's name."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_PRIORITIES = {"error": 3, "warning": 4, "notice": 5, "info": 6}
_least = "info"


def set_least(level: str) -> None:
    """Have this process write no lines of lower levels from now on."""
    global _least  # noqa: PLW0603 - stderr is the process's own, and so is what goes there
    _least = level


def report(level: str, line: str) -> None:
    """Write one line on stderr, if that takes it: a log that cannot be written stops nothing. A `ports.Report`."""
    if _PRIORITIES[level] > _PRIORITIES[_least]:
        return
    prefix = f"<{_PRIORITIES[level]}>" if "JOURNAL_STREAM" in os.environ else f"{level}: "
    with suppress(OSError):
        print(prefix + line, file=sys.stderr, flush=True)


def notify_person(line: str) -> None:
    """Write a line on stderr where it is a terminal, and nothing elsewhere."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
