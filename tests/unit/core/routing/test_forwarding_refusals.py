"""What is not carried for a board, in either direction, and by whom not."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.group.manifest import GroupManifest, Member
from covey.core.ids import DeviceKey, EpochId, Incarnation, LinkSeq, truncate_utf8
from covey.core.routing.forwarding import BoardRoutes, Forward
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, Acknowledgement, MessageType, write_message
from covey.core.wire.sequences import SequenceSet
from covey.errors import LimitError, LocalError, MalformedError, RemoteError
from covey.limits.board import BOARD_ENVELOPES_WAITING, MAXIMUM_BOARD_MESSAGE_BYTES
from tests.board import BATCH, Board
from tests.fleet import Device
from tests.unit.core.board_fleet import Fleet, codes

_OF_BOARDS = {"BLOB", "LINK", "TELEMETRY", "SUMMARY", "LOSS", "ACK", "RESUME"}


def _telemetry_of(fleet: Fleet, author: Device) -> bytes:
    """Return a member's own message to the collector."""
    return write_message(
        author.identity,
        MessageType.TELEMETRY,
        fleet.collector.key,
        fleet.group_id,
        Incarnation(b"incarnat"),
        7,
        LinkSeq(7),
        1,
        BATCH,
    )


def _wrapped(fleet: Fleet, author: Device, to: DeviceKey, envelope: bytes) -> None:
    """Let a member forward whatever it likes to the collector, as no node of ours would."""
    body = Forward(to, envelope).to_wire()
    with author.store.transaction():
        author.node._queue.queue_telemetry(fleet.collector.key, MessageType.FORWARD, fleet.group_id, body, author.now)
    fleet.carry()


@pytest.mark.parametrize("inside", [b"", b"noise", b"\x84" + bytes(60)])
def test_no_member_takes_the_way_of_a_board_by_naming_it(fleet: Fleet, inside: bytes) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    _wrapped(fleet, fleet.other, fleet.collector.key, inside)
    assert codes(fleet.collector)[-1] in {"malformed", "decryption"}
    assert fleet.collector.store.carriers.of(fleet.board.key) == fleet.gate.key
    assert fleet.other.store.outbox.totals()[0] == 0  # the link goes on


def test_no_member_takes_the_way_of_a_board_by_writing_in_its_name(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    genuine = _telemetry_of(fleet, fleet.other)
    forged = genuine.replace(fleet.other.key, fleet.board.key)
    _wrapped(
        fleet,
        fleet.other,
        fleet.collector.key,
        seal(forged, fleet.collector.identity.noise_public, bytes(32), bytes(24)),
    )
    assert codes(fleet.collector)[-1] == "signature"
    assert fleet.collector.store.carriers.of(fleet.board.key) == fleet.gate.key


def test_a_member_that_is_no_board_is_not_carried(fleet: Fleet) -> None:
    inside = _telemetry_of(fleet, fleet.gate)
    _wrapped(
        fleet,
        fleet.other,
        fleet.collector.key,
        seal(inside, fleet.collector.identity.noise_public, bytes(32), bytes(24)),
    )
    assert codes(fleet.collector)[-1] == "not_a_member"
    assert fleet.collector.store.carriers.of(fleet.gate.key) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", [each for each in MessageType if each.name not in _OF_BOARDS])
def test_message_types_that_no_board_writes_are_refused(fleet: Fleet, kind: MessageType) -> None:
    inside = fleet.board.message(
        fleet.collector.identity.keys, fleet.group_id, kind, Forward(fleet.gate.key, b"").to_wire()
    )
    fleet.forward(inside)
    fleet.carry()
    assert codes(fleet.collector)[-1] == "malformed"
    assert fleet.gate.store.outbox.totals()[0] == 0


def test_a_forward_for_somebody_else_is_set_aside(fleet: Fleet) -> None:
    _wrapped(fleet, fleet.other, fleet.gate.key, fleet.telemetry())
    assert codes(fleet.collector)[-1] == "not_for_us"
    assert fleet.landed() == []


def test_a_board_that_was_removed_is_not_carried_and_hears_nothing(fleet: Fleet) -> None:
    fleet.forward(fleet.telemetry())
    fleet.carry()
    waiting = fleet.telemetry()
    fleet.forward(waiting)

    def edit(draft: GroupManifest, epoch_id: EpochId) -> GroupManifest:
        return draft.removing(fleet.board.key, epoch_id)

    with fleet.collector.store.transaction():
        fleet.collector.node.actions.change(fleet.group_id, edit, fleet.collector.now)
    fleet.carry()
    assert fleet.landed() == [BATCH]
    assert "not_a_member" in codes(fleet.collector)
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
    assert codes(fleet.collector)[-1] == "not_a_member"


def test_only_a_collector_of_the_group_is_forwarded_to(fleet: Fleet) -> None:
    for recipient in (fleet.other.key, Board("stranger").key, fleet.board.key):
        with pytest.raises(LocalError, match="not a collector"), fleet.gate.store.transaction():
            fleet.gate.node.forward(fleet.board.key, DeviceKey(recipient), b"", fleet.gate.now)


def test_an_envelope_of_any_size_but_the_bound(fleet: Fleet) -> None:
    with pytest.raises(LocalError, match="at most"):
        fleet.forward(bytes(MAXIMUM_BOARD_MESSAGE_BYTES + 1))
    longest = Forward(fleet.board.key, bytes(MAXIMUM_BOARD_MESSAGE_BYTES))
    assert Forward.from_wire(longest.to_wire()) == longest
    with pytest.raises(LimitError):
        Forward.from_wire(Forward(fleet.board.key, bytes(MAXIMUM_BOARD_MESSAGE_BYTES + 1)).to_wire())
    with pytest.raises(MalformedError):
        Forward.from_wire(Forward(DeviceKey(b"short"), b"").to_wire())


def _downward(fleet: Fleet, author: Device, to: DeviceKey) -> None:
    message = write_message(
        author.identity,
        MessageType.FORWARD,
        fleet.gate.key,
        NO_GROUP,
        Incarnation(b"incarnat"),
        0,
        LinkSeq(0),
        1,
        Forward(to, b"x").to_wire(),
    )
    fleet.gate.receive(seal(message, fleet.gate.identity.noise_public, author.rng(32), author.rng(24)))


def test_downwards_only_from_who_shares_a_group_with_the_board(fleet: Fleet, tmp_path: Path) -> None:
    outsider = Device("outsider", tmp_path)
    with outsider.store.transaction():
        elsewhere = outsider.node.membership.create("outsider", (), 1).group_id
    _downward(fleet, outsider, fleet.board.key)
    assert codes(fleet.gate)[-1] == "not_a_member"
    _downward(fleet, fleet.other, DeviceKey(Board("stranger").key))
    assert codes(fleet.gate)[-1] == "not_a_member"
    assert fleet.gate.node.routes.take() == []
    _downward(fleet, fleet.other, fleet.board.key)
    assert fleet.gate.node.routes.take() == [Forward(fleet.board.key, b"x")]
    assert elsewhere != fleet.group_id


def test_the_newest_few_of_each_author_wait_and_no_flood_does(fleet: Fleet) -> None:
    routes = BoardRoutes(fleet.gate.store.carriers)
    for number in range(6):
        routes.keep(fleet.collector.key, Forward(fleet.board.key, b"%d" % number))
    assert [forward.envelope for forward in routes.take()] == [b"2", b"3", b"4", b"5"]
    for number in range(BOARD_ENVELOPES_WAITING + 9):
        routes.keep(DeviceKey(number.to_bytes(32, "big")), Forward(fleet.board.key, b"%d" % number))
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
        fleet.gate.node.actions.change(fleet.group_id, edit, fleet.gate.now)
    fleet.carry()
    second = Board("second")
    with fleet.collector.store.transaction():
        fleet.collector.store.carriers.set(fleet.board.key, second.key)
        fleet.collector.store.carriers.set(second.key, fleet.board.key)
    fleet.land()
    fleet.carry()
    assert fleet.acknowledgements() == []


@pytest.mark.parametrize("body", [b"", b"\x80", b"\x82\x40\x40", b"\xff" * 50, bytes(9_000)])
def test_any_bytes_as_a_forward(body: bytes) -> None:
    with pytest.raises(RemoteError):
        Forward.from_wire(body)


def test_a_board_acknowledges_nothing_of_others(fleet: Fleet) -> None:
    """An acknowledgement by a board frees what is queued for the board alone: nothing."""
    fleet.collector.blob(fleet.group_id, b"for the gateways")
    before = fleet.collector.store.outbox.totals()[0]
    body = Acknowledgement(fleet.collector.store.incarnations.present(), SequenceSet(1_000)).to_wire()
    fleet.forward(fleet.board.sealed(fleet.collector.identity.keys, NO_GROUP, MessageType.ACK, body, 0))
    for outgoing in fleet.gate.sends():
        fleet.collector.receive(outgoing.envelope)
    assert fleet.collector.store.outbox.totals()[0] == before
