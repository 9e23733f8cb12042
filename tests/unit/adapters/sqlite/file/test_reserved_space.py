"""`covey.adapters.sqlite.file.reserved_space` on a file system that is really full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.small_disk import (
    anywhere,
    fill_the_disk_by_queueing,
    live_on_a_full_disk,
    start_after_a_kill_on_a_full_disk,
)


@pytest.mark.processes
def test_a_full_disk_takes_acknowledgements_and_recovers(tmp_path: Path) -> None:
    anywhere(live_on_a_full_disk, tmp_path)


@pytest.mark.processes
def test_a_state_opens_after_a_kill_on_a_full_disk(tmp_path: Path) -> None:
    anywhere(start_after_a_kill_on_a_full_disk, tmp_path)


@pytest.mark.processes
def test_an_outbox_that_has_filled_its_disk_is_filled_again(tmp_path: Path) -> None:
    anywhere(fill_the_disk_by_queueing, tmp_path)
