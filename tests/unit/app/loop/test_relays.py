"""`covey.app.loop.relays` in the loop: which relay a message goes by, and what becomes of it when one is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.core.wire.topics import inbox_topic
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayEvent, RelayUp, Released
from tests.fleet import Device, found
from tests.unit.app.loop.test_runtime import SECOND, Clock, Relay


class Named(Relay):
    """A relay of several; `sent` takes what it took since the last call."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._seen = 0

    def sent(self) -> int:
        """Return how many envelopes it took since the last call."""
        new, self._seen = len(self.taken) - self._seen, len(self.taken)
        return new

    def last(self) -> bytes:
        """Return the newest envelope."""
        return self.taken[-1]

    def answers(self, code: int = 0) -> list[Released]:
        """Answer every publish."""
        return [Released(self.name, handle, code) for handle in range(1, len(self.taken) + 1)]


class Agent:
    """Ann's running agent with two relays; ben is at the other end of both."""

    def __init__(self, folder: Path) -> None:
        self.ann, self.ben = Device("ann", folder), Device("ben", folder)
        self.group_id = found(self.ann, self.ben)
        self.clock = Clock()
        self.site, self.cloud = Named("site"), Named("cloud")
        self.runtime = Runtime(
            self.ann.store, Relays([self.site, self.cloud]), self.clock, self.ann.make_node, [], lambda *_: None
        )
        self.turn(RelayUp("site", False, 1_000_000), RelayUp("cloud", False, 1_000_000))
        self.turn(seconds=1)  # it has told where its links stand
        self.runtime.node.state.heads.round_at_us = 2**62  # it compares heads with those alone whom it hears

    def turn(self, *events: RelayEvent, seconds: float = 0) -> tuple[int, int]:
        """Let time pass and the loop turn; return how much went by (site, cloud)."""
        self.clock.now_us += int(seconds * SECOND)
        self.runtime.turn(list(events))
        self.runtime.turn([])
        return self.site.sent(), self.cloud.sent()

    def blob(self, content: bytes) -> None:
        """Queue a message for ben."""
        with self.ann.store.transaction():
            self.runtime.node.send_blob(self.group_id, content, self.runtime._now())

    def from_ben(self, relay: Named, *envelopes: bytes) -> list[Delivered]:
        """Let ben take envelopes; return what he answers, as a relay would deliver it."""
        for envelope in envelopes:
            self.ben.receive(envelope)
        self.ben.node.make_acknowledgements_due(self.ben.now)
        return [Delivered(relay.name, (1, 1), each.topic, each.envelope) for each in self.ben.sends()]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def test_the_first_sending_goes_by_the_preferred_relay_alone(agent: Agent) -> None:
    agent.blob(b"one")
    agent.blob(b"two")
    assert agent.turn() == (2, 0)


def test_a_relay_that_swallows_is_found_by_the_retry(agent: Agent) -> None:
    agent.blob(b"one")
    agent.blob(b"two")
    agent.turn()
    agent.turn(*agent.site.answers())
    assert agent.turn(seconds=6) == (0, 1)  # one message for each retry
    acknowledgement = agent.from_ben(agent.cloud, agent.cloud.last())
    assert agent.turn(*acknowledgement) == (0, 1)  # where he was heard, the rest goes
    agent.blob(b"three")
    assert agent.turn() == (0, 1)


def test_retries_go_round_and_round(agent: Agent) -> None:
    agent.blob(b"one")
    went = [agent.turn()] + [agent.turn(seconds=301) for _ in range(4)]
    assert went == [(1, 0), (0, 1), (1, 0), (0, 1), (1, 0)]


def test_when_the_preferred_one_comes_back_it_is_tried_again(agent: Agent) -> None:
    agent.blob(b"one")
    agent.turn()
    agent.turn(RelayDown("site", "lost"))
    assert len(agent.cloud.taken) == 1
    agent.turn(*agent.from_ben(agent.cloud, agent.cloud.last()))
    agent.turn(RelayUp("site", True, 1_000_000))
    agent.blob(b"two")
    assert agent.turn() == (1, 0)


