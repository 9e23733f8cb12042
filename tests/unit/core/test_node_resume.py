"""A recipient that lost its state, and a sender that has forgotten what the earlier state acknowledged."""

from __future__ import annotations

import pytest

from covey.core.ids import GroupId
from covey.limits.link import MAXIMUM_SEQUENCE_GAP, RETRY_US_INITIAL
from tests.fleet import Device, Make, admit, carry, found


def _lose_state(device: Device, inviter: Device, group_id: GroupId) -> None:
    """Give a device an empty store, and let it into the group again."""
    device.store.close()
    for file in device.path.parent.glob(f"{device.name}*"):
        file.unlink()
    del device.store
    device.restart()
    admit(inviter, device, group_id)


def test_a_recipient_that_lost_its_state_closes_the_gap(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for content in (b"one", b"two"):
        ann.blob(group_id, content)
        carry(ann, ben)
    _lose_state(ben, ann, group_id)
    ann.blob(group_id, b"three")
    carry(ann, ben)
    assert ben.inbox() == [b"three"]
    assert ann.store.outbox.totals()[0] == 0
    received = ben.store.received.of(ann.key, ann.store.incarnations.present())
    assert received.ranges == ()
    assert "lost_messages" not in ben.store.counters.values()


@pytest.mark.slow
def test_a_sender_far_ahead_is_received_again(make: Make) -> None:  # accepts: 002.34
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    with ann.store.transaction():
        for _ in range(MAXIMUM_SEQUENCE_GAP + 1):
            ann.store.outbox.allocate(ben.key)
    ann.blob(group_id, b"far ahead")
    carry(ann, ben)
    assert ben.inbox() == []
    ann.wait(RETRY_US_INITIAL / 1e6)
    carry(ann, ben)
    assert ben.inbox() == [b"far ahead"]
    assert ann.store.outbox.totals()[0] == 0


def test_an_acknowledgement_that_comes_late_changes_nothing(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"one")
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    ben.wait(1)
    [late] = ben.sends()
    ann.blob(group_id, b"two")
    carry(ann, ben)
    ann.receive(late.envelope)
    carry(ann, ben)
    assert ben.inbox() == [b"one", b"two"]
    assert ann.store.outbox.totals()[0] == 0
