"""The `covey` command run in this process: what a person would see of it, in milliseconds.

What needs a process of its own (an agent, a signal, an interpreter that has loaded nothing) is run by
`tests.integration.gateway`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest import mock

from covey.cli.main import main
from covey.core.ids import INCARNATION_BYTES, Incarnation
from tests.fleet import write_empty_state


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a command."""

    code: int
    stdout: str
    stderr: str


def covey(*words: str, feed: str | bytes = "") -> Ended:
    """Run one command to its end, with this on its stdin."""
    content = feed.encode() if isinstance(feed, str) else feed
    out, err = _written(), _written("backslashreplace")
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


def _written(errors: str = "strict") -> io.TextIOWrapper[io.BytesIO]:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)


def _text(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()


class Here:
    """A state folder, and commands on it that run in this process."""

    def __init__(self, folder: Path, name: str) -> None:
        """Make it a device. Its database begins as a copy: making the tables takes longer than all the rest."""
        self.state = folder / name
        self.state.mkdir(0o700)
        write_empty_state(self.state / "state.sqlite", Incarnation(os.urandom(INCARNATION_BYTES)))
        self.ok("init", "--label", name)

    def copied(self, folder: Path) -> Here:
        """Return the same device in another folder: making one anew, with groups, takes ten times as long."""
        copy = object.__new__(Here)
        copy.state = shutil.copytree(self.state, folder / self.state.name)
        return copy

    def covey(self, *words: str, feed: str | bytes = "") -> Ended:
        """Run one command to its end."""
        return covey(words[0], "--state", str(self.state), *words[1:], feed=feed)

    def ok(self, *words: str, feed: str | bytes = "") -> str:
        """Run one command that must succeed; return what it printed."""
        ended = self.covey(*words, feed=feed)
        assert ended.code == 0, (words, ended)
        return ended.stdout

    def json(self, *words: str, feed: str | bytes = "") -> Any:
        """Run one command with --json; return the document."""
        return json.loads(self.ok(*words, "--json", feed=feed))

    def json_lines(self, *words: str) -> list[Any]:
        """Run one command with --json that prints a document on each line; return these."""
        return [json.loads(line) for line in self.ok(*words, "--json").splitlines()]

    def fails(self, *words: str, code: int, feed: str | bytes = "") -> str:
        """Run one command that must fail with this exit code and one `error:` line; return its stderr."""
        ended = self.covey(*words, feed=feed)
        assert ended.code == code, (words, ended)
        assert ended.stderr.count("error: ") == 1, ended.stderr
        return ended.stderr
