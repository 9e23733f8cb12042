"""`covey.app.device.carriage`: what a command knows of the relays that the agent has reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.device.device import open_device
from covey.app.pairing.inviting import check_room
from covey.errors import LocalError
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES

SITE, CLOUD = "mqtts://site.example", "mqtts://cloud.example"


@pytest.mark.parametrize(
    ("noted", "most"),
    [
        ({}, MAXIMUM_ENVELOPE_BYTES),
        ({"site.example:8883": 1_000}, MAXIMUM_ENVELOPE_BYTES),
        ({"site.example:8883": 1_000, "cloud.example:8883": 4_000}, 4_000),
    ],
)
def test_a_command_writes_for_the_relays_that_the_agent_has_reached(
    tmp_path: Path, noted: dict[str, int], most: int
) -> None:
    folder = StateFolder.at(tmp_path / "state")
    folder.create({"relay.url": SITE, "relay.also": (CLOUD,)})
    with open_device(folder) as device, device.store.transaction():
        for name, payload in noted.items():
            device.store.conditions.set(f"payload {name}", str(payload), 1)
    with open_device(folder) as device:
        assert device.node.state.carriage.maximum_payload == most
        assert device.make_node().state.carriage.maximum_payload == most


@pytest.mark.parametrize(("payload", "room"), [(1_500, 1), (4_000, 10), (200_000, 500)])
def test_an_invite_is_refused_if_no_relay_carries_the_manifest(tmp_path: Path, payload: int, room: int) -> None:
    folder = StateFolder.at(tmp_path / "state")
    folder.create({"relay.url": SITE})
    with open_device(folder) as device:
        with device.store.transaction():
            group = device.node.membership.create("hub", (), 1)
            device.store.conditions.set("payload site.example:8883", str(payload), 1)
        check_room(device, group, room)
        with pytest.raises(LocalError, match=f"than the relay accepts: {payload} bytes"):
            check_room(device, group, 2 * room + 2)
