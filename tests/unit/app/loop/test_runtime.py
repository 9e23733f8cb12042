"""`covey.app.loop.runtime`: input, commit, release; and what happens when the relay or the disk takes no more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from covey.adapters.sqlite.store import SqliteStore
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.core.node import Node
from covey.core.now import Now
from covey.core.presence.heartbeat import LastWill
from covey.errors import DiskFullError
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayEvent, RelayUp, Released
from tests.fleet import Device, carry, found

SECOND = 1_000_000


class Clock:
    """Time that a test moves."""

    now_us = 1_000 * SECOND

    def monotonic_us(self) -> int:
        """Return the time."""
        return self.now_us

    def wall_us(self) -> int:
        """Return the time."""
        return self.now_us

    def synchronised(self) -> bool:
        """Return whether anybody knows it."""
        return False

    def boot_id(self) -> bytes:
        """Return a boot's id."""
        return bytes(8)


class Relay:
    """A relay whose answer to a publish a test decides; `taken` is what it took, `acknowledged` what we have."""

    name = "relay"

    def __init__(self) -> None:
        self.refuses: PublishRefusal | None = None
        self.taken: list[bytes] = []
        self.acknowledged: list[Delivered] = []
        self.renewed = 0

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Satisfy the port."""

    def publish(self, _topic: str, payload: bytes, _lifetime_s: int = 0) -> int | PublishRefusal:
        """Take or refuse."""
        if self.refuses is not None:
            return self.refuses
        self.taken.append(payload)
        return len(self.taken)

    def acknowledge(self, delivered: Delivered) -> None:
        """Note it."""
        self.acknowledged.append(delivered)

    def listen(self, topics: Collection[str]) -> None:
        """Satisfy the port."""

    def rest(self) -> None:
        """Satisfy the port."""

    def resume(self) -> None:
        """Satisfy the port."""

    def renew_subscription(self) -> None:
        """Note it."""
        self.renewed += 1

    def set_will(self, will: LastWill | None) -> None:
        """Satisfy the port."""

    def alive(self) -> bool:
        """Satisfy the port."""
        return True

    def stop(self) -> None:
        """Satisfy the port."""


class FillingStore(SqliteStore):
    """The production store on a disk that a test fills."""

    full = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Refuse at the end while the disk is full."""
        with super().transaction():
            yield
            if self.full:
                raise DiskFullError("no room")


_NEVER_US = 2**62


class Agent:
    """A running agent for ben; ann is at the other end of the wire, and perhaps others are."""

    def __init__(self, folder: Path, *others: Device, fresh_account: bool = False) -> None:
        self.ann, self.ben = Device("ann", folder), Device("ben", folder, opens=FillingStore)
        self.group_id = found(self.ann, self.ben, *others)
        assert isinstance(self.ben.store, FillingStore)
        self.store = self.ben.store
        self.clock, self.relay = Clock(), Relay()
        self.said: list[tuple[str, str]] = []
        self.runtime = Runtime(
            self.store,
            Relays([self.relay]),
            self.clock,
            self.ben.make_node,
            [],
            lambda *line: self.said.append(line),
            fresh_account=fresh_account,
        )
        self.runtime.turn([RelayUp("relay", False, 1_000_000)])
        self.runtime.node.state.heads.round_at_us = _NEVER_US  # it compares heads with those alone whom it hears

    def turn(self, *events: RelayEvent, seconds: float = 0) -> int | None:
        """Let time pass and the loop turn once; return in how many microseconds it wants to turn again."""
        self.clock.now_us += int(seconds * SECOND)
        deadline = self.runtime.turn(list(events))
        return None if deadline in {None, _NEVER_US} else deadline - self.clock.now_us

    def put(self, event: RelayEvent) -> None:
        """Hand an event to the loop, as a relay's thread does."""
        self.runtime._inputs.put(event)

    def delivery(self, content: bytes) -> Delivered:
        """Return a blob by ann, as the relay would deliver it."""
        self.ann.blob(self.group_id, content)
        [outgoing] = self.ann.sends()
        return Delivered("relay", (1, 1), outgoing.topic, outgoing.envelope)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def test_an_arriving_message_is_committed_then_acknowledged(agent: Agent) -> None:
    event = agent.delivery(b"hello")
    assert agent.turn(event) == 200_000
    assert agent.ben.inbox() == [b"hello"]
    assert agent.relay.acknowledged == [event]
    assert agent.relay.taken == []
    assert agent.turn(seconds=0.2) is None
    [acknowledgement] = agent.relay.taken
    agent.ann.receive(acknowledgement)
    assert agent.ann.store.outbox.totals()[0] == 0


def test_the_log_has_one_line_for_the_messages_of_a_turn(agent: Agent) -> None:
    agent.turn(agent.delivery(b"hello"), agent.delivery(b"again"))
    agent.turn(agent.delivery(b"more"))
    arrived = [line for _, line in agent.said if "arrived" in line]
    assert [line.split(" from ")[0] for line in arrived] == ["2 messages of 10 bytes", "4 bytes"]


