"""Content for a board: from its collector alone, and kept there until the board has it."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.group.manifest import GroupManifest
from covey.core.ids import DeviceKey, EpochId
from covey.core.wire import cbor
from covey.errors import LocalError
from covey.limits.board import MAXIMUM_BOARD_BLOB_BYTES
from covey_boards.shared import messages
from tests.fleet import Device, carry
from tests.unit.core.board_fleet import Fleet


def _opened(fleet: Fleet, device: Device) -> list[list[Any]]:
    """Return the messages that wait for the board at a gateway, as the board reads them."""
    secret = fleet.board.identity.noise_secret
    return [
        messages.read_message(messages.open_sealed(forward.envelope, secret)) for forward in device.node.routes.take()
    ]


def _send_down(fleet: Fleet, content: bytes) -> None:
    with fleet.collector.store.transaction():
        fleet.collector.node.send_blob(fleet.group_id, content, fleet.collector.now, fleet.board.key)


def test_a_blob_for_a_board_waits_at_the_collector_until_the_board_has_it(fleet: Fleet) -> None:
    _send_down(fleet, b"interval 5")
    fleet.carry()
    assert fleet.gate.node.routes.take() == [], "no way to the board is known yet"
    fleet.forward(fleet.telemetry())
    fleet.carry()
    [blob] = [fields for fields in _opened(fleet, fleet.gate) if fields[0] == messages.BLOB]
    assert (blob[1], blob[2], blob[6], blob[8]) == (fleet.collector.key, fleet.board.key, 1, b"interval 5")
    assert fleet.collector.store.outbox.totals()[0] == 1, "the gateway has it, and that proves nothing"
    fleet.collector.wait(10)
    fleet.carry()
    assert [fields[8] for fields in _opened(fleet, fleet.gate)][-1:] == [b"interval 5"], "it is sent again"
    answer = cbor.encode([blob[4], [1, []]])
    fleet.forward(fleet.board.sealed(fleet.collector.identity.keys, messages.NO_GROUP, messages.ACK, answer, 0))
    fleet.carry()
    assert fleet.collector.store.outbox.totals()[0] == 0


def test_a_blob_for_a_board_of_the_collectors_own_needs_no_relay_between(fleet: Fleet) -> None:
    collector = fleet.collector
    with collector.store.transaction():
        collector.node.forward(fleet.board.key, collector.key, fleet.telemetry(), collector.now)
    _send_down(fleet, b"one")
    _send_down(fleet, b"two")
    carry(collector)
    assert [fields[8] for fields in _opened(fleet, collector) if fields[0] == messages.BLOB] == [b"one", b"two"]


def test_a_board_is_sent_to_by_its_collector_alone_and_what_it_can_hold(fleet: Fleet) -> None:
    with pytest.raises(LocalError, match="collector alone"), fleet.gate.store.transaction():
        fleet.gate.node.send_blob(fleet.group_id, b"x", fleet.gate.now, fleet.board.key)
    with pytest.raises(LocalError, match="no other member"), fleet.gate.store.transaction():
        fleet.gate.node.send_blob(fleet.group_id, b"x", fleet.gate.now, DeviceKey(bytes(32)))
    with pytest.raises(LocalError, match="2048"):
        _send_down(fleet, bytes(MAXIMUM_BOARD_BLOB_BYTES + 1))
    fleet.forward(fleet.telemetry())
    fleet.carry()
    _send_down(fleet, bytes(MAXIMUM_BOARD_BLOB_BYTES))
    fleet.carry()
    [blob] = [fields for fields in _opened(fleet, fleet.gate) if fields[0] == messages.BLOB]
    assert len(blob[8]) == MAXIMUM_BOARD_BLOB_BYTES


def test_a_blob_to_one_member_goes_to_no_other(fleet: Fleet) -> None:
    with fleet.gate.store.transaction():
        assert fleet.gate.node.send_blob(fleet.group_id, b"you", fleet.gate.now, fleet.other.key) == 1
    assert fleet.gate.store.outbox.recipients() == [fleet.other.key]


def test_what_waits_for_a_removed_board_goes(fleet: Fleet) -> None:
    _send_down(fleet, b"never")

    def edit(draft: GroupManifest, epoch_id: EpochId) -> GroupManifest:
        return draft.removing(fleet.board.key, epoch_id)

    with fleet.gate.store.transaction():
        fleet.gate.node.actions.change(fleet.group_id, edit, fleet.gate.now)
    fleet.carry()
    assert fleet.collector.store.outbox.recipients() == []
