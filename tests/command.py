"""The `covey` command run in this process: what a person would see of it, in milliseconds.

What needs a process of its own (an agent, a signal, an interpreter that has loaded nothing) is run by
`tests.integration.gateway`.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from dataclasses import dataclass
from typing import IO
from unittest import mock

from covey.cli.main import main


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a command."""

    code: int
    stdout: str
    stderr: str


def covey(*words: str, feed: str | bytes = "") -> Ended:
    """Run one command to its end, with this on its stdin."""
    content = feed.encode() if isinstance(feed, str) else feed
    out, err = _written(), _written()
    with tempfile.TemporaryFile() as source:  # which has a descriptor, for commands that wait for input
        source.write(content)
        source.seek(0)
        with (
            mock.patch.object(sys, "stdin", io.TextIOWrapper(source, encoding="utf-8")),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main(list(words))
    return Ended(code, _text(out), _text(err))


def _written() -> io.TextIOWrapper[io.BytesIO]:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()
