"""Who ends a command by Ctrl-C reads what stays, once, and only then."""

from __future__ import annotations

import pytest

from covey.cli.output.terminal import explained_interruption


def test_an_interruption_reports_what_remains_and_the_command_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), explained_interruption(lambda: "half of it stays here"):
        raise KeyboardInterrupt
    assert capsys.readouterr() == ("", "interrupted: half of it stays here\n")


def test_what_ends_otherwise_tells_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="gone"), explained_interruption(lambda: "half"):
        raise OSError("gone")
    with explained_interruption(lambda: "half"):
        pass
    assert capsys.readouterr() == ("", "")
