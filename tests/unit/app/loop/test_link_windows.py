"""`covey.app.loop.link_windows` and `link_costs`: what a budget lets a running agent do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.mqtt.wire_meter import WireBytes, WireMeter
from covey.app.loop.link_costs import LinkCosts
from covey.app.loop.link_windows import LinkWindows, ask_for_window
from covey.app.loop.relays import Relays
from covey.core.group.manifest import GroupManifest
from covey.core.history.bodies import Note
from covey.core.history.body import OperationBody
from covey.core.history.orders import SettingOrder
from covey.core.link.budget import Budget
from covey.core.link.connect_windows import ConnectSchedule, ConnectWindows
from covey.core.link.costs import CONTROL, READINGS
from covey.core.now import Now
from covey.core.orders.selector import EVERYBODY
from covey.limits.history import ANNOUNCE_US
from covey.limits.link import WINDOW_COST_BYTES, WINDOW_QUIET_US
from tests.fleet import START, Device, carry, found

HOUR_US = 3_600_000_000


class Line(Relays):
    """The relays of a device: whether they rest."""

    def __init__(self) -> None:
        super().__init__([])
        self.resting = False

    @property
    def names(self) -> list[str]:
        """One relay."""
        return ["relay"]

    def rest(self) -> None:
        """Disconnect."""
        self.resting = True

    def resume(self) -> None:
        """Connect."""
        self.resting = False


class Metered:
    """A device with a budget, and what its agent has of it."""

    def __init__(self, folder: Path, budget: Budget, spent: int = 0) -> None:
        self.device, self.collector = Device("device", folder), Device("collector", folder, collects=True)
        self.group_id = found(self.device, self.collector)
        self.device.node.state.traffic.take()
        self.budget, self.line = budget, Line()
        self.now = START
        self.start()
        self.spend(spent)

    def start(self) -> None:
        """Start an agent."""
        self.meter = WireMeter()
        self.costs = LinkCosts(self.device.store, self.meter, self.now, self.budget)
        scheduled = ConnectWindows(ConnectSchedule(HOUR_US), self.device.key, self.now)
        self.windows = LinkWindows(scheduled, self.device.store, self.line, lambda: False, self.costs)

    def spend(self, size: int) -> None:
        """Carry some bytes."""
        self.meter.note(WireBytes(tcp=size))
        self.costs.turn(self.device.node, self.now)

    def turn(self, later_us: int = 0) -> bool:
        """Turn, and say whether a window is open."""
        self.now = Now(self.now.monotonic_us + later_us, self.now.wall_us + later_us)
        self.costs.turn(self.device.node, self.now)
        self.windows.turn(self.device.node, self.now)
        return not self.line.resting

    def ask(self) -> None:
        """Ask for a window, as an alarm does."""
        with self.device.store.transaction():
            ask_for_window(self.device.store, self.now)

    def write(self, body: OperationBody) -> None:
        """Write an operation."""
        with self.device.store.transaction():
            self.device.node.history.write(self.group_id, body, self.device.now)

    def close(self) -> None:
        """End."""
        self.device.store.close()
        self.collector.store.close()


@pytest.fixture
def metered(tmp_path: Path) -> Iterator[Callable[..., Metered]]:
    made: list[Metered] = []

    def make(budget: Budget, spent: int = 0) -> Metered:
        made.append(Metered(tmp_path, budget, spent))
        return made[-1]

    yield make
    for each in made:
        each.close()


DAILY = Budget(100_000, monthly=False)


def test_a_start_opens_no_window_that_the_budget_does_not_pay_for(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 89_000)
    agent.start()
    assert not agent.turn()


def test_a_window_that_is_asked_for_uses_only_the_reserve(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 89_000)
    assert not agent.turn()
    agent.ask()
    assert agent.turn(1_000_000)
    agent.spend(6_000)
    assert not agent.turn(WINDOW_QUIET_US)
    agent.ask()
    assert not agent.turn(1_000_000), "98,000 are for what is under way"
    assert not agent.turn(12 * HOUR_US)
    assert agent.turn(12 * HOUR_US), "and it opens as soon as it is paid for"


def test_a_regular_window_that_is_not_paid_for_is_passed_over(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 50_000)
    assert agent.turn()
    agent.spend(39_000)
    assert not agent.turn(WINDOW_QUIET_US)
    for _ in range(3):
        assert not agent.turn(HOUR_US)


def test_what_is_urgent_opens_a_regular_window_from_the_reserve(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 50_000)
    assert agent.turn()
    agent.spend(39_000)
    assert not agent.turn(WINDOW_QUIET_US)
    node, group_id = agent.device.node, agent.device.node.groups.joined()[0].group_id
    with agent.device.store.transaction():
        node.actions.change(group_id, lambda draft, _: _labelled(draft, agent.device), agent.now)
    assert agent.turn(2 * HOUR_US)


def test_what_is_urgent_uses_the_reserve_for_its_first_copy_only(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 50_000)
    node = agent.device.node
    assert agent.turn()
    agent.spend(39_000)
    assert not agent.turn(WINDOW_QUIET_US)
    group_id = node.groups.joined()[0].group_id
    with agent.device.store.transaction():
        node.actions.change(group_id, lambda draft, _: _labelled(draft, agent.device), agent.now)
    assert agent.turn(2 * HOUR_US)
    node.connected(agent.now)
    for outgoing in node.envelopes_to_send(agent.now):
        node.sent(outgoing, agent.now, "relay")
    node.connection_lost()
    assert not agent.turn(WINDOW_QUIET_US + 60_000_000)
    assert not agent.turn(2 * HOUR_US), "nobody has answered"


def test_an_order_opens_a_regular_window_from_the_reserve_and_a_note_does_not(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 50_000)
    assert agent.turn()
    agent.spend(39_000)
    assert not agent.turn(WINDOW_QUIET_US)
    agent.write(Note("text/plain", b"pump 3 rattles"))
    assert not agent.turn(2 * HOUR_US)
    agent.write(SettingOrder(EVERYBODY, "app.mode", "eco"))
    assert not agent.turn(2 * HOUR_US), "it goes once the note has arrived"
    carry(agent.device, agent.collector)
    agent.device.wait(2 * ANNOUNCE_US / 1e6)
    agent.device.maintain()
    assert agent.turn(2 * HOUR_US)


def _labelled(draft: GroupManifest, device: Device) -> GroupManifest:
    member = draft.member(device.key)
    assert member is not None
    return draft.changing(replace(member, label="another"))


def test_a_power_cut_in_a_connection_hides_nothing_of_it(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY)
    assert agent.turn()
    agent.start()  # before anything was counted
    agent.turn()
    assert not agent.costs.may_spend(CONTROL, DAILY.bytes - DAILY.margin - WINDOW_COST_BYTES, agent.now)


def test_a_power_cut_hides_nothing_of_a_connection_that_replaces_a_lost_one(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY)
    node = agent.device.node
    assert agent.turn()
    agent.meter.note(WireBytes(tls=3_000, connections=1))
    node.connected(agent.now)
    assert agent.turn(1_000_000)
    node.connection_lost()
    assert agent.turn(1_000_000)
    agent.start()  # the power fails while it connects again
    left = DAILY.bytes - DAILY.margin - 3_000 - WINDOW_COST_BYTES
    assert not agent.costs.may_spend(CONTROL, left, agent.now)


def test_a_power_cut_in_the_midst_of_many_messages_hides_none_of_them(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 10_000)
    traffic = agent.device.node.state.traffic
    for _ in range(20):
        assert agent.costs.may_spend(CONTROL, 700, agent.now)
        traffic.count_sent(CONTROL, 700)
    agent.start()  # before anything was counted
    assert not agent.costs.may_spend(CONTROL, DAILY.bytes - DAILY.margin - 10_000 - 20 * 1_000, agent.now)


def test_a_power_cut_hides_no_clock_that_was_set(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 90_000)
    agent.now = Now(agent.now.monotonic_us + 1_000_000, agent.now.wall_us + 48 * HOUR_US)
    agent.costs.turn(agent.device.node, agent.now)
    agent.start()
    assert not agent.costs.may_spend(CONTROL, 10_000, agent.now)


def test_others_wait_for_the_next_window_that_the_budget_pays_for(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 50_000)
    presence = agent.device.node.state.presence
    assert agent.turn()
    assert presence.next_window_us is not None
    assert presence.next_window_us <= agent.now.monotonic_us + HOUR_US
    agent.spend(39_000)
    agent.turn(WINDOW_QUIET_US)
    midnight_us = agent.now.monotonic_us + 24 * HOUR_US - agent.now.wall_us % (24 * HOUR_US)
    for _ in range(3):
        assert midnight_us <= presence.next_window_us <= midnight_us + HOUR_US
        assert not agent.turn(HOUR_US)


def test_relays_keep_copies_until_a_window_that_pays_for_further_ones(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 72_000)
    presence = agent.device.node.state.presence
    assert agent.turn()
    assert presence.next_window_us is not None
    assert presence.next_copy_us is not None
    assert presence.next_window_us <= agent.now.monotonic_us + HOUR_US
    midnight_us = agent.now.monotonic_us + 24 * HOUR_US - agent.now.wall_us % (24 * HOUR_US)
    assert midnight_us <= presence.next_copy_us <= midnight_us + HOUR_US


def test_what_a_connection_costs_is_paid_before_it_is_seen(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 70_000)
    assert agent.turn()
    assert agent.costs.may_spend(READINGS, 4_000, agent.now)
    assert not agent.costs.may_spend(READINGS, 5_000, agent.now)
    agent.spend(3_000)
    assert not agent.costs.may_spend(READINGS, 5_000, agent.now), "the rest of it may still come"


def test_envelopes_count_with_what_carries_them_until_they_are_on_the_wire(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 30_000)
    traffic = agent.device.node.state.traffic
    agent.costs.turn(agent.device.node, agent.now)
    for _ in range(100):
        traffic.count_sent(READINGS, 150)
    for _ in range(2):
        assert agent.costs.may_spend(READINGS, 4_700, agent.now)
        assert not agent.costs.may_spend(READINGS, 4_701, agent.now)
        agent.costs.turn(agent.device.node, agent.now)
    agent.meter.note(WireBytes(mqtt=16_000, tls=1_000, tcp=3_000))
    agent.costs.turn(agent.device.node, agent.now)
    assert agent.costs.may_spend(READINGS, 4_700, agent.now)
    assert not agent.costs.may_spend(READINGS, 4_701, agent.now), "the answers may still come"
    later = Now(agent.now.monotonic_us + 2_000_000, agent.now.wall_us + 2_000_000)
    agent.costs.turn(agent.device.node, later)
    assert agent.costs.may_spend(READINGS, 29_700, later)


def test_the_envelopes_of_a_connection_cost_more_than_the_connection(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 70_000)
    assert agent.turn()
    agent.device.node.state.traffic.count_sent(READINGS, 4_000)
    agent.costs.turn(agent.device.node, agent.now)
    assert agent.costs.may_spend(READINGS, 400, agent.now)
    assert not agent.costs.may_spend(READINGS, 401, agent.now)


def test_a_connection_that_is_open_costs_what_it_did(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 70_000)
    assert agent.turn()
    agent.meter.note(WireBytes(tls=1_500, connections=1))
    agent.device.node.connected(agent.now)
    agent.costs.turn(agent.device.node, agent.now)
    assert agent.costs.may_spend(READINGS, 8_200, agent.now)
    assert not agent.costs.may_spend(READINGS, 8_201, agent.now)


def test_a_delivery_counts_with_what_carries_it_until_it_is_seen_on_the_wire(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 70_000)
    agent.now = Now(agent.now.monotonic_us + 2_000_000, agent.now.wall_us + 2_000_000)
    agent.costs.turn(agent.device.node, agent.now)
    for _ in range(10):
        agent.device.node.state.traffic.count_received(READINGS, 100)
    for _ in range(2):
        assert agent.costs.may_spend(READINGS, 5_200, agent.now)
        assert not agent.costs.may_spend(READINGS, 5_201, agent.now), "ten with their answers cost 4,500"
        agent.costs.turn(agent.device.node, agent.now)
    agent.meter.note(WireBytes(mqtt=1_850, tls=220, tcp=730))
    agent.costs.turn(agent.device.node, agent.now)
    assert agent.costs.may_spend(READINGS, 5_200, agent.now), "the answers are still to come"
    assert not agent.costs.may_spend(READINGS, 5_201, agent.now)


def test_a_delivery_that_was_seen_before_is_not_awaited(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 70_000)
    agent.now = Now(agent.now.monotonic_us + 2_000_000, agent.now.wall_us + 2_000_000)
    agent.costs.turn(agent.device.node, agent.now)
    agent.meter.note(WireBytes(mqtt=200, tls=22, tcp=104))
    agent.costs.turn(agent.device.node, agent.now)
    agent.device.node.state.traffic.count_received(READINGS, 100)
    agent.costs.turn(agent.device.node, agent.now)
    # Of 450 bytes 326 were seen. The 100 of the envelope are in the ledger twice for now, so 24 may still come.
    assert agent.costs.may_spend(READINGS, 10_000 - 326 - 100 - 24 - 300, agent.now)
    assert not agent.costs.may_spend(READINGS, 10_000 - 326 - 100 - 24 - 299, agent.now)
    agent.now = Now(agent.now.monotonic_us + 250_000, agent.now.wall_us + 250_000)
    agent.costs.turn(agent.device.node, agent.now)
    assert agent.costs.may_spend(READINGS, 10_000 - 326 - 100 - 300, agent.now), "its answer has gone"


def test_what_a_day_counts_too_much_makes_the_next_one_no_cheaper(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY)
    agent.device.node.state.traffic.count_sent(READINGS, 10_000)  # and the connection is lost before they go
    agent.costs.turn(agent.device.node, agent.now)
    tomorrow = Now(agent.now.monotonic_us + 24 * HOUR_US, agent.now.wall_us + 24 * HOUR_US)
    agent.meter.note(WireBytes(mqtt=50_000))
    agent.costs.turn(agent.device.node, tomorrow)
    assert agent.costs.may_spend(READINGS, 29_700, tomorrow)
    assert not agent.costs.may_spend(READINGS, 29_701, tomorrow)


def test_a_window_ends_when_nothing_more_may_be_spent(metered: Callable[..., Metered]) -> None:
    agent = metered(DAILY, 50_000)
    assert agent.turn()
    agent.spend(48_500)
    assert not agent.turn(1_000)
