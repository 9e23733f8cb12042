"""What a member claims of numbers: never more than could have been sent, and never at the cost of others."""

from __future__ import annotations

import pytest

from covey.core.events import EnvelopeDropped
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.wire import cbor
from covey.core.wire.envelope import seal
from covey.core.wire.message import (
    NO_GROUP,
    Acknowledgement,
    Loss,
    LossReason,
    MessageType,
    Resumption,
    write_message,
)
from covey.core.wire.sequences import SequenceSet
from covey.limits.link import MAXIMUM_LOSS_RANGES, MAXIMUM_RECEIVED_RANGES
from covey.limits.message import MAXIMUM_COUNTER, MAXIMUM_SEQUENCE
from tests.fleet import Device, Make, carry, found

_INCARNATION = Incarnation(b"incarnat")


def _say(
    author: Device, to: Device, kind: MessageType, body: bytes, number: int = 0, *, group_id: GroupId = NO_GROUP
) -> None:
    incarnation = Incarnation(_INCARNATION if number else author.store.incarnations.present())
    message = write_message(author.identity, kind, to.key, group_id, incarnation, number, LinkSeq(number), 1, body)
    to.receive(seal(message, to.identity.noise_public, author.rng(32), author.rng(24)))


def _codes(device: Device) -> list[str]:
    return [event.code for event in device.events() if isinstance(event, EnvelopeDropped)]


def _earlier_loss(*places: tuple[int, int]) -> bytes:
    """Return the body of a loss record of an earlier incarnation, whatever its ranges claim."""
    return cbor.encode([int(LossReason.EXPIRED), [list(each) for each in places], [], b"earlier!"])


@pytest.mark.parametrize("last", [MAXIMUM_COUNTER, MAXIMUM_SEQUENCE, 2])
def test_a_loss_of_what_was_never_sent_counts_nothing(make: Make, last: int) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    _say(ann, ben, MessageType.LOSS, _earlier_loss((1, last)), number=2)
    assert _codes(ben) in (["limit"], ["malformed"])
    assert "lost_messages" not in ben.store.counters.values()
    assert ben.store.received.of(ann.key, Incarnation(b"earlier!")) == SequenceSet()


def test_losses_of_others_are_still_heard_after_a_false_one(make: Make) -> None:
    ann, ben, carl = make("ann"), make("ben"), make("carl")
    found(ann, ben, carl)
    for number in (1, 2):
        _say(ann, ben, MessageType.LOSS, _earlier_loss((1, MAXIMUM_COUNTER)), number=number)
    _say(carl, ben, MessageType.LOSS, Loss(LossReason.EXPIRED, ((1, 3),)).to_wire(), number=4)
    assert ben.store.counters.values()["lost_messages"] == 3


def test_a_counter_stays_at_its_maximum(make: Make) -> None:
    ann = make("ann")
    for amount in (MAXIMUM_COUNTER, 1, MAXIMUM_COUNTER, 2 * MAXIMUM_COUNTER):
        ann.store.counters.count("lost_messages", amount)
    assert ann.store.counters.values()["lost_messages"] == MAXIMUM_COUNTER


def test_a_restored_device_takes_acknowledgements_of_its_earlier_life(make: Make) -> None:
    """Of the restored state's earlier incarnation, a recipient may have more than this state ever sent."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"waits")
    before = ann.store.incarnations.present()
    with ann.store.transaction():
        ann.store.incarnations.renew(Incarnation(b"restored"))
    ann.blob(group_id, b"new")
    for highest in (MAXIMUM_SEQUENCE, 1_000):
        received = SequenceSet(0, ((highest, highest),))
        _say(ben, ann, MessageType.ACK, Acknowledgement(before, received).to_wire())
    assert ann.store.outbox.totals()[0] == 2
    _say(ben, ann, MessageType.ACK, Acknowledgement(before, SequenceSet(MAXIMUM_SEQUENCE)).to_wire())
    assert ann.store.outbox.totals()[0] == 1
    carry(ann, ben)
    assert ben.inbox()[-1] == b"new"


def test_a_removed_device_has_nobody_begin_another_incarnation(make: Make) -> None:
    """It acknowledges what was never sent to it, as one does that knows of another life of a state."""
    ann, ben, carl = make("ann"), make("ben"), make("carl")
    group_id = found(ann, ben, carl)
    before = ann.store.incarnations.present()
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.removing(ben.key, epoch), ann.now)
    carry(ann, ben, carl)
    too_much = Acknowledgement(before, SequenceSet(1_000)).to_wire()
    _say(ben, ann, MessageType.ACK, too_much)
    assert ann.store.incarnations.present() == before
    _say(carl, ann, MessageType.ACK, too_much)
    assert ann.store.incarnations.present() != before


def test_a_resumption_continues_what_came_and_scatters_nothing(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    incarnation = ann.store.incarnations.present()
    before = ben.store.received.of(ann.key, incarnation)
    for base in range(1_000, 100_000, 1_000):
        scattered = tuple((first, first) for first in range(base, base + 100, 2))
        _say(ann, ben, MessageType.RESUME, Resumption(scattered).to_wire())
    assert ben.store.received.of(ann.key, incarnation) == before
    _say(ann, ben, MessageType.RESUME, Resumption(((before.upto + 1, 5_000),)).to_wire())
    assert ben.store.received.of(ann.key, incarnation) == SequenceSet(5_000)


@pytest.mark.slow
def test_a_links_memory_is_bounded(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    number = 9_000
    for first in range(2, 9_000, 4 * MAXIMUM_LOSS_RANGES):
        places = tuple((place, place) for place in range(first, first + 2 * MAXIMUM_LOSS_RANGES, 2))
        _say(ann, ben, MessageType.LOSS, Loss(LossReason.EXPIRED, places).to_wire(), number=number)
        number += 2
    for place in range(3_000, 3_000 + 2 * MAXIMUM_RECEIVED_RANGES, 2):
        _say(ann, ben, MessageType.BLOB, b"x", number=place, group_id=group_id)
    received = ben.store.received.of(ann.key, _INCARNATION)
    assert len(received.ranges) <= MAXIMUM_RECEIVED_RANGES
    _say(ann, ben, MessageType.BLOB, b"in order", number=1, group_id=group_id)
    assert ben.inbox()[-1] == b"in order"  # what fills a hole is still taken
