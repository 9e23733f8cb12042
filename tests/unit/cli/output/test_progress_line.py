"""The line that tells a person who waits how far it is, on a terminal of a known width."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios

import pytest

from covey.cli.output.progress_line import ProgressLine, bar_text


@pytest.mark.parametrize(
    ("done", "whole", "bar"),
    [
        (0, 100, "[....................] 0 %"),
        (50, 100, "[##########..........] 50 %"),
        (999, 1_000, "[###################.] 99 %"),
        (100, 100, "[####################] 100 %"),
        (200, 100, "[####################] 100 %"),
        (0, 0, "[####################] 100 %"),
    ],
)
def test_a_bar_is_full_when_all_is_there(done: int, whole: int, bar: str) -> None:
    assert bar_text(done, whole) == bar


@pytest.mark.parametrize(("columns", "shown"), [(40, 39), (0, 79)])
def test_a_line_never_wraps(columns: int, shown: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What wraps is not taken away when the line is redrawn."""
    person, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(terminal, "w") as stream, os.fdopen(person, "rb", buffering=0) as read:
        monkeypatch.setattr("sys.stderr", stream)
        with ProgressLine() as line:
            line.show("n" * 300, last=True)
        drawn = b"\r\x1b[K" + b"n" * shown + b"\r\x1b[K"
        seen = b""
        while len(seen) < len(drawn):  # a terminal gives what has come so far
            seen += read.read(1_000)
        assert seen == drawn
