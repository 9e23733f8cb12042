"""Who ends an export or an import by Ctrl-C reads what stays of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.cli.main import INTERRUPTED
from tests.command import Here


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("export", "interrupted: the files in {} are complete; all messages stay queued here"),
        ("import", "interrupted: the messages read so far are imported; import the same files again to continue"),
    ],
)
def test_what_stays_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, says: str) -> None:
    def interrupt(*_: object) -> Iterator[object]:
        raise KeyboardInterrupt
        yield

    here = Here(tmp_path, "hub")
    monkeypatch.setattr(f"covey.app.relays.export_files.{action}_files", interrupt)
    ended = here.covey("message", action, str(tmp_path / "stick"))
    assert ended.code == INTERRUPTED
    assert ended.stderr.startswith(says.format(tmp_path / "stick"))
