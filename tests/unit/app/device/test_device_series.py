"""`covey.app.device.device`: a device's rules for series reach all that queues its readings."""

from __future__ import annotations

from pathlib import Path

from covey.adapters.state_folder import StateFolder
from covey.app.device.device import open_device


def test_a_device_thins_by_its_rules_and_by_new_ones_without_a_restart(tmp_path: Path) -> None:
    folder = StateFolder.at(tmp_path / "state")
    folder.create({"telemetry.series": ("cpu/* keep newest",)})
    with open_device(folder) as device:
        nodes = (device.node, device.make_node())
        assert [node._queue.in_one_window("cpu/0") for node in nodes] == [True, True]
        device.series.change(("disk/* keep newest",))
        assert [node._queue.in_one_window("cpu/0") for node in nodes] == [False, False]
        assert nodes[1]._queue.in_one_window("disk/0")
