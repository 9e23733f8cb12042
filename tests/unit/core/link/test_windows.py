"""`covey.core.link.windows`: control first, then history and bulk by turns, whatever waits of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.history.bodies import Note
from covey.core.ids import DeviceKey
from covey.core.link.queued import Lane
from covey.core.link.sealer import Outgoing
from covey.core.link.windows import Windows
from tests.fleet import Device, carry, found

ANN, BEN = DeviceKey(b"a" * 32), DeviceKey(b"b" * 32)


def _served(windows: Windows) -> list[tuple[Lane, bytes]]:
    """Serve the first window, as a relay that takes one message at a time would have it."""
    order = [(link.lane, link.recipient[:1]) for link in windows.serving()]
    first = next(link for link in windows.serving() if link.lane not in {Lane.CONTROL, Lane.ALARM})
    windows.served(first)
    return order


_FIRST = [(lane, recipient) for lane in (Lane.CONTROL, Lane.ALARM) for recipient in (b"a", b"b")]


def test_control_goes_first_then_alarms_and_the_others_take_turns() -> None:
    windows = Windows()
    for recipient in (ANN, BEN):
        windows.queue_grew(recipient)
    orders = [_served(windows) for _ in range(4)]
    assert all(order[:4] == _FIRST for order in orders)
    assert [order[4] for order in orders] == [
        (Lane.HISTORY, b"a"),
        (Lane.BULK, b"a"),
        (Lane.HISTORY, b"b"),
        (Lane.BULK, b"b"),
    ]


def _turn(device: Device, slots: int) -> list[Outgoing]:
    """Give a relay what it takes in one turn."""
    taken: list[Outgoing] = []
    for outgoing in device.node.envelopes_to_send(device.now):
        taken.append(outgoing)
        device.node.sent(outgoing, device.now)
        if len(taken) == slots:
            break
    return taken


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Device, Device]:
    """A collector with much to come of both kinds, from a gateway."""
    gateway, collector = Device("gateway", tmp_path), Device("collector", tmp_path, collects=True)
    group_id = found(gateway, collector)
    carry(gateway, collector)
    for number in range(300):
        gateway.batch(group_id, b"%d" % number)
    with gateway.store.transaction():
        for _ in range(3):
            gateway.node.history.write(group_id, Note("text/plain", bytes(60_000)), gateway.now)
    return gateway, collector


def test_a_window_that_waits_for_an_answer_is_not_looked_at_until_something_happens_to_it(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    carry(ann, ben)
    ann.sends()
    windows = ann.node.state.windows
    assert list(windows.serving()) == []
    ann.blob(group_id, b"more")
    assert {link.recipient for link in windows.serving()} == {ben.key}
    [lost] = ann.sends()
    ann.sends()
    assert list(windows.serving()) == []
    ann.wait(60)
    ann.maintain()
    [retried] = ann.sends()
    assert retried.entry == lost.entry
    ann.sends()
    assert list(windows.serving()) == []
    ann.node.connection_lost()
    ann.node.connected(ann.now)
    assert {link.recipient for link in windows.serving()} == {ben.key}


def _lanes(taken: list[Outgoing]) -> set[Lane]:
    return {outgoing.entry.lane for outgoing in taken if outgoing.entry is not None}


def test_history_does_not_wait_for_a_backlog_nor_a_backlog_for_history(pair: tuple[Device, Device]) -> None:
    gateway, _ = pair
    assert _lanes([*_turn(gateway, 4), *_turn(gateway, 4)]) >= {Lane.HISTORY, Lane.BULK}


@pytest.mark.slow
def test_history_comes_where_telemetry_is_not_taken(tmp_path: Path) -> None:
    gateway, member = Device("gateway", tmp_path), Device("member", tmp_path, collects=True)
    group_id = found(gateway, member)
    carry(gateway, member)
    member.nodes.collects = False  # its agent runs without the role now
    member.replace_node()
    for number in range(1_200):
        gateway.batch(group_id, b"%d" % number)
    with gateway.store.transaction():
        written = gateway.node.history.write(group_id, Note("text/plain", b"after all"), gateway.now)
    carry(gateway, member)
    assert member.store.operations.held(group_id, written.id) is not None
    assert member.store.landing.size() == 0


def test_what_is_known_of_a_slow_way_outlasts_each_message(tmp_path: Path) -> None:
    """A message each minute, answered after six seconds: one that begins with a first retry time goes twice."""
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    carry(ann, ben)
    under_way: list[tuple[int, Device, bytes]] = []
    copies = []
    for minute in range(10):
        ann.blob(group_id, b"%d" % minute)
        copies.append(0)
        for second in range(60 * minute, 60 * minute + 60):
            for due, device, envelope in under_way:
                if due == second:
                    device.receive(envelope)
            for sender, other in ((ann, ben), (ben, ann)):
                for outgoing in sender.sends():
                    copies[-1] += sender is ann and outgoing.entry is not None
                    under_way.append((second + 3, other, outgoing.envelope))
                sender.wait(1)
    assert copies[0] == 2
    assert copies[5:] == [1] * 5
    assert ben.inbox()[-10:] == [b"%d" % minute for minute in range(10)]
