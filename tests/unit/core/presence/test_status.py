"""Presence: what a device tells of itself, and what its collector makes of it, through `Node`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from covey.core.link.budget import Budget
from covey.core.link.reported_cost import ReportedCost
from covey.core.link.sealer import Outgoing
from covey.core.now import Now
from covey.core.presence.heartbeat import LastWill
from covey.core.presence.status import PeerPresence, Presence, State, condition, peer_presence
from covey.core.wire.envelope import read_envelope
from covey.core.wire.message import MessageType, read_message
from covey.errors import RemoteError
from covey.limits.link import COST_REPORT_US
from covey.limits.relay import KEEPALIVE_S, PRESENCE_BLOCK
from tests.fleet import Device, carry, found
from tests.vectors import vectors

INTERVAL_S = 300
MINUTE_S = 60


class Teller(Device):
    """A device that tells its collector that it is there; a relay comes up and goes as a test says."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder, presence_us=INTERVAL_S * 1_000_000)

    def restart(self) -> None:
        """Open the store and take up what it holds; no relay is up."""
        super().restart()
        self.node = self.make_node()
        self.maintain()

    def up(self, relay: str = "first") -> LastWill:
        """Reach a relay, which holds a will; return it."""
        self.compares_on_contact_only()
        will = self.node.last_will(self.now)
        assert will is not None
        self.node.connected(self.now)
        self.node.heartbeat.connected(relay, will.connection)
        return will

    def beats(self) -> list[Outgoing]:
        """Return the unsequenced envelopes that go now."""
        return [each for each in self.sends() if each.entry is None]


class Pair:
    """A device and its collector, who have settled everything else."""

    def __init__(self, folder: Path) -> None:
        self.ann, self.cat = Teller("ann", folder), Device("cat", folder, collects=True)
        self.group_id = found(self.ann, self.cat)
        carry(self.ann, self.cat)
        self.maintain()

    def maintain(self) -> None:
        """Let both write what is due."""
        self.ann.maintain()
        self.cat.maintain()

    def reports(self, *envelopes: bytes) -> str:
        """Let envelopes come to the collector; return how it sees the device."""
        for envelope in envelopes:
            self.cat.receive(envelope)
        self.maintain()
        return self.condition()

    def condition(self) -> str:
        """Return how the collector's status would say that the device is."""
        store, key = self.cat.store, self.ann.key
        return condition(store.presence.of_peers().get(key), store.presence.last_seen().get(key), self.cat.now.wall_us)[
            0
        ]

    def wait(self, seconds: float) -> None:
        """Let time pass for both."""
        self.ann.wait(seconds)
        self.cat.wait(seconds)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.mark.parametrize("vector", vectors("presences", "bodies"))
