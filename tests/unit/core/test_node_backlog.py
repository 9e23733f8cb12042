"""After a long outage: live and old, one recipient and another."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest

from covey.core.events import RollbackDetected
from covey.core.ids import Incarnation, Place
from covey.core.telemetry.batch import split_number
from covey.core.vault.landing import LandingPlan
from covey.core.wire.message import read_message
from covey.errors import OutboxFullError
from covey.limits.link import LINK_WINDOW_MESSAGES
from tests.fleet import Device, Make, carry, found


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


def _land(collector: Device) -> list[str]:
    """Let a collector put everything into its vault, and acknowledge it; return the batches, in order of arrival."""
    waiting = collector.store.landing.waiting(1 << 24, 10_000)
    if waiting is None:
        return []
    rows = collector.store.landing.until(waiting[0])
    with collector.store.transaction():
        for row in rows:
            collector.node.landing.landed(row.author, row.incarnation, {row.link_seq}, collector.now)
        plan = LandingPlan(1, Incarnation(b"incarnat"), waiting[0], 1, bytes(24))
        collector.store.landing.begin(plan)
        collector.store.landing.finish(plan, 1)
    return [split_number(read_message(row.message).body)[1].decode() for row in rows]


def _second(gateway: Device, collector: Device, slots: int) -> list[str]:
    """Let a second pass over a link that carries so many messages; return which batches came."""
    delivered = []
    for outgoing in islice(gateway.node.envelopes_to_send(gateway.now), slots):
        gateway.node.sent(outgoing, gateway.now)
        delivered.append(outgoing.envelope)
    collector.receive_together(delivered)
    came = _land(collector)
    for outgoing in collector.sends():
        if outgoing.recipient == gateway.key:
            gateway.receive(outgoing.envelope)
    for device in (gateway, collector):
        device.wait(1)
    return came


@pytest.mark.slow
def test_new_readings_overtake_a_backlog(make: Make) -> None:
    """After an outage: a batch each 5 s, and 3,000 of before over a link that carries 50 a second."""
    gateway, collector = make("gateway"), make("collector", collects=True)
    group_id = found(gateway, collector)
    gateway.node.connection_lost()
    backlog = [f"old {number}" for number in range(3_000)]
    gateway.batch(group_id, *(batch.encode() for batch in backlog))
    gateway.node.connected(gateway.now)
    came, waits = list[str](), dict[str, int]()
    for second in range(100):
        if second % 5 == 1:
            gateway.batch(group_id, b"new %d" % second)
        for batch in _second(gateway, collector, 50):
            came.append(batch)
            if batch.startswith("new"):
                waits[batch] = second - int(batch[4:])
    assert sorted(came) == sorted([*backlog, *waits])  # each once
    assert [batch for batch in came if batch in set(backlog)] == backlog  # and these in order
    assert len(waits) == 20
    assert max(waits.values()) <= 1
    assert gateway.store.outbox.totals()[0] == 0
    assert not [event for event in gateway.events() if isinstance(event, RollbackDetected)]
    received = collector.store.received.of(gateway.key, gateway.store.incarnations.present())
    assert received.ranges == ()


@pytest.mark.slow
def test_new_readings_overtake_those_that_awaited_a_collector(make: Make) -> None:
    """The relay could be reached all the while; the collector was away."""
    gateway, collector = make("gateway"), make("collector", collects=True)
    group_id = found(gateway, collector)
    for number in range(1_600):
        gateway.batch(group_id, b"old %d" % number)
        gateway.sends()
        gateway.wait(5)
    collector.now = gateway.now
    while not _second(gateway, collector, 50):
        assert gateway.store.outbox.totals()[0] == 1_600
    _second(gateway, collector, 50)
    gateway.batch(group_id, b"new")
    came = [batch for _ in range(5) for batch in _second(gateway, collector, 50)]
    assert "new" in came
    assert gateway.store.outbox.totals()[0] > 1_000


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed", "slots"), [("batch", 2, 1_000), ("blob", 1, 400)])
def test_a_backlog_over_a_relay_that_loses_some_comes_once(make: Make, kind: str, seed: int, slots: int) -> None:
    """Messages and acknowledgements are lost, connections break, and more is queued meanwhile."""
    gateway, collector = make("gateway"), make("collector", collects=True)
    group_id, chance = found(gateway, collector), random.Random(seed)
    said, came = list[str](), list[str]()

    def say(count: int) -> None:
        more = [f"{kind} {len(said) + number}" for number in range(count)]
        said.extend(more)
        getattr(gateway, kind)(group_id, *(each.encode() for each in more))

    say(3_000)
    for second in range(1_000):
        if chance.random() < 0.05:
            gateway.node.connection_lost()
            say(20)
            gateway.wait(chance.randrange(60))
            gateway.node.connected(gateway.now)
        if second < 60:
            say(1)
        elif not gateway.store.outbox.totals()[0]:
            break
        delivered = []
        for outgoing in islice(gateway.node.envelopes_to_send(gateway.now), slots):
            gateway.node.sent(outgoing, gateway.now)
            if chance.random() < 0.95:
                delivered.append(outgoing.envelope)
        collector.receive_together(delivered)
        came += _land(collector)
        for outgoing in collector.sends():
            if chance.random() < 0.9:
                gateway.receive(outgoing.envelope)
        for device in (gateway, collector):
            device.wait(1)
    came += [row[-1].decode() for row in collector.store.inbox.arrived(10_000)]
    assert sorted(came) == sorted(said)
    assert not [event for event in gateway.events() if isinstance(event, RollbackDetected)]


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


def test_a_rollback_keeps_a_dropped_batch(make: Make) -> None:
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
def test_overtaking_a_backlog_raises_no_doubt(make: Make) -> None:
    """A window of a long backlog is taken, its acknowledgement lost, and a control message far ahead comes then."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    with ann.store.transaction():
        for number in range(3 * LINK_WINDOW_MESSAGES):
            ann.node.send_blob(group_id, b"%d" % number, ann.now)
    ben.receive_together(outgoing.envelope for outgoing in ann.sends())
    ben.node.make_acknowledgements_due(ben.now)
    ben.sends()  # and it is lost
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.renewing(epoch), ann.now)
    ben.receive_together(outgoing.envelope for outgoing in ann.sends())
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


def test_an_acknowledgement_costs_as_many_rows_as_it_names(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(200):
        ann.blob(group_id, b"%d" % number)
    for outgoing in ann.sends()[:3]:
        ben.receive(outgoing.envelope)
    ben.wait(1)
    [acknowledgement] = ben.sends()
    read: list[Place] = []
    queued = ann.store.outbox.queued

    def counted(*arguments: Any, **named: Any) -> list[tuple[Place, bytes]]:
        rows = queued(*arguments, **named)
        read.extend(place for place, _ in rows)
        return rows

    monkeypatch.setattr(ann.store.outbox, "queued", counted)
    ann.receive(acknowledgement.envelope)
    assert len(read) <= 4, "the group's manifest is named once more, and gone"
    assert ann.store.outbox.totals()[0] == 197
