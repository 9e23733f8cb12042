"""One line for whoever runs a process: to systemd's journal with its priority, to a person with the level's name."""

from __future__ import annotations

import os
import sys

_PRIORITIES = {"error": 3, "warning": 4, "notice": 5, "info": 6}


def report(level: str, line: str) -> None:
    """Write one line on stderr; implements `ports.Report`."""
    prefix = f"<{_PRIORITIES[level]}>" if "JOURNAL_STREAM" in os.environ else f"{level}: "
    print(prefix + line, file=sys.stderr, flush=True)


def notify_person(line: str) -> None:
    """Write a line on stderr where it is a terminal, and nothing elsewhere."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
