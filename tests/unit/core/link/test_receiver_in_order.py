"""Blobs in their senders' orders, where somebody asks for it: a rule of reading alone."""

from __future__ import annotations

import random

import pytest

from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.link.receiver import ready_in_order
from tests.fleet import Device, Make, carry, found


def _in_order(device: Device, limit: int = 1_000) -> list[bytes]:
    return [row[-1] for row in device.store.inbox.arrived_in_order(limit)]


@pytest.mark.parametrize("seed", range(20))
def test_a_relay_that_reorders_and_loses_shows_only_what_is_in_order(make: Make, seed: int) -> None:
    chance = random.Random(seed)
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    sent = [b"%d" % number for number in range(12)]
    for content in sent:
        ann.blob(group_id, content)
    envelopes = [outgoing.envelope for outgoing in ann.sends()]
    chance.shuffle(envelopes)
    for envelope in envelopes[: chance.randrange(12)]:
        ben.receive(envelope)
        shown = _in_order(ben)
        assert shown == sent[: len(shown)]
    assert set(_in_order(ben)) <= set(ben.inbox())
    ann.node.connection_lost()
    ann.node.connected(ann.now)
    for _ in range(10):
        carry(ann, ben)
        ann.wait(400)
    assert _in_order(ben) == sent
    assert _in_order(ben, 5) == sent[:5]
    assert sorted(ben.inbox()) == sorted(sent)


def test_messages_reported_lost_are_not_awaited(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for content in (b"huge", b"after"):
        ann.blob(group_id, content)
    first, second = ann.sends()
    ben.receive(second.envelope)
    assert ben.inbox() == [b"after"]
    assert _in_order(ben) == []
    assert first.entry is not None
    with ann.store.transaction():
        ann.node.withdraw(ben.key, first.entry.place, ann.now)
    carry(ann, ben)
    assert _in_order(ben) == [b"after"]


def test_senders_do_not_wait_for_each_other(make: Make) -> None:
    ann, ben, cat = make("ann"), make("ben"), make("cat")
    group_id = found(ann, ben, cat)
    ann.blob(group_id, b"a1")
    ann.blob(group_id, b"a2")
    later = next(each for each in reversed(ann.sends()) if each.recipient == ben.key)
    ben.receive(later.envelope)
    cat.blob(group_id, b"c1")
    carry(cat, ben)
    assert _in_order(ben) == [b"c1"]


def test_a_life_goes_before_the_next() -> None:
    ann, ben = DeviceKey(b"a" * 32), DeviceKey(b"b" * 32)
    old, new = Incarnation(b"old-life"), Incarnation(b"new-life")
    entries: list[tuple[int, DeviceKey, int, Incarnation, LinkSeq]] = [
        (1, ann, 9, new, LinkSeq(1)),
        (2, ann, 8, old, LinkSeq(4)),
        (3, ann, 7, old, LinkSeq(3)),
        (4, ben, 1, old, LinkSeq(1)),
    ]
    assert ready_in_order(entries, {(ann, old): 4, (ann, new): 1, (ben, old): 1}) == [3, 2, 1, 4]
    assert ready_in_order(entries, {(ann, old): 3, (ann, new): 1, (ben, old): 1}) == [3, 4]
