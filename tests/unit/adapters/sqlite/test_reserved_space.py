"""`covey.adapters.sqlite.reserved_space` on a file system that is really full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.small_disk import anywhere, live_on_a_full_disk


@pytest.mark.processes
def test_a_full_disk_takes_acknowledgements_and_recovers(tmp_path: Path) -> None:
    anywhere(live_on_a_full_disk, tmp_path)
