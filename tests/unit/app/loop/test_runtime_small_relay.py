"""A relay that takes no packet as large as a group's manifests: little is said, and all goes on once it does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.core.group.manifest import BOARD, Member
from covey.core.history.bodies import Note
from covey.core.ids import GroupId
from covey.core.membership.membership import Edit
from covey.core.now import Now
from covey.core.presence.heartbeat import LastWill
from covey.core.wire.topics import inbox_topic
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayEvent, RelayUp, Released
from tests.fleet import START, Device, identity, settled

SECOND = 1_000_000
HOUR = 3_600 * SECOND
SMALL, LARGE = 1_500, 1_000_000


class Clock:
    """Time that a test moves, the same for everybody."""

    now_us = START.monotonic_us

    def monotonic_us(self) -> int:
        """Return the time."""
        return self.now_us

    def wall_us(self) -> int:
        """Return the date."""
        return START.wall_us + self.now_us

    def synchronised(self) -> bool:
        """Return whether anybody knows it."""
        return True

    def boot_id(self) -> bytes:
        """Return a boot's id."""
        return bytes(8)


class Site:
    """A relay for all agents; `published` counts what it took for one of them, in publishes."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.maximum_payload = SMALL
        self.agents: dict[str, Agent] = {}
        self.published = 0

    def run(self, us: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, by whatever is due next; say whether the condition came to hold."""
        end_us = self.clock.now_us + us
        while self.clock.now_us < end_us:
            due = [agent.turn() for agent in self.agents.values()]
            if until():
                return True
            moving = any(agent.events for agent in self.agents.values())
            soonest = min((each for each in due if each is not None), default=end_us)
            step_us = SECOND // 100 if moving else max(SECOND // 4, min(soonest, end_us) - self.clock.now_us)
            self.clock.now_us += step_us
        return until()

    def reconfigure(self, maximum_payload: int) -> None:
        """Have the relay start again with another maximum."""
        self.maximum_payload = maximum_payload
        for agent in self.agents.values():
            agent.events += [RelayDown("site", "restarted"), agent.up()]


class Agent:
    """A running agent, and its line to the relay (`covey.ports.Relay`)."""

    name = "site"

    def __init__(self, site: Site, device: Device) -> None:
        self.device = device
        self.said: list[str] = []
        self._site = site
        self._handles = 0
        self.events: list[RelayEvent] = [self.up()]
        site.agents[inbox_topic(device.key)] = self
        self.runtime = Runtime(
            device.store, Relays([self]), site.clock, device.make_node, [], lambda _level, line: self.said.append(line)
        )

    def up(self) -> RelayUp:
        """Return what the relay says when it accepts a connection."""
        return RelayUp("site", True, self._site.maximum_payload)

    def turn(self) -> int | None:
        """Let the loop turn once with what has come; return when it wants to turn again."""
        events, self.events = self.events, []
        return self.runtime.turn(events)

    def publish(self, topic: str, payload: bytes, _lifetime_s: int = 0) -> int | PublishRefusal:
        """Carry it, where it is small enough."""
        if len(payload) > self._site.maximum_payload:
            return PublishRefusal.TOO_LARGE
        self._handles += 1
        receiver = self._site.agents.get(topic)
        if receiver is not None:
            self._site.published += 1
            receiver.events.append(Delivered("site", (1, 1), topic, payload))
        self.events.append(Released("site", self._handles, 0))
        return self._handles

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Satisfy the port."""

    def acknowledge(self, delivered: Delivered) -> None:
        """Satisfy the port."""

    def listen(self, topics: Collection[str]) -> None:
        """Satisfy the port."""

    def rest(self) -> None:
        """Satisfy the port."""

    def resume(self) -> None:
        """Satisfy the port."""

    def renew_subscription(self) -> None:
        """Satisfy the port."""

    def set_will(self, will: LastWill | None) -> None:
        """Satisfy the port."""

    def alive(self) -> bool:
        """Satisfy the port."""
        return True

    def stop(self) -> None:
        """Satisfy the port."""


class Pair:
    """Ann adds so many boards that the relay takes no manifest of the group; ben has to hear of it."""

    def __init__(self, folder: Path) -> None:
        self.site = Site()
        self.ann, self.ben = (Agent(self.site, Device(name, folder)) for name in ("ann", "ben"))
        self.group_id = GroupId(settled(self.ann.device, self.ben.device))
        for agent in (self.ann, self.ben):
            agent.runtime.node.refresh()
        self.site.run(60 * SECOND)
        self.boards = [
            Member(identity(f"board {number}").keys, f"board {number}", capabilities=(BOARD,)) for number in range(16)
        ]
        for board in self.boards:
            self.change(lambda draft, _, board=board: draft.adding(board))

    def change(self, how: Edit) -> None:
        """Let ann issue a manifest."""
        with self.ann.device.store.transaction():
            self.ann.runtime.node.actions.change(self.group_id, how, self.now)

    @property
    def now(self) -> Now:
        """What time it is."""
        return Now(self.site.clock.monotonic_us(), self.site.clock.wall_us())

    def note(self, text: str) -> None:
        """Let ann say something in the group."""
        with self.ann.device.store.transaction():
            self.ann.runtime.node.history.write(self.group_id, Note("text/plain", text.encode()), self.now)

    def set_aside(self, since: tuple[int, int]) -> list[str]:
        """Return what both have said since then of messages that no relay takes."""
        said = [*self.ann.said[since[0] :], *self.ben.said[since[1] :]]
        return [line for line in said if "no relay takes" in line]

    def histories_agree(self) -> bool:
        """Say whether both hold as much of the group's history."""
        counts = {agent.device.store.operations.count(self.group_id) for agent in (self.ann, self.ben)}
        return len(counts) == 1

    def lost(self) -> int:
        """Return how many messages ben knows to be lost."""
        return self.ben.device.store.counters.values().get("lost_messages", 0)

    def agreed(self) -> bool:
        """Say whether ben holds what ann holds, with its secret."""
        nodes = [agent.runtime.node for agent in (self.ann, self.ben)]
        held = {node.groups.trust(self.group_id).current for node in nodes}
        return len(held) == 1 and all(node.groups.secret(self.group_id) is not None for node in nodes)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.mark.slow
