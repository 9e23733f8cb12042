"""After a long outage: live and old, one recipient and another."""

from __future__ import annotations

from contextlib import suppress

import pytest

from covey.core.events import RollbackDetected
from covey.errors import OutboxFullError
from covey.limits.link import LINK_WINDOW_MESSAGES
from tests.fleet import Make, carry, found


@pytest.mark.slow
def test_live_data_pass_while_a_backlog_for_somebody_else_drains(make: Make) -> None:
    """One recipient was away for long; what is new for others waits for none of its backlog."""
    ann, away, here = make("ann"), make("away"), make("here")
    group_id = found(ann, away, here)
    for number in range(3_000):
        ann.blob(group_id, b"%d" % number)
        if number % 500 == 0:
            carry(ann, here)
    carry(ann, here)
    assert len(here.store.inbox.arrived(10_000)) == 3_000
    ann.blob(group_id, b"live")
    first = [outgoing for outgoing in ann.sends() if outgoing.recipient == here.key]
    assert len(first) == 1
    here.receive(first[0].envelope)
    assert here.store.inbox.arrived(10_000)[-1][-1] == b"live"
    assert ann.store.outbox.totals()[0] >= 3_000
    ann.wait(400)
    carry(ann, away, here)
    bodies = [row[-1] for row in away.store.inbox.arrived(10_000)]
    assert bodies == [b"%d" % number for number in range(3_000)] + [b"live"]


@pytest.mark.slow
def test_a_window_at_a_time_is_in_flight_and_in_order(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    with ann.store.transaction():
        for number in range(LINK_WINDOW_MESSAGES + 500):
            ann.node.send_blob(group_id, b"%d" % number, ann.now)
    sent = ann.sends()
    assert len(sent) == LINK_WINDOW_MESSAGES
    places = [outgoing.entry.place for outgoing in sent if outgoing.entry]
    assert places == sorted(places)


def test_what_a_transaction_dropped_that_was_rolled_back_is_still_sent(make: Make) -> None:
    """Room is made for a batch by dropping the oldest one; then a second batch does not fit, and neither is taken."""
    ann, collector = make("ann", outbox_bytes=4_000), make("collector", collects=True)
    group_id = found(ann, collector)
    for number in range(6):
        ann.batch(group_id, b"%d" % number + bytes(300))
    assert len(ann.sends()) == 6  # and a relay loses them all
    with suppress(OutboxFullError), ann.store.transaction():
        ann.node.telemetry.send(group_id, bytes(1_500), 1, ann.now)
        ann.node.telemetry.send(group_id, bytes(5_000), 1, ann.now)
        pytest.fail("there is room for both")
    for _ in range(20):
        ann.wait(301)
        carry(ann, collector)
    assert len(collector.store.landing.until(1_000)) == 6
    assert ann.store.outbox.totals()[0] == 6  # the vault has not got them yet
    assert collector.store.counters.values().get("lost_messages", 0) == 0


@pytest.mark.slow
def test_what_overtakes_a_backlog_makes_nobody_doubt_it(make: Make) -> None:
    """A window of a long backlog is taken, its acknowledgement lost, and a control message far ahead comes then."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    with ann.store.transaction():
        for number in range(3 * LINK_WINDOW_MESSAGES):
            ann.node.send_blob(group_id, b"%d" % number, ann.now)
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    ben.node.make_acknowledgements_due(ben.now)
    ben.sends()  # and it is lost
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.renewing(epoch), ann.now)
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    for _ in range(3):
        ann.wait(301)
        carry(ann, ben)
    assert not [event for event in ann.events() if isinstance(event, RollbackDetected)]
    assert sorted(int(row[-1]) for row in ben.store.inbox.arrived(10_000)) == [*range(3 * LINK_WINDOW_MESSAGES)]


@pytest.mark.slow
@pytest.mark.parametrize("away", ["both", "recipient"])
def test_a_queue_drains_within_seconds_of_a_connection_that_flapped(make: Make, away: str) -> None:
    """Ten minutes in which each connection breaks before anything has come: no back-off of theirs is waited for."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    with ann.store.transaction():
        for number in range(200):
            ann.node.send_blob(group_id, b"%d" % number, ann.now)
    for _ in range(100):
        ann.sends()  # and it is lost
        ann.wait(1)
        if away == "both":
            ann.node.connection_lost()
            ann.wait(5)
            ann.node.connected(ann.now)
        else:
            ann.wait(5)
    ben.now = ann.now
    ben.node.connection_lost()
    ben.node.connected(ben.now)
    seconds = 0.0
    while ann.store.outbox.totals()[0]:
        seconds += 0.25
        assert seconds < 10
        for device, other in ((ann, ben), (ben, ann)):
            device.wait(0.25)
            device.maintain()
            for outgoing in device.sends():
                other.receive(outgoing.envelope)
    assert sorted(int(body) for body in ben.inbox()) == [*range(200)]
