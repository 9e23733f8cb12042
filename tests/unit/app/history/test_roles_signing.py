"""`covey.app.history.roles`: an elector signs the state that it makes itself, and tells of any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.history.orders import OperatorChange, SettingOrder
from covey.core.ids import GroupId
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY
from covey.limits.history import ANNOUNCE_US
from tests.elector import Elector
from tests.fleet import Device, carry, found


def _deliver(*devices: Device) -> None:
    """Let all that was written come to all: what waits for an acknowledgement goes in a second message."""
    for _ in range(3):
        carry(*devices)
        for device in devices:
            device.wait(ANNOUNCE_US / 1_000_000)
            device.maintain()
    carry(*devices)


@pytest.fixture
def three(tmp_path: Path) -> tuple[Elector, Elector, Elector, GroupId]:
    devices = [Device(name, tmp_path) for name in ("ann", "ben", "cem")]
    group_id = found(*devices)
    pins = Pins(frozenset(device.key for device in devices))
    ann, ben, cem = (Elector(device, pins) for device in devices)
    ann.say(group_id, OperatorChange(ben.device.key, "Ben", added=True))
    ann.say(group_id, SettingOrder(EVERYBODY, "app.mode", "eco"))
    _deliver(*devices)
    return ann, ben, cem, group_id


@pytest.mark.slow
def test_an_elector_signs_what_it_makes_itself_once(three: tuple[Elector, Elector, Elector, GroupId]) -> None:
    ann, ben, cem, group_id = three
    checkpoint = ann.propose(group_id)
    _deliver(ann.device, ben.device, cem.device)
    for _ in range(3):
        ben.turn()
    ben.device.restart()
    ben.start()
    ben.turn()
    _deliver(ann.device, ben.device, cem.device)
    assert ann.signers(group_id, checkpoint) == {ann.device.key, ben.device.key}
    approvals = [each for each in ann.device.store.operations.nodes(group_id) if each.subject == checkpoint]
    assert len(approvals) == 1, "a restart signs nothing twice"
    cem.turn()
    _deliver(ann.device, ben.device, cem.device)
    assert len(ben.signers(group_id, checkpoint)) == 3


@pytest.mark.slow
def test_a_different_state_is_reported_and_not_signed(three: tuple[Elector, Elector, Elector, GroupId]) -> None:
    ann, ben, cem, group_id = three
    with_one = Pins(frozenset({ann.device.key}))
    foreign = ann.propose(group_id, with_one)
    _deliver(ann.device, ben.device, cem.device)
    for _ in range(2):
        ben.turn()
    assert ben.signers(group_id, foreign) == {ann.device.key}
    assert len(ben.reported) == 1
    assert f"checkpoint {foreign.hex()[:8]}" in ben.reported[0]
    assert "other operators" in ben.reported[0]