def test_messages_a_lost_relay_had_not_answered_go_by_the_other(agent: Agent) -> None:
    for content in (b"one", b"two", b"three"):
        agent.blob(content)
    assert agent.turn() == (3, 0)
    assert agent.turn(agent.site.answers()[1]) == (0, 0)
    assert agent.turn(RelayDown("site", "lost")) == (0, 2)
    agent.blob(b"four")
    assert agent.turn() == (0, 1)
    assert agent.turn(RelayDown("cloud", "lost")) == (0, 0)
    assert agent.turn(RelayUp("cloud", True, 1_000_000)) == (0, 3)


def test_losing_the_other_relay_sends_nothing_again(agent: Agent) -> None:
    agent.blob(b"one")
    agent.turn()
    assert agent.turn(RelayDown("cloud", "lost")) == (0, 0)
    assert agent.runtime.node.next_deadline() is not None  # retries go on


def test_a_missing_message_goes_again_by_the_other_relay(agent: Agent) -> None:
    agent.blob(b"swallowed")
    agent.blob(b"arrives")
    agent.turn()
    acknowledgement = agent.from_ben(agent.site, agent.site.last())
    assert agent.turn(*acknowledgement, seconds=0.1) == (0, 0)
    assert agent.turn(*acknowledgement, seconds=0.7) == (0, 1)


def test_an_acknowledgement_goes_where_the_message_came_from(agent: Agent) -> None:
    agent.ben.blob(agent.group_id, b"hello")
    [delivery] = agent.from_ben(agent.cloud)
    agent.turn(delivery)
    assert agent.turn(seconds=1) == (0, 1)
    assert agent.cloud.acknowledged == [delivery]
    second = Delivered("site", (1, 1), delivery.topic, delivery.payload)
    agent.turn(second, delivery)  # a sender that hears at one of them only, and a replay at the other
    assert agent.turn(seconds=1) == (1, 1)


def test_a_replay_does_not_lead_messages_away(agent: Agent) -> None:
    agent.ben.blob(agent.group_id, b"hello")
    [delivery] = agent.from_ben(agent.site)
    agent.turn(delivery)
    agent.turn(seconds=1)
    agent.turn(Delivered("cloud", (1, 1), delivery.topic, delivery.payload))
    agent.turn(seconds=1)
    agent.blob(b"answer")
    assert agent.turn() == (1, 0)


def test_a_message_too_large_for_one_relay_is_offered_to_the_other(agent: Agent) -> None:
    agent.site.refuses = PublishRefusal.TOO_LARGE
    agent.blob(b"large")
    assert agent.turn() == (0, 1)


def test_a_relay_that_answers_nothing_is_passed_over(agent: Agent) -> None:
    agent.site.refuses = PublishRefusal.WINDOW_FULL
    agent.blob(b"one")
    assert agent.turn() == (0, 0)
    assert agent.turn(seconds=6) == (0, 1)
    agent.site.refuses = None
    agent.turn(Released("site", 99, 0))
    agent.blob(b"two")
    assert agent.turn(seconds=0.1) in {(1, 0), (1, 1)}


def test_without_any_relay_nothing_is_due(agent: Agent) -> None:
    agent.blob(b"one")
    agent.turn()
    agent.turn(RelayDown("site", "lost"), RelayDown("cloud", "lost"))
    assert agent.runtime.node.next_deadline() is None
    assert agent.ann.store.conditions.values()["relay"][0] == "lost"
    agent.turn(RelayUp("cloud", True, 1_000_000))
    conditions = agent.ann.store.conditions.values()
    assert [conditions[name][0] for name in ("relay", "relay site", "relay cloud")] == ["up", "lost", "up"]


def test_messages_without_recipient_go_by_every_relay(agent: Agent) -> None:
    relays = Relays([agent.site, agent.cloud])
    assert relays.names == ["site", "cloud"]
    assert relays.publish(inbox_topic(agent.ben.key), b"to all of them") == len(agent.site.taken)
    assert agent.site.last() == agent.cloud.last() == b"to all of them"