def test_little_is_said_of_manifests_that_no_relay_takes(pair: Pair) -> None:
    pair.site.run(3 * HOUR)  # each was tried on its own
    published, lost, lines = pair.site.published, pair.lost(), len(pair.ann.said)
    pair.site.run(23 * HOUR)
    assert not pair.agreed()
    assert pair.site.published - published < 23 * 12
    assert pair.lost() == lost, "what cannot go is not queued again"
    assert len(pair.ann.said) == lines
    pair.site.reconfigure(LARGE)
    assert pair.site.run(4 * HOUR, pair.agreed)


@pytest.mark.slow
def test_little_is_asked_though_news_of_the_group_comes_all_the_time(pair: Pair) -> None:
    """Each note names a manifest that ben lacks. He asks every ten minutes at most."""
    for number in range(4 * 60):
        pair.note(f"note {number}")
        pair.site.run(60 * SECOND)
    counters = pair.ann.device.store.counters.values()
    assert 0 < counters["pulls_too_large"] + counters.get("pulls_unanswered", 0) <= 24
    assert not pair.agreed()
    pair.site.reconfigure(LARGE)
    assert pair.site.run(4 * HOUR, pair.agreed)


@pytest.mark.slow
def test_a_change_that_fits_does_not_have_those_before_it_asked_for_without_an_end(pair: Pair) -> None:
    pair.site.run(600 * SECOND)
    for board in pair.boards:
        pair.change(lambda draft, epoch, board=board: draft.removing(board.keys.signing_public, epoch))
    pair.site.run(3 * HOUR)
    published, lost = pair.site.published, pair.lost()
    pair.site.run(23 * HOUR)
    assert not pair.agreed()
    assert pair.site.published - published < 23 * 12
    assert pair.lost() <= lost + 1
    pair.site.reconfigure(LARGE)
    assert pair.site.run(4 * HOUR, pair.agreed)


@pytest.mark.slow
def test_manifests_that_a_relay_takes_one_by_one_arrive(pair: Pair) -> None:
    pair.site.run(HOUR)
    pair.site.reconfigure(4_000)
    assert pair.site.run(12 * HOUR, pair.agreed)


