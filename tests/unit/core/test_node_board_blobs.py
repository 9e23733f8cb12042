"""Content for a board: from its only from its collector, and kept there until the board has it."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.group.manifest import GroupManifest
from covey.core.ids import DeviceKey, EpochId
from covey.core.wire import cbor
from covey.errors import LocalError
from covey.limits.board import MAXIMUM_BOARD_BLOB_BYTES
from covey_boards.shared import messages
from tests.fleet import Device
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


def _answered(fleet: Fleet, incarnation: bytes, upto: int) -> list[list[Any]]:
    """Have the board answer on a line of its collector's; return what comes down that line then."""
    collector = fleet.collector
    body = cbor.encode([incarnation, [upto, []]])
    answer = fleet.board.sealed(collector.identity.keys, messages.NO_GROUP, messages.ACK, body, 0)
    with collector.store.transaction():
        collector.node.forward(fleet.board.key, collector.key, answer, collector.now)
    collector.node.hand_to_boards(collector.now)
    return _opened(fleet, collector)


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


def test_a_collectors_messages_for_its_own_board_use_no_relay(fleet: Fleet) -> None:
    collector = fleet.collector
    with collector.store.transaction():
        collector.node.forward(fleet.board.key, collector.key, fleet.telemetry(), collector.now)
    fleet.carry()
    for number in range(6):
        _send_down(fleet, b"%d" % number)
    assert collector.sends() == []
    assert collector.node.routes.take() == [], "it is on no line yet"
    collector.node.connection_lost()
    collector.node.routes.on_line = frozenset({fleet.board.key})  # as its bridge says
    collector.node.hand_to_boards(collector.now)
    blobs = [fields for fields in _opened(fleet, collector) if fields[0] == messages.BLOB]
    assert [fields[8] for fields in blobs] == [b"0", b"1", b"2", b"3"], "no more than a gateway keeps, in their order"
    collector.node.hand_to_boards(collector.now)
    assert collector.node.routes.take() == []
    assert [fields[8] for fields in _answered(fleet, blobs[0][4], 2)] == [b"4", b"5"]
    collector.store.outbox.forget(fleet.board.key)
    [resumption] = _answered(fleet, blobs[0][4], 2)
    assert (resumption[0], resumption[8]) == (messages.RESUME, cbor.encode([[3, 6]]))


def test_a_board_is_sent_to_by_its_collector_alone_and_what_it_can_hold(fleet: Fleet) -> None:
    with pytest.raises(LocalError, match="only from its collector"), fleet.gate.store.transaction():
        fleet.gate.node.send_blob(fleet.group_id, b"x", fleet.gate.now, fleet.board.key)
    with pytest.raises(LocalError, match="not another member"), fleet.gate.store.transaction():
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


@pytest.mark.slow
def test_messages_for_a_removed_board_are_dropped(fleet: Fleet) -> None:
    _send_down(fleet, b"never")

    def edit(draft: GroupManifest, epoch_id: EpochId) -> GroupManifest:
        return draft.removing(fleet.board.key, epoch_id)

    with fleet.gate.store.transaction():
        fleet.gate.node.actions.change(fleet.group_id, edit, fleet.gate.now)
    fleet.carry()
    assert fleet.collector.store.outbox.recipients() == []