@pytest.mark.parametrize("refusal", [PublishRefusal.WINDOW_FULL, PublishRefusal.OFFLINE])
def test_the_runtime_waits_for_a_full_relay(agent: Agent, refusal: PublishRefusal) -> None:
    agent.turn(agent.delivery(b"hello"))
    agent.relay.refuses = refusal
    for _ in range(3):
        assert agent.turn(seconds=0.2) is None  # the loop must not spin
    agent.relay.refuses = None
    assert agent.turn() is None
    assert agent.relay.taken == []
    news = Released("relay", 1, 0) if refusal is PublishRefusal.WINDOW_FULL else RelayUp("relay", True, 1_000_000)
    agent.turn(news)
    assert len(agent.relay.taken) == 1


def test_queued_messages_are_sent_again_after_a_lost_connection(agent: Agent) -> None:
    with agent.store.transaction():
        agent.runtime.node.send_blob(agent.group_id, b"hello", Now(agent.clock.now_us, agent.clock.now_us))
    agent.turn()
    agent.turn(RelayDown("relay", "cut"), RelayUp("relay", True, 1_000_000))
    assert len(agent.relay.taken) == 2
    agent.turn(Released("relay", 2, 0))
    agent.turn(RelayDown("relay", "cut"), RelayUp("relay", True, 1_000_000))
    assert len(agent.relay.taken) == 2


@pytest.mark.slow
def test_an_inbox_is_subscribed_again_where_answers_are_missing(agent: Agent) -> None:
    with agent.store.transaction():
        agent.runtime.node.send_blob(agent.group_id, b"hello", Now(agent.clock.now_us, agent.clock.now_us))
    agent.turn()
    agent.turn(Released("relay", 1, 0))
    for _ in range(60):
        agent.turn(agent.delivery(b"not an answer"), seconds=60)
    assert agent.relay.renewed == 0  # it delivers, so the subscription is there
    assert len(agent.relay.taken) > 3
    for _ in range(60):
        agent.turn(seconds=60)
    assert 1 <= agent.relay.renewed <= 12


def test_a_full_disk_takes_nothing_says_so_once_and_recovers(agent: Agent) -> None:
    agent.store.full = True
    event = agent.delivery(b"hello")
    for _ in range(5):
        agent.turn(event, seconds=1)
    assert agent.ben.inbox() == []
    assert agent.relay.taken == []
    assert [level for level, _ in agent.said if level == "error"] == ["error"]
    agent.store.full = False
    agent.turn()
    assert agent.said[-1] == ("notice", "the disk accepts writes again")
    agent.turn(event)
    assert agent.ben.inbox() == [b"hello"]


def test_a_message_is_acknowledged_once_the_disk_takes_it(agent: Agent) -> None:
    agent.store.full = True
    event = agent.delivery(b"hello")
    agent.turn(event)
    for _ in range(5):
        agent.turn(seconds=10)
    assert agent.relay.acknowledged == []
    agent.store.full = False
    agent.turn(seconds=10)
    agent.turn(seconds=10)
    assert agent.ben.inbox() == [b"hello"]
    assert agent.relay.acknowledged == [event]


def test_unacknowledged_messages_wait_for_the_next_connection(agent: Agent) -> None:
    agent.store.full = True
    event = agent.delivery(b"hello")
    agent.turn(event)
    agent.turn(RelayDown("relay", "cut"), RelayUp("relay", True, 1_000_000))
    agent.store.full = False
    for _ in range(3):
        agent.turn(seconds=10)
    assert agent.ben.inbox() == []
    agent.turn(event)
    assert agent.ben.inbox() == [b"hello"]
    assert agent.relay.acknowledged == [event]


@pytest.mark.parametrize(("fresh_account", "level"), [(True, "info"), (False, "warning")])
def test_a_relay_that_does_not_know_a_new_account_yet_is_no_warning(
    tmp_path: Path, fresh_account: bool, level: str
) -> None:
    agent = Agent(tmp_path, fresh_account=fresh_account)
    agent.turn(RelayDown("relay", "no", refused=True), RelayDown("relay", "cut"), RelayUp("relay", True, 1_000_000))
    assert [each for each, line in agent.said if "relay" in line] == ["info", level, "warning", "info"]
    assert agent.store.conditions.values()["relay"][0] == "up"


@pytest.mark.slow
def test_acknowledgements_on_a_full_disk_cause_no_storm(agent: Agent) -> None:
    now = Now(agent.clock.now_us, agent.clock.now_us)
    for number in range(20):
        with agent.store.transaction():
            agent.runtime.node.send_blob(agent.group_id, b"%d" % number, now)
    agent.turn()
    for envelope in agent.relay.taken:
        agent.ann.receive(envelope)
    agent.ann.wait(1)
    [answer] = agent.ann.sends()
    agent.store.full = True
    for _ in range(30):
        agent.turn(Delivered("relay", (1, 1), answer.topic, answer.envelope), seconds=0.1)
    assert len(agent.relay.taken) == 20
    agent.store.full = False
    agent.turn(Delivered("relay", (1, 1), answer.topic, answer.envelope))
    assert agent.store.outbox.totals()[0] == 0
    assert agent.turn(seconds=600) is None
    assert len(agent.relay.taken) == 20


