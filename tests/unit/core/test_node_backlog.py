"""After a long outage: live and old, one recipient and another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from covey.limits.link import LINK_WINDOW_MESSAGES
from tests.fleet import Device, carry, found

Make = Callable[..., Device]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda name, **options: Device(name, tmp_path, **options)


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
