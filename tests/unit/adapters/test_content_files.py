"""What is said where files cannot be moved, or have no room."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from covey.adapters.content_files import ContentFiles
from covey.errors import DiskFullError
from covey.limits.content import CONTENT_FREE_BYTES


def test_a_file_leaves_room_for_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outbox has what stays free."""
    files = ContentFiles(tmp_path / "content")
    free = SimpleNamespace(f_bavail=CONTENT_FREE_BYTES // 512 + 2, f_frsize=512)
    monkeypatch.setattr(os, "statvfs", lambda _path: free)
    files.need_room(1_024)
    with pytest.raises(DiskFullError, match="no room for a file of 1025 bytes"):
        files.need_room(1_025)
