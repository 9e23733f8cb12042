"""What waits for a board goes to its gateway's inbox, which takes it in the board's stead when that is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import MAILBOX, GroupManifest
from covey.core.mailbox.messages import VERSION, Hello, Push
from covey.core.mailbox.pushing import mailboxes_of
from covey.limits.mailbox import HELLO_US
from covey_boards.shared import messages
from tests.fleet import Device, carry
from tests.mailbox_fleet import MAXIMUM_BYTES, say
from tests.unit.core.board_fleet import Fleet, behind_two_gateways

_TEXTS = [b"word %d" % number for number in range(6)]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """The gateway sleeps, a way to its board is known, and the other gateway is a mailbox."""
    made = behind_two_gateways(tmp_path)

    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        member = draft.member(made.other.key)
        assert member is not None
        return draft.changing(replace(member, capabilities=(MAILBOX,)))

    with made.gate.store.transaction():
        made.gate.node.actions.change(made.group_id, edit, made.gate.now)
    made.carry()
    made.forward(made.telemetry())
    made.carry()
    made.land()
    made.carry()
    made.acknowledgements()
    exchange = made.other.node.mailboxes.exchange
    assert exchange is not None
    exchange.serve(MAXIMUM_BYTES)
    return made


def _pass(*devices: Device) -> None:
    for _ in range(4):
        carry(*devices)
        for device in devices:
            device.wait(HELLO_US / 1e6)
            device.maintain()


def _hand_over(fleet: Fleet) -> None:
    collector = fleet.collector
    with collector.store.transaction():
        for text in _TEXTS:
            collector.node.send_blob(fleet.group_id, text, collector.now, fleet.board.key)
        collector.store.mailbox.hand_over(fleet.board.key)
    collector.node.refresh()
    _pass(collector, fleet.other)


def _kept(fleet: Fleet) -> int:
    return fleet.other.store.mailbox.state(fleet.gate.key).blobs


def _handed_down(fleet: Fleet) -> list[bytes]:
    """Return the blobs that go down the board's line now."""
    secret, found = fleet.board.identity.noise_secret, []
    for forward in fleet.gate.node.routes.take():
        assert forward.to == fleet.board.key
        fields = messages.read_message(messages.open_sealed(forward.envelope, secret))
        found += [bytes(fields[8])] if fields[0] == messages.BLOB else []
    return found


@pytest.mark.slow
def test_a_gateway_that_slept_hands_down_what_waited_in_order_and_once(fleet: Fleet) -> None:
    """Its collector is gone by then, and the board has its line back later still."""
    _hand_over(fleet)
    assert _kept(fleet) == len(_TEXTS)
    _pass(fleet.gate, fleet.other)
    assert (_handed_down(fleet), _kept(fleet)) == ([], len(_TEXTS)), "the board is not on its line"
    fleet.gate.node.routes.on_line = frozenset({fleet.board.key})  # as its bridge says
    exchange = fleet.gate.node.mailboxes.exchange
    assert exchange is not None
    exchange.look_once_more(fleet.gate.now)
    carry(fleet.gate, fleet.other)
    first = _handed_down(fleet)
    assert first == _TEXTS[: len(first)]
    assert 0 < len(first) < len(_TEXTS), "as many as wait for one board at once"
    _pass(fleet.gate, fleet.other)
    assert first + _handed_down(fleet) == _TEXTS
    assert _kept(fleet) == 0


@pytest.mark.slow
def test_a_boards_messages_are_kept_once_for_the_gateway_that_carries_for_it(fleet: Fleet) -> None:
    _hand_over(fleet)
    with fleet.collector.store.transaction():
        fleet.collector.store.mailbox.forget_pushed(fleet.other.key)
    fleet.collector.restart()
    _pass(fleet.collector, fleet.other)
    assert _kept(fleet) == len(_TEXTS), "idempotent by the message's own id"
    assert fleet.other.store.mailbox.state(fleet.board.key).blobs == 0
    node = fleet.collector.node
    groups = node.groups.joined()
    assert node.routes.inbox(node.groups, node.identity, fleet.board.key) == fleet.gate.key
    assert [key for key, _ in mailboxes_of(groups, fleet.collector.key, fleet.gate.key)] == [fleet.other.key]
    assert mailboxes_of(groups, fleet.collector.key, None) == []


def test_nothing_is_kept_for_a_board_itself(fleet: Fleet) -> None:
    say(fleet.collector, fleet.other, Hello(VERSION, "collector", 0), fleet.group_id)
    fleet.other.events()
    say(fleet.collector, fleet.other, Push(bytes(16), b"sealed", 0, fleet.board.key), fleet.group_id)
    assert [each.code for each in fleet.other.events() if isinstance(each, EnvelopeDropped)] == ["not_a_member"]
    assert fleet.other.store.mailbox.state(fleet.board.key).blobs == 0
