"""Who ends an export or an import by Ctrl-C reads what stays of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.cli.main import INTERRUPTED
from tests.command import Here


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("export", "interrupted: the files in {} are complete; all messages stay queued here"),
        ("import", "interrupted: the messages read so far are imported; import the same files again to continue"),
    ],
)
def test_an_interrupted_transfer_says_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, says: str
) -> None:
    def interrupt(*_: object) -> Iterator[object]:
        raise KeyboardInterrupt
        yield

    here = Here(tmp_path, "hub")
    monkeypatch.setattr(f"covey.app.relays.export_files.{action}_files", interrupt)
    ended = here.covey("message", action, str(tmp_path / "stick"))
    assert ended.code == INTERRUPTED
    assert ended.stderr.startswith(says.format(tmp_path / "stick"))


def test_a_missing_file_suggests_the_option_for_words(tmp_path: Path) -> None:
    said = Here(tmp_path, "hub").fails("message", "send", "hello", code=2)
    assert said == "error: hello cannot be read: No such file or directory\nhint: to send words: --text 'WORDS'\n"


def test_an_ephemeral_message_without_the_local_api_says_what_is_missing(tmp_path: Path) -> None:
    here = Here(tmp_path, "hub")
    words = ("message", "send", "--text", "x", "--ephemeral")
    assert "hint: start it: covey run" in here.fails(*words, code=1)
    with open_device(find_state(str(here.state))) as device:
        lock = device.folder.locks.agent()
        assert lock is not None
        assert "hint: covey config set api.socket" in here.fails(*words, code=1)
        os.close(lock)