@pytest.mark.slow
def test_the_end_of_a_conflict_fits_a_small_relay(pair: Pair) -> None:
    """Both add a board at once: the manifest that follows both is sent with the rivals that it ends."""
    pair.site.run(HOUR)
    pair.site.reconfigure(4_000)
    assert pair.site.run(12 * HOUR, pair.agreed)
    lines = len(pair.ann.said), len(pair.ben.said)
    for agent, name in ((pair.ann, "left"), (pair.ben, "right")):
        board = Member(identity(name).keys, name, capabilities=(BOARD,))
        with agent.device.store.transaction():
            actions = agent.runtime.node.actions
            actions.change(pair.group_id, lambda draft, _, board=board: draft.adding(board), pair.now)
    assert not pair.agreed()
    assert pair.site.run(HOUR, pair.agreed)
    assert not pair.set_aside(lines)


def test_a_readmitted_device_catches_up_through_a_small_relay(pair: Pair) -> None:
    pair.site.reconfigure(LARGE)
    assert pair.site.run(4 * HOUR, pair.agreed)
    pair.change(lambda draft, epoch: draft.banning(pair.ben.device.key, epoch))
    pair.site.run(60 * SECOND)
    for number in range(4):
        board = Member(identity(f"later {number}").keys, "later", capabilities=(BOARD,))
        pair.change(lambda draft, _, board=board: draft.adding(board))
    pair.site.reconfigure(4_000)
    pair.site.run(60 * SECOND)
    lines = len(pair.ann.said), len(pair.ben.said)
    with pair.ann.device.store.transaction():
        pair.ann.runtime.node.actions.unban(pair.group_id, pair.ben.device.key, pair.now)
    assert pair.site.run(60 * SECOND, pair.agreed)
    assert not pair.set_aside(lines)


@pytest.mark.slow
def test_a_history_comes_in_messages_that_the_relay_takes(pair: Pair) -> None:
    pair.site.reconfigure(LARGE)
    assert pair.site.run(4 * HOUR, pair.agreed)
    pair.site.reconfigure(SMALL)
    lines = len(pair.ann.said), len(pair.ben.said)
    away = pair.site.agents.pop(inbox_topic(pair.ben.device.key))
    for number in range(20):
        pair.note(f"note {number} " + "of some length " * 10)
    pair.site.run(600 * SECOND)
    pair.site.agents[inbox_topic(pair.ben.device.key)] = away
    assert pair.site.run(HOUR, pair.histories_agree)
    assert not pair.set_aside(lines)


@pytest.mark.slow
def test_an_operation_that_no_relay_takes_is_not_given_to_who_asks(pair: Pair) -> None:
    pair.site.reconfigure(LARGE)
    assert pair.site.run(4 * HOUR, pair.agreed)
    pair.site.reconfigure(SMALL)
    pair.note("of some length " * 200)
    pair.site.run(3 * HOUR)
    published, lost = pair.site.published, pair.lost()
    assert lost == 1
    pair.site.run(23 * HOUR)
    assert pair.lost() == lost, "what cannot go is not queued again"
    assert pair.site.published - published < 23 * 12
    assert pair.ann.device.store.counters.values()["pulls_too_large"] > 0
    pair.site.reconfigure(LARGE)
    assert pair.site.run(4 * HOUR, pair.histories_agree)


@pytest.mark.slow
def test_a_leaving_device_says_so_once_a_relay_is_reachable(pair: Pair) -> None:
    """What it knew of the group stays until somebody has heard of it: the news was set aside, and counted as known."""
    pair.site.reconfigure(LARGE)
    assert pair.site.run(4 * HOUR, pair.agreed)
    pair.site.reconfigure(SMALL)
    pair.site.run(60 * SECOND)
    with pair.ben.device.store.transaction():
        pair.ben.runtime.node.actions.leave(pair.group_id, pair.now)
    pair.site.run(12 * HOUR)
    assert sum("waits for a relay" in line for line in pair.ben.said) == 1
    assert pair.ben.device.store.groups.manifests_from(pair.group_id, 1)
    pair.site.reconfigure(LARGE)
    ann = pair.ann.runtime.node
    assert pair.site.run(HOUR, lambda: ann.groups.group(pair.group_id).member(pair.ben.device.key) is None)
    for _ in range(3):
        pair.site.run(HOUR)  # it looks at the end of each, as nothing else is due
    assert not pair.ben.device.store.groups.manifests_from(pair.group_id, 1)
