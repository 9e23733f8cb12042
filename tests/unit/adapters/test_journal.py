"""`covey.adapters.journal`: what goes to the journal, and what is too little to be written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.journal import report, set_least
from tests.command import Here


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    yield
    set_least("info")


def _written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    for level in ("info", "notice", "warning", "error"):
        report(level, "a line")
    return capsys.readouterr().err.splitlines()


def test_lines_of_lower_levels_are_not_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    assert _written(capsys) == ["info: a line", "notice: a line", "warning: a line", "error: a line"]
    set_least("warning")
    assert _written(capsys) == ["warning: a line", "error: a line"]
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    assert _written(capsys) == ["<4>a line", "<3>a line"]


def test_a_line_stays_one_short_line_whatever_a_peer_is_called(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    report("warning", "dropped an envelope from pump\n<0>kernel: \x1b[2Jpanic " + "x" * 5_000)
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert "\x1b" not in written
    assert len(written) < 1_100


def test_a_level_is_one_of_a_few_words(tmp_path: Path) -> None:
    device = Here(tmp_path, "gateway")
    said = device.fails("config", "set", "log.level", "loud", code=78)
    assert "log.level must be one of: info, notice, warning, error" in said
    device.ok("config", "set", "log.level", "error")
    assert device.ok("config", "get", "log.level").strip() == "error"
