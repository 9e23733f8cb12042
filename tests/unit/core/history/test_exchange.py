"""`covey.core.history.exchange`: what is written in quick succession goes as soon as what was sent before is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.history.bodies import Note
from covey.core.history.operation import Behind, Log
from covey.core.ids import GroupId, OperationId
from covey.limits.history import ANNOUNCE_PAUSE_US, ANNOUNCE_US, BUNDLE_OPERATIONS
from tests.fleet import Device, carry, found, settled


def _write(device: Device, group_id: GroupId, text: str) -> None:
    with device.store.transaction():
        device.node.history.write(group_id, Note("text/plain", text.encode()), device.now)


def test_held_operations_go_after_those_sent_before(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    carry(ann, ben)
    _write(ann, group_id, "one")
    _write(ann, group_id, "two")
    carry(ann, ben)
    ann.wait(ANNOUNCE_PAUSE_US / 1_000_000)
    ann.maintain()
    carry(ann, ben)
    ends = [dict(each.store.operations.logs(group_id)) for each in (ann, ben)]
    assert ends[0] == ends[1]
    assert list(ends[0].values()) == [2]


def test_while_nobody_acknowledges_what_is_held_back_is_looked_at_in_its_time(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    carry(ann, ben)
    ann.maintain()
    _write(ann, group_id, "one")
    _write(ann, group_id, "two")
    ann.wait(ANNOUNCE_US / 1_000_000 - 0.001)
    assert not ann.node.history.exchange.has_work(ann.now)
    ann.wait(0.001)
    assert ann.node.history.exchange.has_work(ann.now)


def test_acknowledgements_have_what_is_held_back_looked_at_ten_times_a_second_at_most(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    carry(ann, ben)
    exchange = ann.node.history.exchange
    exchange.announcing.acknowledged(ben.key)
    ann.maintain()
    assert not exchange.has_work(ann.now), "nothing is held back"
    _write(ann, group_id, "one")
    _write(ann, group_id, "two")
    ann.wait(ANNOUNCE_US / 1_000_000)
    ann.maintain()
    exchange.announcing.acknowledged(ben.key)
    ann.wait(ANNOUNCE_PAUSE_US / 1_000_000 - 0.001)
    assert not exchange.has_work(ann.now)
    ann.wait(0.001)
    assert exchange.has_work(ann.now)


def test_an_acknowledgement_has_its_author_alone_looked_at(tmp_path: Path) -> None:
    ann, ben, eve = (Device(name, tmp_path) for name in ("ann", "ben", "eve"))
    group_id = found(ann, ben, eve)
    carry(ann, ben, eve)
    ann.wait(ANNOUNCE_US / 1_000_000)
    ann.maintain()
    _write(ann, group_id, "one")
    _write(ann, group_id, "two")
    with ann.store.transaction():
        ann.store.outbox.forget(eve.key)  # nothing waits for her, and nobody has said so
    carry(ann, ben)
    ann.wait(ANNOUNCE_PAUSE_US / 1_000_000)
    ann.maintain()
    carry(ann, ben, eve)
    assert [_written(each, group_id) for each in (ben, eve)] == [2, 0]
    ann.wait(ANNOUNCE_US / 1_000_000)
    ann.maintain()
    carry(ann, ben, eve)
    assert ann.store.announcements.of(group_id, eve.key, _log(ann, group_id)) == Behind(
        group_id, eve.key, 2, waits=False
    )


def test_a_thousand_silent_members_are_looked_at_half_as_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.history.exchange.ANNOUNCE_MEMBERS", 2)
    ann, ben, eve = (Device(name, tmp_path) for name in ("ann", "ben", "eve"))
    group_id = found(ann, ben, eve)
    carry(ann, ben, eve)
    _write(ann, group_id, "one")
    _write(ann, group_id, "two")
    ann.wait(ANNOUNCE_US / 1_000_000)
    ann.maintain()
    ann.wait(2 * ANNOUNCE_US / 1_000_000 - 0.001)
    assert not ann.node.history.exchange.has_work(ann.now)
    ann.wait(0.001)
    assert ann.node.history.exchange.has_work(ann.now)


def _log(device: Device, group_id: GroupId) -> Log:
    return Log(device.key, device.store.incarnations.of_log(group_id))


def _written(device: Device, group_id: GroupId) -> int:
    return sum(last for _, last in device.store.operations.logs(group_id))


def test_requests_of_others_delay_no_request(tmp_path: Path) -> None:
    ann, ben, eve = (Device(name, tmp_path) for name in ("ann", "ben", "eve"))
    group_id = found(ann, ben, eve)
    exchange = ann.node.history.exchange
    ann.maintain()
    exchange.asking.ask_at(group_id, ben.key, ann.now.monotonic_us + 10_000_000)
    for second in range(10):
        exchange.asking.ask(group_id, eve.key, ann.now, [OperationId(bytes([second] * 32))])
        ann.wait(1)
    assert exchange.has_work(ann.now)


@pytest.mark.slow
def test_a_member_that_was_away_catches_up_at_once(tmp_path: Path) -> None:  # accepts: 003.02, 003.81
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = GroupId(settled(ann, ben))
    with ann.store.transaction():
        for number in range(5 * BUNDLE_OPERATIONS):
            ann.node.history.write(group_id, Note("text/plain", b"%d " % number + bytes(700)), ann.now)
    carry(ann, ben)
    ann.wait(ANNOUNCE_US / 1_000_000)
    ann.maintain()
    while _carry_at_once(ann, ben):
        pass
    ends = [dict(each.store.operations.logs(group_id)) for each in (ann, ben)]
    assert ends[0] == ends[1], ann.store.counters.values()


def _carry_at_once(*devices: Device) -> int:
    """Carry what devices have to say, faster than any acknowledgement waits for company; return how many went."""
    by_key = {device.key: device for device in devices}
    moving = [(by_key[each.recipient], each) for device in devices for each in device.sends()]
    for receiver, outgoing in moving:
        receiver.receive(outgoing.envelope)
    return len(moving)
