"""`covey.core.link.receiver`: what is new, and when it is acknowledged."""

from __future__ import annotations

import pytest

from covey.core.ids import LinkSeq
from covey.core.link.receiver import Arrival, ReceiveLink
from covey.core.wire.sequences import SequenceSet
from covey.errors import LimitError
from covey.limits.link import ACKNOWLEDGE_DELAY_US, ACKNOWLEDGE_EVERY_MESSAGES, MAXIMUM_SEQUENCE_GAP


def test_a_sequence_is_new_once() -> None:
    link = ReceiveLink(SequenceSet(), set())
    for link_seq in (1, 3, 2):
        assert link.classify(LinkSeq(link_seq)) is Arrival.NEW
        link.take(LinkSeq(link_seq))
        assert link.classify(LinkSeq(link_seq)) is Arrival.DUPLICATE
    assert link.received == SequenceSet(3)


def test_a_number_far_ahead_is_refused() -> None:
    link = ReceiveLink(SequenceSet(5), set())
    assert link.classify(LinkSeq(5 + MAXIMUM_SEQUENCE_GAP)) is Arrival.NEW
    with pytest.raises(LimitError):
        link.classify(LinkSeq(6 + MAXIMUM_SEQUENCE_GAP))


def test_an_acknowledgement_waits_for_company() -> None:
    link = ReceiveLink(SequenceSet(), set())
    assert link.next_deadline() is None
    link.answer_soon(0)
    link.answer_soon(100_000)
    assert link.next_deadline() == ACKNOWLEDGE_DELAY_US
    for _ in range(ACKNOWLEDGE_EVERY_MESSAGES - 2):
        link.answer_soon(150_000)
    assert link.next_deadline() == 150_000


def test_an_acknowledgement_is_due_until_it_has_gone() -> None:
    link = ReceiveLink(SequenceSet(), set())
    link.take(LinkSeq(1))
    link.answer_soon(0)
    assert link.acknowledgement() == SequenceSet(1)
    assert link.next_deadline() == ACKNOWLEDGE_DELAY_US
    link.answered()
    assert link.next_deadline() is None
    assert link.idle


def test_unlanded_messages_are_not_acknowledged() -> None:
    link = ReceiveLink(SequenceSet(4), {LinkSeq(3)})
    link.take(LinkSeq(5), lands_later=True)
    link.take(LinkSeq(6), lands_later=True)
    assert link.acknowledgement() == SequenceSet(2, ((4, 4),))
    assert not link.idle
    link.landed({LinkSeq(3), LinkSeq(5)})
    assert link.acknowledgement() == SequenceSet(5)
    link.landed({LinkSeq(6)})
    assert link.acknowledgement() == SequenceSet(6)
    assert link.idle


def test_nobody_waits_for_an_acknowledgement_that_nobody_asked_for() -> None:
    link = ReceiveLink(SequenceSet(4), set())
    link.make_due(7)
    assert link.next_deadline() is None
    link.answer_soon(7)
    link.make_due(8)
    assert link.next_deadline() == 8