def test_a_message_that_no_relay_takes_is_set_aside_and_the_link_continues(agent: Agent) -> None:
    agent.turn()
    agent.turn(seconds=1)  # it has told where its links stand
    now = Now(agent.clock.now_us, agent.clock.now_us)
    with agent.store.transaction():
        agent.runtime.node.send_blob(agent.group_id, b"huge", now)
    agent.relay.refuses = PublishRefusal.TOO_LARGE
    for _ in range(10):
        agent.turn(seconds=301)
        if "set aside" in agent.said[-1][1]:
            break
    assert sum("refuses" in line for _, line in agent.said) == 4
    agent.relay.refuses = None
    with agent.store.transaction():
        agent.runtime.node.send_blob(agent.group_id, b"small", now)
    agent.turn()
    for _ in range(2):
        for envelope in agent.relay.taken:
            agent.ann.receive(envelope)
        agent.ann.wait(1)
        agent.turn(*(Delivered("relay", (1, 1), each.topic, each.envelope) for each in agent.ann.sends()))
    assert agent.ann.inbox() == [b"small"]
    assert agent.ann.store.counters.values()["lost_messages"] == 1


@pytest.mark.slow
def test_a_failed_second_commit_keeps_the_first(tmp_path: Path) -> None:
    """The relay takes no message, neither ann's nor carl's, and the disk is full once the first has been set aside."""
    agent = Agent(tmp_path, Device("carl", tmp_path))
    agent.turn()
    agent.turn(seconds=1)  # it has told where its links stand
    now = Now(agent.clock.now_us, agent.clock.now_us)
    with agent.store.transaction():
        agent.runtime.node.send_blob(agent.group_id, bytes(1_000), now)

    class Lines(list[tuple[str, str]]):
        """What the agent said; with what it sets aside the disk is full."""

        def append(self, line: tuple[str, str]) -> None:
            """Take a line."""
            super().append(line)
            agent.store.full |= "set aside" in line[1]

    agent.said = Lines()
    agent.relay.refuses = PublishRefusal.TOO_LARGE
    for _ in range(20):
        agent.turn(seconds=301)
    assert agent.store.full
    agent.store.full, agent.said = False, list(agent.said)
    for _ in range(20):
        agent.turn(seconds=301)
    assert len([line for _, line in agent.said if "set aside" in line and int(line.split()[3]) > 1_000]) == 2


def test_the_last_turn_answers_at_once(agent: Agent) -> None:
    agent.turn(agent.delivery(b"hello"))
    agent.runtime.finish()
    for envelope in agent.relay.taken:
        agent.ann.receive(envelope)
    assert agent.ann.store.outbox.totals()[0] == 0


def test_the_agent_notices_what_another_process_queued(agent: Agent) -> None:
    command = Device("ben", agent.ben.path.parent)
    command.blob(agent.group_id, b"from the shell")
    command.store.close()
    agent.turn()
    [envelope] = agent.relay.taken
    agent.ann.receive(envelope)
    assert agent.ann.inbox() == [b"from the shell"]
    assert carry(agent.ann) == 1


def test_messages_that_come_one_by_one_share_a_turn(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is dealt with at once; what comes right after it waits a moment for company."""
    first, second, third = (agent.delivery(content) for content in (b"one", b"two", b"three"))
    turns: list[list[RelayEvent]] = []
    turn = agent.runtime.turn

    def wait(seconds: float) -> None:
        assert 0 < seconds < 0.1
        agent.clock.now_us += int(seconds * SECOND)
        agent.put(third)

    def counted(events: list[RelayEvent]) -> int | None:
        turns.append(events)
        if events == [first]:
            agent.put(second)
        return turn(events)

    monkeypatch.setattr(agent.runtime._woken, "wait", wait)
    monkeypatch.setattr(agent.runtime, "turn", counted)
    monkeypatch.setattr(agent.relay, "start", lambda deliver: deliver(first))
    agent.runtime.run(lambda: len(agent.relay.acknowledged) == 3)
    assert turns == [[], [first], [second, third]]
    assert agent.ben.inbox() == [b"one", b"two", b"three"]


def test_a_role_has_its_turn_before_the_first_message(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mailbox serves from its role's first turn on, and must not refuse what waited at the relay for its start."""
    found: list[list[bytes]] = []

    class Role:
        def turn(self, _node: Node, _now: Now) -> int | None:
            found.append(agent.ben.inbox())
            return None

        def stop(self, node: Node, now: Now) -> None:
            """Have nothing open."""

    first = agent.delivery(b"one")
    monkeypatch.setattr(agent.runtime, "_roles", [Role()])
    monkeypatch.setattr(agent.relay, "start", lambda deliver: deliver(first))
    agent.runtime.run(lambda: bool(agent.relay.acknowledged))
    assert found == [[], [b"one"]]
