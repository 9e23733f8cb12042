"""`covey.core.routing.collectors`: collectors take over for each other, and nothing waits for one that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.ids import Place
from covey.core.telemetry.batch import split_number
from covey.core.wire.message import MessageType, read_message
from covey.limits.group import DEPARTURE_US, MAINTENANCE_US
from tests.two_collectors import CHECK_S, SILENT_S, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.slow
def test_new_telemetry_goes_past_a_silent_collector_and_back_when_it_answers(world: World) -> None:
    world.publish(b"1 before")
    world.pass_time(CHECK_S, world.first, world.second)
    assert world.bodies(world.first) == [b"1 before"]

    world.publish(b"2 waits")
    world.pass_time(SILENT_S - 5 * CHECK_S, world.second)
    world.publish(b"3 waits, too")
    world.pass_time(10 * CHECK_S, world.second)
    world.publish(b"4 is taken over")
    world.pass_time(CHECK_S, world.second)
    assert world.bodies(world.second) == [b"4 is taken over"]
    assert world.ann.store.outbox.totals()[0] == 2, "what waits for the silent one stays"

    world.pass_time(10 * CHECK_S, world.first, world.second)
    assert world.ann.store.outbox.totals()[0] == 0
    world.publish(b"5 is back")
    world.pass_time(CHECK_S, world.first, world.second)
    assert world.bodies(world.first) == [b"1 before", b"2 waits", b"3 waits, too", b"5 is back"]
    assert world.losses() == 0


@pytest.mark.slow
def test_a_restart_remembers_who_is_silent(world: World) -> None:
    world.publish(b"1")
    world.pass_time(SILENT_S + 5 * CHECK_S, world.second)
    world.ann.restart()
    world.publish(b"2")
    world.pass_time(CHECK_S, world.second)
    assert world.bodies(world.second) == [b"2"]


def test_no_collector_is_silent_while_there_is_no_relay(world: World) -> None:
    world.publish(b"1")
    world.ann.node.connection_lost()
    world.pass_time(3 * SILENT_S)
    assert world.ann.store.presence.silent_collectors() == set()
    world.ann.node.connected(world.ann.now)
    world.pass_time(SILENT_S / 2, world.second)
    assert world.ann.store.presence.silent_collectors() == set(), "the time without a relay does not count"


@pytest.mark.slow
def test_the_first_collector_gets_telemetry_when_all_are_silent(world: World) -> None:
    world.publish(b"1")
    world.pass_time(SILENT_S + 5 * CHECK_S)
    world.publish(b"2")
    world.pass_time(SILENT_S + 5 * CHECK_S)
    assert world.ann.store.presence.silent_collectors() == {world.first.key, world.second.key}
    world.publish(b"3")
    world.pass_time(10 * CHECK_S, world.first, world.second)
    assert world.bodies(world.first) == [b"1", b"3"]
    assert world.bodies(world.second) == [b"2"]


@pytest.mark.slow
def test_telemetry_for_a_removed_collector_goes_to_the_next(world: World) -> None:
    world.publish(b"1", b"2", b"3")
    world.pass_time(CHECK_S, world.second)
    world.remove(world.first, world.ann)
    world.pass_time(5 * CHECK_S, world.second)
    assert world.bodies(world.second) == [b"1", b"2", b"3"]
    assert world.losses() == 0
    recipients = {message.recipient for message in world.landed(world.second)}
    assert recipients == {world.first.key}, "as it was signed"
    world.publish(b"4")
    world.pass_time(CHECK_S, world.second)
    assert world.bodies(world.second) == [b"1", b"2", b"3", b"4"]


def test_telemetry_for_a_departed_collector_goes_to_the_next(world: World) -> None:
    world.publish(b"1", b"2", b"3")
    with world.first.store.transaction():
        world.first.node.actions.leave(world.group_id, world.first.now)
    for outgoing in world.first.sends():
        for device in (world.ann, world.bob, world.second):
            if outgoing.recipient == device.key:
                device.receive(outgoing.envelope)
    world.pass_time(5 * CHECK_S, world.second)
    assert world.bodies(world.second) == [b"1", b"2", b"3"]
    assert world.losses() == 0


def test_messages_a_removed_collector_landed_count_once(world: World) -> None:
    world.publish(b"1", b"2")
    for outgoing in world.ann.sends():  # they arrive, and the acknowledgement is lost
        if outgoing.recipient == world.first.key:
            world.first.receive(outgoing.envelope)
    world.turn(world.first)
    assert world.bodies(world.first) == [b"1", b"2"]
    world.remove(world.first, world.ann)
    world.pass_time(5 * CHECK_S, world.second)
    assert world.bodies(world.second) == [b"1", b"2"], "landed again"
    assert world.bodies(world.first, world.second) == [b"1", b"2"], "and known by the same numbers"


@pytest.mark.slow
def test_telemetry_without_any_collector_waits_for_one(world: World) -> None:
    world.publish(b"1", b"2")
    world.remove(world.second, world.ann)
    world.remove(world.first, world.ann)
    for device in (world.ann, world.bob):
        device.wait(DEPARTURE_US / 1e6)
    world.pass_time(MAINTENANCE_US / 1e6 + CHECK_S, world.bob)
    assert world.ann.store.outbox.totals()[0] == 2
    world.appoint(world.bob)
    assert world.ann.node.groups.collector_of(world.group_id) is not None
    world.pass_time(5 * CHECK_S, world.bob)
    found_there = [read_message(row.message) for row in world.bob.store.landing.until(1_000)]
    assert [split_number(each.body)[1] for each in found_there] == [b"1", b"2"]


@pytest.mark.slow
def test_a_redirection_of_a_redirection_is_one(world: World) -> None:
    world.publish(b"1")
    world.remove(world.first, world.ann)
    world.pass_time(3 * CHECK_S)
    world.appoint(world.bob)
    world.remove(world.second, world.ann)
    world.pass_time(5 * CHECK_S, world.bob)
    [only] = [read_message(row.message) for row in world.bob.store.landing.until(1_000)]
    assert (only.recipient, split_number(only.body)[1]) == (world.first.key, b"1")


def test_nobody_redirects_what_is_not_its_own(world: World) -> None:
    collector = world.bob.node.groups.collector_of(world.group_id)
    assert collector is not None
    with world.bob.store.transaction():
        world.bob.node.telemetry.send(world.group_id, b"bob's", 1, world.bob.now)
    foreign = [raw for _, raw in world.bob.store.outbox.queued(collector.keys.signing_public, Place(0), 9, 10_000)]
    for body in (foreign[-1], b"no message"):
        with world.ann.store.transaction():
            world.ann.node._queue.queue(world.second.key, MessageType.REDIRECTED, world.group_id, body, world.ann.now)
    world.pass_time(CHECK_S, world.second)
    assert world.landed(world.second) == []
    assert world.second.store.counters.values()["quarantined_malformed"] == 2


@pytest.mark.slow
def test_a_full_outbox_is_no_reason_to_lose_what_is_redirected(world: World, tmp_path: Path) -> None:
    sizes = [bytes([65 + number]) * 1_000 for number in range(20)]
    world.publish(*sizes)
    world.ann.outbox_bytes = world.ann.store.outbox.totals()[1]
    world.ann.restart()
    world.remove(world.first, world.bob)
    world.pass_time(5 * CHECK_S, world.bob, world.second)
    assert world.bodies(world.second) == sizes


@pytest.mark.slow
def test_a_long_queue_for_somebody_else_is_looked_through_once(world: World) -> None:
    for number in range(30):
        world.ann.blob(world.group_id, b"%d" % number)
    world.publish(b"a batch")
    world.pass_time(3 * CHECK_S, world.first, world.second)
    assert world.ann.store.outbox.recipients() == [world.bob.key]
    assert world.ann.store.outbox.recipients_of_batches() == set()
    world.ann.blob(world.group_id, b"one more")
    assert world.bob.key not in world.ann.store.outbox.recipients_of_batches()
    world.publish(b"another")
    assert world.first.key in world.ann.store.outbox.recipients_of_batches()


@pytest.mark.slow
def test_nothing_is_looked_through_for_a_collector_while_there_is_none(world: World) -> None:
    world.publish(*(b"%d" % number for number in range(30)))
    world.remove(world.second, world.ann)
    world.remove(world.first, world.ann)
    for device in (world.ann, world.bob):
        device.wait(DEPARTURE_US / 1e6)
    world.pass_time(MAINTENANCE_US / 1e6 + CHECK_S, world.bob)
    world.ann.restart()
    reads: list[str] = []
    world.ann.store.connection.set_trace_callback(lambda text: reads.append(text) if "message" in text else None)
    for _ in range(3):
        world.ann.wait(CHECK_S)
        world.ann.maintain()
    world.ann.store.connection.set_trace_callback(None)
    assert [text for text in reads if " FROM outbox " in text] == []