def test_bodies(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            Presence.from_wire(body)
        assert caught.value.code == vector["code"]
        return
    presence = Presence.from_wire(body)
    counter, state, interval_s, connections = vector["presence"]
    reported = None if vector["cost"] is None else ReportedCost.from_value(vector["cost"])
    assert presence == Presence(counter, State(state), interval_s, tuple(connections), reported)
    if vector["name"] not in {"a cost, and what a newer device tells", "a will with a cost, which tells none"}:
        assert presence.to_wire() == body


@pytest.mark.parametrize("vector", vectors("presences"))
def test_a_signed_one(vector: dict[str, Any]) -> None:
    message = read_message(bytes.fromhex(vector["bytes"]))
    assert (message.type, message.seq, message.link_seq) == (MessageType.PRESENCE, 0, 0)
    assert Presence.from_wire(message.body).state is State.HERE


@pytest.mark.parametrize("story", vectors("presences", "stories"))
def test_stories(story: dict[str, Any]) -> None:
    held: PeerPresence | None = None
    for reported in story["presences"]:
        presence = Presence.from_wire(bytes.fromhex(reported["bytes"]))
        if held is not None:
            after = held.updated(presence, 1_000)
        else:
            after = None if presence.state is State.GONE else peer_presence(presence, 1_000, 1_000)
        assert (after is not None) == reported["holds"]
        held = after or held
    assert condition(held, None, 2_000)[0] == story["condition"]


def test_gone_by_the_will_and_back(pair: Pair) -> None:  # accepts: 002.10
    will = pair.ann.up()
    first = pair.ann.beats()
    assert [each.topic for each in first] == [will.topic]
    assert pair.reports(*(each.envelope for each in first)) == "online"
    assert pair.reports(will.envelope) == "gone"
    pair.wait(1)
    pair.ann.restart()
    pair.ann.up()
    repeated = pair.ann.beats()
    assert pair.reports(*(each.envelope for each in repeated)) == "online"
    for old in (will.envelope, *(each.envelope for each in first)):  # the relay replays
        assert pair.reports(old) == "online"


def test_a_will_is_sealed_and_tells_a_relay_nothing(pair: Pair) -> None:
    will = pair.ann.up()
    [beat] = pair.ann.beats()
    assert will.topic == beat.topic
    message = read_message(read_envelope(will.envelope).open(pair.cat.identity.noise_secret))
    assert message.type is MessageType.PRESENCE
    assert will.envelope[:2] == b"\x84\x01"  # sealed, whatever link keys there are
    assert bytes(pair.ann.key) not in will.envelope
    assert KEEPALIVE_S * 1.5 + will.delay_s <= 150  # so late a relay reports a power cut (ADR 114)
    assert KEEPALIVE_S * 2 < 150  # a device has noticed a dead connection by then
    assert will.envelope.hex() not in repr(will)


def test_one_of_two_relays_lost_is_not_gone(pair: Pair) -> None:
    first, second = pair.ann.up("first"), pair.ann.up("second")
    assert pair.reports(*(each.envelope for each in pair.ann.beats())) == "online"
    assert pair.reports(first.envelope) == "online"  # the collector may hear of it before the device does
    pair.ann.node.heartbeat.connection_lost("first")
    assert pair.reports(*(each.envelope for each in pair.ann.beats())) == "online"
    assert pair.reports(first.envelope) == "online"
    assert pair.reports(second.envelope) == "gone"


def test_going_on_purpose(pair: Pair) -> None:
    will = pair.ann.up()
    pair.reports(*(each.envelope for each in pair.ann.beats()))
    pair.ann.node.heartbeat.end()
    assert pair.reports(*(each.envelope for each in pair.ann.beats())) == "stopped"
    assert pair.reports(will.envelope) == "stopped"


def test_silent_after_two_and_a_half_intervals(pair: Pair) -> None:
    pair.ann.up()
    assert pair.reports(*(each.envelope for each in pair.ann.beats())) == "online"
    pair.wait(2.5 * INTERVAL_S)
    assert pair.condition() == "online"
    pair.wait(2 * MINUTE_S)
    assert pair.condition() == "silent"
    assert pair.reports(*(each.envelope for each in pair.ann.beats())) == "online"


def test_any_message_is_a_sign_of_life(pair: Pair) -> None:
    pair.ann.up()
    assert len(pair.ann.beats()) == 1
    pair.wait(INTERVAL_S - 1)
    assert not pair.ann.beats()
    pair.ann.batch(pair.group_id, b"readings")
    assert len(pair.ann.sends()) == 1
    pair.wait(INTERVAL_S - 1)
    assert not pair.ann.beats()
    pair.wait(1)
    assert len(pair.ann.beats()) == 1


def test_a_message_after_the_will_shows_that_it_is_back(pair: Pair) -> None:
    will = pair.ann.up()
    pair.reports(*(each.envelope for each in pair.ann.beats()))
    pair.ann.blob(pair.group_id, b"under way")
    late = [each.envelope for each in pair.ann.sends() if each.entry is not None]
    assert pair.reports(will.envelope) == "gone"
    pair.wait(1)
    assert pair.reports(*late) == "gone"
    pair.wait(2 * MINUTE_S)
    for acknowledgement in pair.cat.sends():
        pair.ann.receive(acknowledgement.envelope)
    pair.ann.blob(pair.group_id, b"new")
    assert pair.reports(*(each.envelope for each in pair.ann.sends() if each.entry is not None)) == "online"


def test_strangers_and_the_removed_are_not_heard(pair: Pair, tmp_path: Path) -> None:
    pair.ann.up()
    beats = [each.envelope for each in pair.ann.beats()]
    with pair.cat.store.transaction():
        pair.cat.node.actions.change(
            pair.group_id, lambda draft, epoch: draft.removing(pair.ann.key, epoch), pair.cat.now
        )
    assert pair.reports(*beats) == "unknown"
    assert pair.cat.store.counters.values()["dropped_not_a_member"] == len(beats)


def test_beats_are_written_together(pair: Pair) -> None:
    pair.ann.nodes.presence_us = 10_000_000
    pair.ann.restart()
    pair.ann.up()
    pair.reports(*(each.envelope for each in pair.ann.beats()))
    pair.ann.node.make_acknowledgements_due(pair.ann.now)
    assert pair.ann.beats() != []  # where links stand, told anew: that is no beat
    before = pair.cat.store.connection.total_changes
    for _ in range(6):
        assert not pair.cat.node.heartbeat.has_work(pair.cat.now)
        pair.wait(10)
        [beat] = pair.ann.beats()
        pair.cat.receive(beat.envelope)
    assert pair.cat.store.connection.total_changes == before
    pair.wait(10)
    assert pair.cat.node.heartbeat.has_work(pair.cat.now)
    pair.maintain()
    assert pair.condition() == "online"
    assert pair.cat.store.presence.of_peers()[pair.ann.key].seen_at_us == pair.cat.now.wall_us - 10_000_000


def test_a_status_refused_by_a_full_disk_is_written_later(pair: Pair) -> None:
    pair.ann.up()
    for beat in pair.ann.beats():
        pair.cat.receive(beat.envelope)
    pair.cat.on_a_full_disk(lambda: pair.cat.node.heartbeat.write(pair.cat.now))
    assert pair.condition() == "unknown"
    assert pair.cat.node.heartbeat.has_work(pair.cat.now)
    pair.maintain()
    assert pair.condition() == "online"


@pytest.mark.slow
def test_the_counter_rises_through_restarts_and_a_clock_that_falls_back(pair: Pair) -> None:
    ann = pair.ann
    used = [ann.up().connection]
    used += [ann.up().connection for _ in range(PRESENCE_BLOCK - 20)]
    ann.maintain()
    used += [ann.up().connection for _ in range(PRESENCE_BLOCK - 20)]
    ann.now = Now(ann.now.monotonic_us, 5)
    ann.restart()
    used += [ann.up().connection for _ in range(3)]
    ann.now = Now(ann.now.monotonic_us, used[-1] * 1_000_000 + 10_000_000_000)
    ann.restart()
    used.append(ann.up().connection)
    assert used == sorted(set(used))
    assert used[-1] >= ann.now.wall_us // 1_000_000


COST = ReportedCost(80_000, 1_200_000, 2_400_000, Budget(3_000_000, monthly=True))


def reported_by(pair: Pair) -> ReportedCost | None:
    """Return what the collector knows of the cost of the device's link."""
    return pair.cat.store.presence.of_peers()[pair.ann.key].cost


def deliver(pair: Pair) -> list[int]:
    """Let what the device sends come to the collector; return the sizes of the envelopes that were beats."""
    sizes = []
    for each in pair.ann.sends():
        peers = pair.cat.node.state.presence.peers
        before = peers.get(pair.ann.key)
        pair.reports(each.envelope)
        if peers.get(pair.ann.key) != before:
            sizes.append(len(each.envelope))
    return sizes


def test_a_beat_tells_what_the_link_has_cost_once_an_hour(pair: Pair) -> None:
    ann = pair.ann
    ann.node.state.presence.cost = COST
    ann.up()
    deliver(pair)
    assert reported_by(pair) == COST
    ann.node.state.presence.cost = COST._replace(today=90_000)
    sizes = []
    for _ in range(COST_REPORT_US // 1_000_000 // INTERVAL_S):
        assert reported_by(pair) == COST
        pair.wait(INTERVAL_S)
        sizes += deliver(pair)
    assert reported_by(pair) == COST._replace(today=90_000)
    assert len(set(sizes[:-1])) == 1
    assert sizes[-1] - sizes[0] <= 32  # bytes


@pytest.mark.slow
def test_a_device_that_always_sends_beats_once_an_hour_for_its_cost(pair: Pair) -> None:
    ann = pair.ann
    ann.node.state.presence.cost = COST
    ann.up()
    beats = deliver(pair)
    for _ in range(2 * 60 + 1):
        pair.wait(MINUTE_S - 1)
        ann.blob(pair.group_id, b"acknowledged at once")
        beats += deliver(pair)
        pair.wait(1)
        for each in pair.cat.sends():
            ann.receive(each.envelope)
    assert len(beats) == 3
    assert reported_by(pair) == COST


def test_a_device_in_windows_tells_its_cost_in_each(pair: Pair) -> None:
    ann = pair.ann
    for today in (1_000, 2_000, 3_000):
        ann.node.state.presence.cost = COST._replace(today=today)
        ann.node.state.presence.next_window_us = ann.now.monotonic_us + 600_000_000
        ann.node.heartbeat.connected("first", None)
        [beat] = ann.beats()
        assert pair.reports(beat.envelope) == "asleep"
        reported = reported_by(pair)
        assert reported is not None
        assert reported.today == today
        ann.node.heartbeat.connection_lost("first")
        pair.wait(600)


def test_a_cost_survives_beats_without_one_and_a_restart(pair: Pair) -> None:
    ann, cat = pair.ann, pair.cat
    ann.node.state.presence.cost = COST
    will = ann.up()
    pair.reports(*(each.envelope for each in ann.beats()))
    at_us = cat.store.presence.of_peers()[ann.key].cost_us
    pair.wait(INTERVAL_S)
    pair.reports(*(each.envelope for each in ann.beats()))
    assert pair.reports(will.envelope) == "gone"
    cat.restart()
    found_there = cat.store.presence.of_peers()[ann.key]
    assert (found_there.cost, found_there.cost_us) == (COST, at_us)


def test_without_an_interval_nothing_is_reported(tmp_path: Path) -> None:
    ann, cat = Device("ann", tmp_path), Device("cat", tmp_path, collects=True)
    found(ann, cat)
    carry(ann, cat)
    ann.node.heartbeat.connected("first", None)
    assert ann.node.last_will(ann.now) is None
    assert not ann.sends()
