"""`device_to_join`: a device that cannot be made leaves nothing behind."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.device.creating import device_to_join
from covey.errors import CoveyError


@pytest.mark.parametrize("room", [100, 20_000])
def test_a_disk_without_room_for_a_device_holds_nothing_of_it(tmp_path: Path, room: int) -> None:
    folder, limits = StateFolder.at(tmp_path / "state"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))  # stands in for the disk's end
    try:
        with pytest.raises(CoveyError), device_to_join(folder, "shed"):
            pytest.fail("it was made")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not folder.path.exists()
    with device_to_join(folder, "shed"):
        assert not folder.is_new
