"""What alerts remember comes back from the file as it was, and is written only when it has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.alert_file import AlertFile
from covey.core.alerts import AlertBook, AlertFinding, AlertKind, AlertMessage, Subject
from covey.errors import StorageError

_SUBJECT = Subject(AlertKind.STALE, "ab" * 32, "air:temperature Cel")


def _book() -> AlertBook:
    book = AlertBook(number=7)
    book.look([(_SUBJECT, AlertFinding("büro", "has had no value", 5, 9))], {_SUBJECT.device}, 10, 0)
    book.enqueue(AlertMessage("a-7", "stale", ended=False, title="t", text="x", at_us=10, devices=("ab",)), ["mail"])
    book.queue("mail").refused("no", 20)
    return book


def test_an_alert_file_reads_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "alerts.json"
    assert AlertFile(path).read() == AlertBook()
    AlertFile(path).write(_book())
    assert AlertFile(path).read() == _book()
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unchanged_alert_file_is_not_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "alerts.json"
    file = AlertFile(path)
    file.write(_book())
    before = path.stat().st_ino
    file.write(_book())
    assert path.stat().st_ino == before


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "episodes": [[1]]}'])
def test_a_damaged_file_is_said(tmp_path: Path, content: str) -> None:
    path = tmp_path / "alerts.json"
    path.write_text(content)
    with pytest.raises(StorageError, match="is damaged"):
        AlertFile(path).read()
