"""A file that is replaced: what it takes over from the one before, and what a killed writer leaves."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from covey.adapters.files import remove_leftovers, replace_durably, replace_file
from covey.errors import StorageError


def test_a_file_is_replaced_whole_and_may_keep_the_mode_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    replace_file(path, b"one", 0o600)
    path.chmod(0o644)
    replace_file(path, b"two", 0o600, like=path.stat())
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o644)
    replace_file(path, memoryview(b"three"), 0o600)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"three", 0o600)
    assert [*tmp_path.iterdir()] == [path]


def test_a_failed_replacement_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        replace_durably(tmp_path / "folder", b"one", 0o600)
    assert [*tmp_path.iterdir()] == [tmp_path / "folder"]


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    kept = {"a", ".a", ".lock", ".tmp", ".0123456789abcde.tmp", ".0.5b1c.tmp", ".0123456789abcdeg.tmp"}
    for name in (*kept, ".0123456789abcdef.tmp"):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept
