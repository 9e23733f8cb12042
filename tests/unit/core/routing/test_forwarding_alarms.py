"""What a board calls an alarm overtakes what its gateway holds, within bounds: a board may be hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.ids import Place
from covey.core.link.queued import Lane, MessageClass
from covey.core.wire.message import MessageType, read_message
from covey.limits.board import BOARD_ALARM_SECONDS, BOARD_ALARM_SHARE, BOARD_ALARMS_SAVED
from covey.limits.storage import OUTBOX_ALARM_SHARE
from tests.board import Board, enrol
from tests.fleet import Device, carry, found
from tests.unit.core.board_fleet import Fleet


def _behind_one(folder: Path, outbox_bytes: int = 10_000_000) -> Fleet:
    gate = Device("gate", folder, outbox_bytes=outbox_bytes)
    collector = Device("collector", folder, collects=True)
    group_id = found(gate, collector)
    board = Board("board")
    enrol(board, gate, group_id)
    carry(gate, collector)
    return Fleet(gate, gate, collector, board, group_id)


def _forward(fleet: Fleet, *, is_alarm: bool, board: Board | None = None) -> bool:
    gate, author = fleet.gate, board or fleet.board
    envelope = author.message(fleet.collector.identity.keys, fleet.group_id)
    with gate.store.transaction():
        return gate.node.forward(author.key, fleet.collector.key, envelope, gate.now, is_alarm=is_alarm)


def _classes(fleet: Fleet) -> list[int]:
    return [row[1] for row in fleet.gate.store.outbox.waiting(fleet.collector.key, 1_000)]


def test_an_alarm_overtakes_what_its_gateway_holds(tmp_path: Path) -> None:
    fleet = _behind_one(tmp_path)
    for _ in range(100):
        assert not _forward(fleet, is_alarm=False)
    assert _forward(fleet, is_alarm=True)
    outgoing = [each for each in fleet.gate.sends() if each.entry]
    entries = [each.entry for each in outgoing if each.entry]
    assert entries[0].lane is Lane.ALARM
    assert read_message(entries[0].message).type is MessageType.FORWARD
    assert all(each.lane is not Lane.ALARM for each in entries[1:])
    assert _classes(fleet) == [MessageClass.TELEMETRY] * 100 + [MessageClass.ALARM]
    for each in outgoing[:2]:
        fleet.collector.receive(each.envelope)
    assert len(fleet.landed()) == 2


def test_a_board_overtakes_within_a_bound_that_grows_with_time(tmp_path: Path) -> None:
    """And another board has its own."""
    fleet = _behind_one(tmp_path)
    other = Board("other board")
    enrol(other, fleet.gate, fleet.group_id)
    carry(fleet.gate, fleet.collector)
    taken = [_forward(fleet, is_alarm=True) for _ in range(3 * BOARD_ALARMS_SAVED)]
    assert taken == [True] * BOARD_ALARMS_SAVED + [False] * 2 * BOARD_ALARMS_SAVED
    assert len(_classes(fleet)) == 3 * BOARD_ALARMS_SAVED, "what exceeds it goes in its turn"
    assert _forward(fleet, is_alarm=True, board=other)
    fleet.gate.wait(BOARD_ALARM_SECONDS - 1)
    assert not _forward(fleet, is_alarm=True)
    fleet.gate.wait(1)
    assert [_forward(fleet, is_alarm=True) for _ in range(2)] == [True, False]
    fleet.gate.wait(1_000 * BOARD_ALARM_SECONDS)
    later = [_forward(fleet, is_alarm=True) for _ in range(2 * BOARD_ALARMS_SAVED)]
    assert later == [True] * BOARD_ALARMS_SAVED + [False] * BOARD_ALARMS_SAVED


@pytest.mark.slow
def test_alarms_of_boards_leave_half_of_the_reserve(tmp_path: Path) -> None:
    """A full outbox drops older envelopes of boards, and none that is an alarm."""
    fleet = _behind_one(tmp_path, outbox_bytes=100_000)
    room = 100_000 // OUTBOX_ALARM_SHARE // BOARD_ALARM_SHARE
    taken = [_forward(fleet, is_alarm=True) for _ in range(BOARD_ALARMS_SAVED)]
    count = taken.count(True)
    assert taken == [True] * count + [False] * (BOARD_ALARMS_SAVED - count)
    assert 0 < count < BOARD_ALARMS_SAVED
    outbox = fleet.gate.store.outbox
    assert room // 2 < outbox.bytes_by_class()[MessageClass.ALARM] <= room
    for _ in range(400):
        _forward(fleet, is_alarm=False)
    assert outbox.totals()[1] <= 100_000
    assert _classes(fleet).count(MessageClass.ALARM) == count
    assert MessageClass.TELEMETRY in _classes(fleet)


def test_an_alarm_stays_one_where_it_is_queued_again(tmp_path: Path) -> None:
    fleet = _behind_one(tmp_path)
    assert _forward(fleet, is_alarm=True)
    place = Place(fleet.gate.store.outbox.waiting(fleet.collector.key, 1)[0][0])
    with fleet.gate.store.transaction():
        fleet.gate.node._queue.requeue(fleet.collector.key, place, fleet.gate.now)
    assert _classes(fleet) == [MessageClass.ALARM]


def test_a_collector_takes_an_alarm_of_its_own_board_at_once(tmp_path: Path) -> None:
    fleet = _behind_one(tmp_path)
    envelope = fleet.board.message(fleet.collector.identity.keys, fleet.group_id)
    collector = fleet.collector
    with collector.store.transaction():
        collector.node.forward(fleet.board.key, collector.key, envelope, collector.now, is_alarm=True)
    assert len(fleet.landed()) == 1
