"""`forwarding`: a board's envelopes inside messages of its gateway, and its acknowledgements back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from covey.core.ids import DeviceKey
from covey.core.link import receiver
from covey.core.routing.forwarding import Forward
from covey.core.telemetry.summaries import read_summary
from covey.core.wire.message import NO_GROUP, Loss, LossReason, MessageType, read_message
from covey.errors import OutboxFullError, RemoteError
from covey_boards.device.thinning import Thinner
from covey_boards.shared import cbor, messages
from covey_boards.shared import tweetnacl as nacl
from covey_boards.shared.batch import Batch
from tests.board import BATCH, Board, enrol
from tests.fleet import Device, carry, found
from tests.unit.core.board_fleet import Fleet, codes
from tests.vectors import load, vectors


def test_a_board_could_write_link_envelopes(fleet: Fleet) -> None:
    """By the cryptography that boards have: nothing more is needed at the collector."""
    board, to = fleet.board, fleet.collector.identity.keys
    tag, key = bytes(range(8)), bytes(range(32))
    fleet.forward(board.message(to, messages.NO_GROUP, MessageType.LINK, cbor.encode([tag, key])))
    fleet.carry()
    assert fleet.acknowledgements() == [1]
    fields = (board.identity, messages.TELEMETRY, to.signing_public, fleet.group_id, board.incarnation, 2, 2, 0, BATCH)
    message = messages.write_message(*fields)
    padded = (message + b"\x80").ljust(messages.padded_length(len(message) + 1), b"\0")
    box = nacl.crypto_secretbox(padded, tag + (1).to_bytes(16, "big"), key)
    fleet.forward(cbor.encode([2, tag, 1, box]))
    fleet.carry()
    assert fleet.landed() == [BATCH]


@pytest.mark.slow
def test_a_boards_message_reaches_the_collector_and_its_acknowledgement_the_board(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    assert fleet.landed() == [BATCH]
    assert fleet.gate.store.outbox.totals()[0] == 0  # the collector has it durably
    assert fleet.acknowledgements() == []  # but not in its vault yet
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == [1]
    assert fleet.acknowledgements() == []  # once


def test_a_boards_summary_lands_and_is_acknowledged(fleet: Fleet) -> None:
    """What a board has thinned while no gateway was there is carried as its batches are."""
    thinner, collector = Thinner(32), fleet.collector.identity.keys
    for number in (1, 2):
        batch = Batch()
        batch.add("soil", "%", 1, 205 + number, number * 1_000_000)
        body = batch.body(number, bytes(8), 0, number * 1_000_000, 1_780_000_000_000_000 + number * 1_000_000)
        signed = messages.write_message(
            fleet.board.identity, messages.TELEMETRY, collector.signing_public, fleet.group_id, bytes(8), 1, 1, 0, body
        )
        assert thinner.take(signed, number)
    fleet.forward(fleet.board.message(collector, fleet.group_id, messages.SUMMARY, thinner.body(bytes(8))))
    fleet.carry()
    assert codes(fleet.collector) == []
    numbers, summary = read_summary(fleet.landed()[0])
    assert numbers == ((1, 2),)
    assert sum(window.readings for series in summary.series for window in series.windows) == 2
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == [1]


def test_landed_messages_are_signed_by_the_board(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    waiting = fleet.collector.store.landing.waiting(1 << 20, 100)
    assert waiting is not None
    [row] = fleet.collector.store.landing.until(waiting[0])
    assert read_message(row.message).author == fleet.board.key


def test_the_gateway_cannot_open_what_it_carries(fleet: Fleet) -> None:
    envelope = fleet.telemetry()
    fleet.gate.receive(envelope)
    assert codes(fleet.gate)[-1:] == ["decryption"]


def test_nobody_sends_a_board_anything_of_the_group(fleet: Fleet) -> None:
    queues = [
        queue.recipient
        for device in (fleet.gate, fleet.other, fleet.collector)
        for queue in device.store.outbox.queues()
    ]
    assert fleet.board.key not in queues
    fleet.gate.blob(fleet.group_id, b"to everybody")
    fleet.carry()
    assert fleet.board.key not in [queue.recipient for queue in fleet.gate.store.outbox.queues()]


def test_a_board_that_is_added_by_its_keys_gets_nothing_of_the_group(fleet: Fleet) -> None:
    board = Board("second")
    with fleet.collector.store.transaction():
        fleet.collector.node.actions.add_device(fleet.group_id, board.member, "", fleet.collector.now)
    fleet.carry()
    assert fleet.gate.node.groups.group(fleet.group_id).member(board.key) is not None
    assert board.key not in fleet.collector.store.outbox.recipients()


def test_a_collector_with_a_board_of_its_own(fleet: Fleet) -> None:
    envelope = fleet.telemetry()
    collector = fleet.collector
    with collector.store.transaction():
        collector.node.forward(fleet.board.key, collector.key, envelope, collector.now)
    assert fleet.landed() == [BATCH]
    fleet.land()
    carry(collector)
    assert fleet.acknowledgements(collector) == [1]


def test_a_restart_forgets_no_way(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    fleet.collector.restart()
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == [1]


def test_a_board_may_change_its_gateway(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    fleet.forward(fleet.telemetry(), fleet.other)
    fleet.carry()
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == []
    assert fleet.acknowledgements(fleet.other) == [2]


def test_a_board_that_moved_and_only_repeats_is_answered_where_it_is(fleet: Fleet) -> None:
    envelope = fleet.telemetry()
    fleet.forward(envelope)
    fleet.carry()
    fleet.land()
    fleet.carry()
    fleet.gate.node.routes.take()
    fleet.forward(envelope, fleet.other)
    fleet.carry()
    assert fleet.acknowledgements(fleet.other) == [1]


def test_an_old_envelope_takes_no_way(fleet: Fleet) -> None:
    kept = fleet.telemetry()
    fleet.forward(kept)
    fleet.carry()
    fleet.forward(kept, fleet.other)
    fleet.carry()
    fleet.other.node.routes.take()
    fleet.forward(fleet.telemetry())
    fleet.carry()
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements()[-1:] == [2]
    assert fleet.collector.store.carriers.of(fleet.board.key) == fleet.gate.key


def test_a_full_outbox_refuses_forwards(tmp_path: Path) -> None:
    gate, collector = Device("gate", tmp_path), Device("collector", tmp_path, collects=True)
    group_id = found(gate, collector)
    board = Board("board")
    enrol(board, gate, group_id)
    carry(gate, collector)
    fleet = Fleet(gate, gate, collector, board, group_id)
    collector.nodes.collects = False
    collector.restart()
    fleet.forward(fleet.telemetry())
    for outgoing in gate.sends():
        collector.receive(outgoing.envelope)
    assert fleet.landed() == []
    assert gate.store.outbox.totals()[0] == 1
    with pytest.raises(OutboxFullError), collector.store.transaction():
        collector.node.forward(board.key, collector.key, fleet.telemetry(), collector.now)


def test_a_full_outbox_gives_up_the_oldest_envelopes_and_says_so(tmp_path: Path) -> None:
    gate = Device("gate", tmp_path, outbox_bytes=8_000)
    collector = Device("collector", tmp_path, collects=True)
    group_id = found(gate, collector)
    board = Board("board")
    enrol(board, gate, group_id)
    carry(gate, collector)
    fleet = Fleet(gate, gate, collector, board, group_id)
    for _ in range(40):
        fleet.forward(fleet.telemetry())
    assert gate.store.outbox.totals()[1] <= 8_000
    carry(gate, collector)
    assert collector.store.counters.values()["lost_messages"] > 0
    assert 0 < len(fleet.landed()) < 40


def test_a_loss_of_the_board_counts_on_its_own_link(fleet: Fleet) -> None:
    fleet.telemetry()  # which the board gives up
    loss = Loss(LossReason.OUTBOX_FULL, ((1, 1),)).to_wire()
    fleet.forward(fleet.board.message(fleet.collector.identity.keys, NO_GROUP, messages.LOSS, loss))
    fleet.carry()
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == [2]
    assert fleet.collector.store.counters.values()["lost_messages"] == 1


def test_a_board_may_restart_more_often_than_links_are_remembered(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "INCARNATIONS", 3)
    for number in range(10):
        fleet.board.incarnation, fleet.board.sent = b"boot %03d" % number, 0
        fleet.forward(fleet.telemetry())
        fleet.carry()
        fleet.land()
        fleet.carry()
        assert fleet.acknowledgements() == [1]
    assert fleet.collector.store.received.count(fleet.board.key) <= 3


def test_a_board_far_ahead_learns_its_position(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    fleet.forward(fleet.board.sealed(fleet.collector.identity.keys, fleet.group_id, messages.TELEMETRY, BATCH, 20_000))
    fleet.carry()
    assert codes(fleet.collector)[-1] == "limit"
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements()[-1:] == [1]


@pytest.mark.parametrize("vector", vectors("messages", "forwards"))
def test_forwards(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        to = DeviceKey(bytes.fromhex(load("messages")["keys"][vector["to"]]["signing_public"]))
        expected = Forward(to, bytes.fromhex(vector["envelope"]))
        assert Forward.from_wire(body) == expected
        assert expected.to_wire() == body
        return
    with pytest.raises(RemoteError) as caught:
        Forward.from_wire(body)
    assert caught.value.code == vector["code"]


def test_a_board_in_two_groups_sends_to_the_collector_of_either(fleet: Fleet, tmp_path: Path) -> None:
    second = Device("second", tmp_path, collects=True)
    group_id = found(fleet.gate, second)
    enrol(fleet.board, fleet.gate, group_id)
    carry(fleet.gate, second)
    envelope = fleet.board.message(second.identity.keys, group_id)
    with fleet.gate.store.transaction():
        fleet.gate.node.forward(fleet.board.key, second.key, envelope, fleet.gate.now)
    carry(fleet.gate, second)
    fleet.collector = second
    assert fleet.landed() == [BATCH]
    fleet.land()
    carry(fleet.gate, second)
    assert fleet.acknowledgements() == [1]