class HangingUp(Named):
    """A relay that announces no limit and ends the connection over a large publish, as a cloud broker does."""

    largest = 131_072

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.hang_ups = 0
        self._unanswered: list[int] = []
        self._hung_up = False

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0) -> int | PublishRefusal:
        """Take what comes; what is too large ends the connection before anything is answered."""
        result = super().publish(topic, payload, lifetime_s)
        if isinstance(result, int):
            self._unanswered.append(result)
            self._hung_up |= len(payload) > self.largest
        return result

    def events(self) -> list[RelayEvent]:
        """Return what follows of what was published."""
        unanswered, self._unanswered = self._unanswered, []
        if self._hung_up:
            self._hung_up = False
            self.hang_ups += 1
            return [RelayDown(self.name, "lost"), RelayUp(self.name, True, 1_000_000)]
        return [Released(self.name, handle, 0) for handle in unanswered]


class HangingUpAgent(Agent):
    """Ann's agent at one relay that hangs up."""

    def __init__(self, folder: Path, relay: HangingUp | None = None) -> None:
        super().__init__(folder)
        self.said: list[str] = []
        self.relay = relay or HangingUp("site")
        self._forwarded = 0
        self.start()

    def start(self) -> None:
        """Begin as a new process does."""
        self.runtime = Runtime(
            self.ann.store,
            Relays([self.relay]),
            self.clock,
            self.ann.make_node,
            [],
            lambda _level, line: self.said.append(line),
        )
        self.turn(RelayUp("site", False, 1_000_000))

    def forwarded(self, seconds: float) -> set[bytes]:
        """Let time pass; return the blobs that ben has."""
        for _ in range(int(seconds)):
            self.turn(*self.relay.events(), seconds=1)
            for envelope in self.relay.taken[self._forwarded :]:
                if len(envelope) <= self.relay.largest:
                    self.ben.receive(envelope)
            self._forwarded = len(self.relay.taken)
            self.ben.node.make_acknowledgements_due(self.ben.now)
            answers = [Delivered("site", (1, 1), each.topic, each.envelope) for each in self.ben.sends()]
            self.turn(*answers)
        return set(self.ben.inbox())


@pytest.mark.slow
def test_a_message_that_a_relay_hangs_up_on_holds_up_nothing_behind_it(tmp_path: Path) -> None:
    agent = HangingUpAgent(tmp_path)
    agent.blob(bytes(300_000))
    behind = {b"behind %d" % number for number in range(20)}
    for content in sorted(behind):
        agent.blob(content)
    assert behind <= agent.forwarded(60)
    hang_ups = agent.relay.hang_ups
    assert hang_ups <= 5
    assert any("disconnects on messages of" in line for line in agent.said)
    assert any("was set aside" in line for line in agent.said)
    agent.blob(bytes(300_001))  # the size is known now
    agent.blob(b"later")
    assert b"later" in agent.forwarded(20)
    assert agent.relay.hang_ups == hang_ups
    agent.start()
    agent.blob(bytes(300_002))
    agent.blob(b"after a restart")
    assert b"after a restart" in agent.forwarded(20)
    assert agent.relay.hang_ups == hang_ups, "a new process knows it, too"
    agent.relay.largest = 1_000_000  # mended
    agent.clock.now_us += 3_600 * SECOND
    agent.blob(bytes(299_999))
    assert bytes(299_999) in agent.forwarded(20)


class Refusing(HangingUp):
    """A relay that refuses a large publish each time, and takes all others."""

    def events(self) -> list[RelayEvent]:
        """Return its answers."""
        unanswered, self._unanswered = self._unanswered, []
        return [
            Released(self.name, handle, 0x97 if len(self.taken[handle - 1]) > self.largest else 0)
            for handle in unanswered
        ]


@pytest.mark.slow
def test_a_message_that_a_relay_always_refuses_is_set_aside_while_others_go(tmp_path: Path) -> None:
    agent = HangingUpAgent(tmp_path, Refusing("site"))
    agent.blob(bytes(300_000))
    for number in range(20):
        agent.blob(b"%d" % number)
        assert b"%d" % number in agent.forwarded(60)
    assert [line for line in agent.said if "0x97" in line and "set aside" in line]


@pytest.mark.slow
def test_nothing_is_set_aside_where_a_relay_refuses_everything(tmp_path: Path) -> None:
    relay = Refusing("site")
    agent = HangingUpAgent(tmp_path, relay)
    relay.largest = 0
    agent.blob(b"one")
    agent.forwarded(1_000)
    assert not [line for line in agent.said if "set aside" in line]
    relay.largest = 1_000_000
    assert b"one" in agent.forwarded(400)
