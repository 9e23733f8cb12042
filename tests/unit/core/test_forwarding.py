"""`agent.core.forwarding`: a board's envelopes inside messages of its gateway, and its acknowledgements back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.core import inbox, wire
from agent.core.crypto import Identity
from agent.core.envelope import seal
from agent.core.events import EnvelopeDropped
from agent.core.forwarding import Forward, Routes
from agent.core.group_manifest import GroupManifest, Member
from agent.core.ids import truncate_utf8
from agent.core.limits import BOARD_ENVELOPES_WAITING, MAXIMUM_BOARD_BLOB_BYTES, MAXIMUM_BOARD_MESSAGE_BYTES
from agent.core.message import NO_GROUP, Acknowledgement, Loss, LossReason, MessageType, read_message, write_message
from agent.core.records import LandingPlan
from agent.core.sequences import SequenceSet
from agent.errors import LimitError, LocalError, MalformedError, OutboxFullError, RemoteError
from firmware_bridge.shared import cbor, messages
from firmware_bridge.shared import tweetnacl as nacl
from tests.board import BATCH, Board, enrol
from tests.fleet import Device, carry, found
from tests.vectors import load, vectors


@dataclass
class Fleet:
    """Two gateways, a collector and a board behind the first gateway."""

    gate: Device
    other: Device
    collector: Device
    board: Board
    group_id: bytes

    def telemetry(self) -> bytes:
        return self.board.message(self.collector.identity.keys, self.group_id)

    def forward(self, envelope: bytes, by: Device | None = None) -> None:
        gateway = by or self.gate
        with gateway.store.transaction():
            gateway.node.forward(self.board.key, self.collector.key, envelope, gateway.now)

    def land(self) -> None:
        """Let the collector put everything into its vault, and tell."""
        collector = self.collector
        waiting = collector.store.landing_waiting(1 << 20, 100)
        assert waiting is not None
        with collector.store.transaction():
            for landed in collector.store.landing_until(waiting[0]):
                collector.node.landed(landed.author, landed.incarnation, {landed.link_seq}, collector.now)
            plan = LandingPlan(1, b"incarnat", waiting[0], 1, bytes(24))
            collector.store.plan_landing(plan)
            collector.store.finish_landing(plan, 1)

    def carry(self) -> None:
        carry(self.gate, self.other, self.collector)

    def acknowledgements(self, device: Device | None = None) -> list[int]:
        taken = (device or self.gate).node.routes.take()
        assert {forward.to for forward in taken} <= {self.board.key}
        return [self.board.acknowledged(forward.envelope) for forward in taken]

    def landed(self) -> list[bytes]:
        """Return the bodies that the collector holds of the board."""
        waiting = self.collector.store.landing_waiting(1 << 20, 100)
        rows = self.collector.store.landing_until(waiting[0]) if waiting else []
        return [read_message(row.message).body for row in rows if row.author == self.board.key]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    gate, other = Device("gate", tmp_path), Device("other", tmp_path)
    collector = Device("collector", tmp_path, collects=True)
    group_id = found(gate, other, collector)
    board = Board("board")
    enrol(board, gate, group_id)
    made = Fleet(gate, other, collector, board, group_id)
    made.carry()
    return made


def _codes(device: Device) -> list[str]:
    return [event.code for event in device.events() if isinstance(event, EnvelopeDropped)]


def _write(
    author: Identity, to: bytes, kind: MessageType, group_id: bytes, number: int, body: bytes, incarnation: bytes
) -> bytes:
    return write_message(author, kind, to, group_id, incarnation, number, number, 1, body)


def _wrapped(fleet: Fleet, author: Device, to: bytes, envelope: bytes) -> None:
    """Let a member forward whatever it likes to the collector, as no node of ours would."""
    body = Forward(to, envelope).to_wire()
    with author.store.transaction():
        author.node._sending.queue_telemetry(fleet.collector.key, MessageType.FORWARD, fleet.group_id, body, author.now)
    fleet.carry()


def test_a_board_could_write_link_envelopes(fleet: Fleet) -> None:
    """By the cryptography that boards have: nothing more is needed at the collector."""
    board, to = fleet.board, fleet.collector.identity.keys
    tag, key = bytes(range(16)), bytes(range(32))
    fleet.forward(board.message(to, messages.NO_GROUP, MessageType.LINK, cbor.encode([tag, key])))
    fleet.carry()
    assert fleet.acknowledgements() == [1]
    fields = (board.identity, messages.TELEMETRY, to.signing_public, fleet.group_id, board.incarnation, 2, 2, 0, BATCH)
    message = messages.write_message(*fields)
    padded = (message + b"\x80").ljust(messages.padded_length(len(message) + 1), b"\0")
    box = nacl.crypto_secretbox(padded, tag + (1).to_bytes(8, "big"), key)
    fleet.forward(cbor.encode([2, tag, 1, box]))
    fleet.carry()
    assert fleet.landed() == [BATCH]


def test_a_boards_message_reaches_the_collector_and_its_acknowledgement_the_board(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    assert fleet.landed() == [BATCH]
    assert fleet.gate.store.totals()[0] == 0  # the collector has it durably
    assert fleet.acknowledgements() == []  # but not in its vault yet
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == [1]
    assert fleet.acknowledgements() == []  # once


def test_what_lands_is_signed_by_the_board(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    waiting = fleet.collector.store.landing_waiting(1 << 20, 100)
    assert waiting is not None
    [row] = fleet.collector.store.landing_until(waiting[0])
    assert read_message(row.message).author == fleet.board.key


def test_the_gateway_cannot_open_what_it_carries(fleet: Fleet) -> None:
    envelope = fleet.telemetry()
    fleet.gate.receive(envelope)
    assert _codes(fleet.gate)[-1:] == ["decryption"]


def test_nobody_sends_a_board_anything_of_the_group(fleet: Fleet) -> None:
    queues = [
        queue.recipient for device in (fleet.gate, fleet.other, fleet.collector) for queue in device.store.queues()
    ]
    assert fleet.board.key not in queues
    fleet.gate.blob(fleet.group_id, b"to everybody")
    fleet.carry()
    assert fleet.board.key not in [queue.recipient for queue in fleet.gate.store.queues()]


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
    assert fleet.collector.store.carrier(fleet.board.key) == fleet.gate.key


@pytest.mark.parametrize("inside", [b"", b"noise", b"\x84" + bytes(60)])
def test_no_member_takes_the_way_of_a_board_by_naming_it(fleet: Fleet, inside: bytes) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    _wrapped(fleet, fleet.other, fleet.collector.key, inside)
    assert _codes(fleet.collector)[-1] in {"malformed", "decryption"}
    assert fleet.collector.store.carrier(fleet.board.key) == fleet.gate.key
    assert fleet.other.store.totals()[0] == 0  # the link goes on


def test_no_member_takes_the_way_of_a_board_by_writing_in_its_name(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    genuine = _write(
        fleet.other.identity, fleet.collector.key, MessageType.TELEMETRY, fleet.group_id, 7, BATCH, b"incarnat"
    )
    forged = genuine.replace(fleet.other.key, fleet.board.key)
    _wrapped(
        fleet,
        fleet.other,
        fleet.collector.key,
        seal(forged, fleet.collector.identity.noise_public, bytes(32), bytes(24)),
    )
    assert _codes(fleet.collector)[-1] == "signature"
    assert fleet.collector.store.carrier(fleet.board.key) == fleet.gate.key


def test_a_member_that_is_no_board_is_not_carried(fleet: Fleet) -> None:
    inside = _write(
        fleet.gate.identity, fleet.collector.key, MessageType.TELEMETRY, fleet.group_id, 7, BATCH, b"incarnat"
    )
    _wrapped(
        fleet,
        fleet.other,
        fleet.collector.key,
        seal(inside, fleet.collector.identity.noise_public, bytes(32), bytes(24)),
    )
    assert _codes(fleet.collector)[-1] == "not_a_member"
    assert fleet.collector.store.carrier(fleet.gate.key) is None


@pytest.mark.parametrize(
    "kind", [each for each in MessageType if each.name not in {"BLOB", "LINK", "TELEMETRY", "LOSS", "ACK", "RESUME"}]
)
def test_what_no_board_writes_is_not_taken_from_inside(fleet: Fleet, kind: MessageType) -> None:
    inside = fleet.board.message(
        fleet.collector.identity.keys, fleet.group_id, kind, Forward(fleet.gate.key, b"").to_wire()
    )
    fleet.forward(inside)
    fleet.carry()
    assert _codes(fleet.collector)[-1] == "malformed"
    assert fleet.gate.store.totals()[0] == 0


def test_a_forward_for_somebody_else_is_set_aside(fleet: Fleet) -> None:
    _wrapped(fleet, fleet.other, fleet.gate.key, fleet.telemetry())
    assert _codes(fleet.collector)[-1] == "not_for_us"
    assert fleet.landed() == []


def test_a_board_that_was_removed_is_not_carried_and_hears_nothing(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    waiting = fleet.telemetry()
    fleet.forward(waiting)

    def edit(draft: GroupManifest, epoch_id: bytes) -> GroupManifest:
        return draft.removing(fleet.board.key, epoch_id)

    with fleet.collector.store.transaction():
        fleet.collector.node.change_group(fleet.group_id, edit, fleet.collector.now)
    fleet.carry()
    assert fleet.landed() == [BATCH]
    assert "not_a_member" in _codes(fleet.collector)
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == []
    with pytest.raises(LocalError, match="in no group"):
        fleet.forward(fleet.telemetry())


def test_a_board_of_no_group_is_refused(fleet: Fleet) -> None:
    stranger = Board("stranger")
    envelope = stranger.message(fleet.collector.identity.keys, fleet.group_id)
    with pytest.raises(LocalError, match="in no group"), fleet.gate.store.transaction():
        fleet.gate.node.forward(stranger.key, fleet.collector.key, envelope, fleet.gate.now)
    _wrapped(fleet, fleet.other, fleet.collector.key, envelope)
    assert _codes(fleet.collector)[-1] == "not_a_member"


def test_only_a_collector_of_the_group_is_forwarded_to(fleet: Fleet) -> None:
    for recipient in (fleet.other.key, Board("stranger").key, fleet.board.key):
        with pytest.raises(LocalError, match="no collector"), fleet.gate.store.transaction():
            fleet.gate.node.forward(fleet.board.key, recipient, b"", fleet.gate.now)


def test_an_envelope_of_any_size_but_the_bound(fleet: Fleet) -> None:
    with pytest.raises(LocalError, match="at most"):
        fleet.forward(bytes(MAXIMUM_BOARD_MESSAGE_BYTES + 1))
    longest = Forward(fleet.board.key, bytes(MAXIMUM_BOARD_MESSAGE_BYTES))
    assert Forward.from_wire(longest.to_wire()) == longest
    with pytest.raises(LimitError):
        Forward.from_wire(Forward(fleet.board.key, bytes(MAXIMUM_BOARD_MESSAGE_BYTES + 1)).to_wire())
    with pytest.raises(MalformedError):
        Forward.from_wire(Forward(b"short", b"").to_wire())


def test_where_there_is_no_room_inside_there_is_none_for_the_forward(tmp_path: Path) -> None:
    gate, collector = Device("gate", tmp_path), Device("collector", tmp_path, collects=True)
    group_id = found(gate, collector)
    board = Board("board")
    enrol(board, gate, group_id)
    carry(gate, collector)
    fleet = Fleet(gate, gate, collector, board, group_id)
    collector.collects = False
    collector.restart()
    fleet.forward(fleet.telemetry())
    for outgoing in gate.sends():
        collector.receive(outgoing.envelope)
    assert fleet.landed() == []
    assert gate.store.totals()[0] == 1
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
    assert gate.store.totals()[1] <= 8_000
    carry(gate, collector)
    assert collector.store.counters()["lost_messages"] > 0
    assert 0 < len(fleet.landed()) < 40


def test_a_loss_of_the_board_counts_on_its_own_link(fleet: Fleet) -> None:
    fleet.telemetry()  # which the board gives up
    loss = Loss(LossReason.OUTBOX_FULL, ((1, 1),)).to_wire()
    fleet.forward(fleet.board.message(fleet.collector.identity.keys, NO_GROUP, messages.LOSS, loss))
    fleet.carry()
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == [2]
    assert fleet.collector.store.counters()["lost_messages"] == 1


def test_a_board_may_restart_more_often_than_links_are_remembered(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "INCARNATIONS", 3)
    for number in range(10):
        fleet.board.incarnation, fleet.board.sent = b"boot %03d" % number, 0
        fleet.forward(fleet.telemetry())
        fleet.carry()
        fleet.land()
        fleet.carry()
        assert fleet.acknowledgements() == [1]
    assert fleet.collector.store.incarnations(fleet.board.key) <= 3


def test_a_board_far_ahead_is_told_where_it_stands(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    fleet.forward(fleet.board.sealed(fleet.collector.identity.keys, fleet.group_id, messages.TELEMETRY, BATCH, 20_000))
    fleet.carry()
    assert _codes(fleet.collector)[-1] == "limit"
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements()[-1:] == [1]


def _downward(fleet: Fleet, author: Device, to: bytes) -> None:
    message = write_message(
        author.identity,
        MessageType.FORWARD,
        fleet.gate.key,
        NO_GROUP,
        b"incarnat",
        0,
        0,
        1,
        Forward(to, b"x").to_wire(),
    )
    fleet.gate.receive(seal(message, fleet.gate.identity.noise_public, author.rng(32), author.rng(24)))


def test_downwards_only_from_who_shares_a_group_with_the_board(fleet: Fleet, tmp_path: Path) -> None:
    outsider = Device("outsider", tmp_path)
    with outsider.store.transaction():
        elsewhere = outsider.node.membership.create("outsider", (), 1).group_id
    _downward(fleet, outsider, fleet.board.key)
    assert _codes(fleet.gate)[-1] == "not_a_member"
    _downward(fleet, fleet.other, Board("stranger").key)
    assert _codes(fleet.gate)[-1] == "not_a_member"
    assert fleet.gate.node.routes.take() == []
    _downward(fleet, fleet.other, fleet.board.key)
    assert fleet.gate.node.routes.take() == [Forward(fleet.board.key, b"x")]
    assert elsewhere != fleet.group_id


def test_the_newest_few_of_each_author_wait_and_no_flood_does(fleet: Fleet) -> None:
    routes = Routes(fleet.gate.store)
    for number in range(6):
        routes.keep(fleet.collector.key, Forward(fleet.board.key, b"%d" % number))
    assert [forward.envelope for forward in routes.take()] == [b"2", b"3", b"4", b"5"]
    for number in range(BOARD_ENVELOPES_WAITING + 9):
        routes.keep(number.to_bytes(32, "big"), Forward(fleet.board.key, b"%d" % number))
    kept = routes.take()
    assert len(kept) == BOARD_ENVELOPES_WAITING
    assert kept[0].envelope == b"9"


def test_boards_that_carry_for_each_other_move_nothing(fleet: Fleet) -> None:
    """A way from a board to a board would go round in a circle."""

    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        return draft.adding(Member(Board("second").keys, truncate_utf8("second", 64), capabilities=("board",)))

    fleet.forward(fleet.telemetry())
    fleet.carry()
    with fleet.gate.store.transaction():
        fleet.gate.node.change_group(fleet.group_id, edit, fleet.gate.now)
    fleet.carry()
    second = Board("second")
    with fleet.collector.store.transaction():
        fleet.collector.store.set_carrier(fleet.board.key, second.key)
        fleet.collector.store.set_carrier(second.key, fleet.board.key)
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == []


@pytest.mark.parametrize("vector", vectors("messages", "forwards"))
def test_forwards(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["body"])
    if vector["code"] is None:
        to = bytes.fromhex(load("messages")["keys"][vector["to"]]["signing_public"])
        expected = Forward(to, bytes.fromhex(vector["envelope"]))
        assert Forward.from_wire(body) == expected
        assert expected.to_wire() == body
        return
    with pytest.raises(RemoteError) as caught:
        Forward.from_wire(body)
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("body", [b"", b"\x80", b"\x82\x40\x40", b"\xff" * 50, bytes(9_000)])
def test_any_bytes_as_a_forward(body: bytes) -> None:
    with pytest.raises(RemoteError):
        Forward.from_wire(body)


def test_a_board_acknowledges_nothing_of_others(fleet: Fleet) -> None:
    """An acknowledgement by a board frees what is queued for the board alone: nothing."""
    fleet.collector.blob(fleet.group_id, b"for the gateways")
    before = fleet.collector.store.totals()[0]
    body = Acknowledgement(fleet.collector.store.incarnation(), SequenceSet(1_000)).to_wire()
    fleet.forward(fleet.board.sealed(fleet.collector.identity.keys, NO_GROUP, MessageType.ACK, body, 0))
    for outgoing in fleet.gate.sends():
        fleet.collector.receive(outgoing.envelope)
    assert fleet.collector.store.totals()[0] == before


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
    assert fleet.collector.store.totals()[0] == 1, "the gateway has it, and that proves nothing"
    fleet.collector.wait(10)
    fleet.carry()
    assert [fields[8] for fields in _opened(fleet, fleet.gate)][-1:] == [b"interval 5"], "it is sent again"
    answer = wire.encode([blob[4], [1, []]])
    fleet.forward(fleet.board.sealed(fleet.collector.identity.keys, messages.NO_GROUP, messages.ACK, answer, 0))
    fleet.carry()
    assert fleet.collector.store.totals()[0] == 0


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
        fleet.gate.node.send_blob(fleet.group_id, b"x", fleet.gate.now, bytes(32))
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
    assert fleet.gate.store.recipients_waiting() == [fleet.other.key]


def test_what_waits_for_a_removed_board_goes(fleet: Fleet) -> None:
    _send_down(fleet, b"never")

    def edit(draft: GroupManifest, epoch_id: bytes) -> GroupManifest:
        return draft.removing(fleet.board.key, epoch_id)

    with fleet.gate.store.transaction():
        fleet.gate.node.change_group(fleet.group_id, edit, fleet.gate.now)
    fleet.carry()
    assert fleet.collector.store.recipients_waiting() == []
