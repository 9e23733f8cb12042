"""What commands change in groups, as a person uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.app.groups.groups import found_collectors_group
from covey.errors import LocalError
from tests.command import Here


@pytest.fixture
def device(tmp_path: Path) -> Here:
    return Here(tmp_path, "greenhouse")


def test_a_collector_makes_its_group_once(device: Here) -> None:
    for _ in range(2):
        with open_device(find_state(str(device.state))) as opened:
            found_collectors_group(opened)
    [member] = device.json("group", "show")["members"]
    assert member["capabilities"] == ["collector"]


def test_a_gateway_is_not_made_a_collector_by_mistake(device: Here) -> None:
    """`sudo covey collect --new-group` on a gateway once replaced its service."""
    device.ok("group", "create")
    with (
        open_device(find_state(str(device.state))) as opened,
        pytest.raises(LocalError, match="not a collector") as caught,
    ):
        found_collectors_group(opened)
    assert "covey group profile --capability collector" in caught.value.hint
    device.ok("group", "profile", "--capability", "collector")
    with open_device(find_state(str(device.state))) as opened:
        found_collectors_group(opened)


def test_a_renamed_device_has_one_name(device: Here) -> None:
    device.ok("group", "create")
    device.ok("group", "profile", "--label", "orchard")
    assert device.json("status")["label"] == "orchard"
    device.ok("own", "create")
    assert {each["label"] for each in device.json("own", "devices")} == {"orchard"}
