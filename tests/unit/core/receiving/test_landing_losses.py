"""Each loss is counted once, whichever comes first: the record that admits it, or a resumption over its place."""

from __future__ import annotations

import pytest

from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, Loss, LossReason, MessageType, Resumption, write_message
from covey.core.wire.sequences import SequenceSet
from covey.limits.link import MAXIMUM_RECEIVED_RANGES
from tests.fleet import Device, Make, carry, found

_INCARNATION = Incarnation(b"incarnat")


@pytest.fixture
def pair(make: Make) -> tuple[Device, Device, GroupId]:
    ann, ben = make("ann"), make("ben")
    return ann, ben, found(ann, ben)


def _say(author: Device, to: Device, kind: MessageType, body: bytes, number: int = 0) -> None:
    message = write_message(author.identity, kind, to.key, NO_GROUP, _INCARNATION, number, LinkSeq(number), 1, body)
    to.receive(seal(message, to.identity.noise_public, author.rng(32), author.rng(24)))


def _lost(device: Device) -> int:
    return device.store.counters.values().get("lost_messages", 0)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_loss_that_a_resumption_has_closed_is_counted(pair: tuple[Device, Device, GroupId], restarts: bool) -> None:
    ann, ben, group_id = pair
    ann.blob(group_id, b"one")
    [one] = ann.sends()
    assert one.entry is not None
    with ann.store.transaction():
        ann.node.withdraw(ben.key, one.entry.place, ann.now)
    [record] = ann.sends()
    ann.blob(group_id, b"two")
    [two] = ann.sends()
    ben.receive(two.envelope)
    ben.wait(1)
    [lacks_one] = ben.sends()
    ann.receive(lacks_one.envelope)
    [resumption] = ann.sends()
    ben.receive(resumption.envelope)
    assert _lost(ben) == 0, "a resumption does not say that anything is lost"
    if restarts:
        ben.restart()
    ben.receive(record.envelope)
    assert _lost(ben) == 1
    ben.receive(resumption.envelope)
    ben.receive(record.envelope)
    assert _lost(ben) == 1
    carry(ann, ben)
    assert ben.inbox() == [b"two"]


def test_a_resumption_after_the_record_adds_nothing(pair: tuple[Device, Device, GroupId]) -> None:
    ann, ben, _ = pair
    loss = Loss(LossReason.EXPIRED, ((1, 3),))
    _say(ann, ben, MessageType.LOSS, loss.to_wire(), number=6)
    _say(ann, ben, MessageType.RESUME, Resumption(((1, 5),)).to_wire())
    assert _lost(ben) == 3
    _say(ann, ben, MessageType.LOSS, Loss(LossReason.EXPIRED, ((2, 5),)).to_wire(), number=7)
    assert _lost(ben) == 5, "of these two had been told"
    _say(ann, ben, MessageType.LOSS, Loss(LossReason.EXPIRED, ((1, 7),)).to_wire(), number=8)
    assert _lost(ben) == 5, "the others are the records themselves"


def test_messages_before_a_resumption_are_not_lost(pair: tuple[Device, Device, GroupId]) -> None:
    ann, ben, _ = pair
    _say(ann, ben, MessageType.LOSS, Loss(LossReason.EXPIRED, ((1, 1),)).to_wire(), number=3)
    _say(ann, ben, MessageType.RESUME, Resumption(((1, 4),)).to_wire())
    _say(ann, ben, MessageType.LOSS, Loss(LossReason.OUTBOX_FULL, ((1, 4),)).to_wire(), number=5)
    assert _lost(ben) == 3, "3 has come: it was the first record"


def test_a_collector_counts_and_lands_it_as_well(make: Make) -> None:
    ann, collector = make("ann"), make("collector", collects=True)
    found(ann, collector)
    _say(ann, collector, MessageType.RESUME, Resumption(((1, 4),)).to_wire())
    _say(ann, collector, MessageType.LOSS, Loss(LossReason.OUTBOX_FULL, ((1, 4),), ((1, 4),)).to_wire(), number=5)
    assert _lost(collector) == 4
    assert collector.store.landing.unlanded(ann.key, _INCARNATION) == {5}


def test_closed_gaps_are_remembered_within_a_bound(pair: tuple[Device, Device, GroupId]) -> None:
    ann, ben, _ = pair
    with ben.store.transaction():
        scattered = SequenceSet(0, tuple((first, first) for first in range(2, 8 * MAXIMUM_RECEIVED_RANGES, 2)))
        ben.store.received.set_resumed(ann.key, _INCARNATION, scattered)
    kept = ben.store.received.resumed(ann.key, _INCARNATION).spans()
    assert kept == list(scattered.ranges[-MAXIMUM_RECEIVED_RANGES:])
