"""A flood of worthless envelopes: bounded work, a few lines, and whoever is honest is heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.crypto import Identity
from covey.core.ids import Incarnation, LinkSeq
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, write_message
from covey.core.wire.topics import inbox_topic
from covey.limits.rate import AUTHOR_TOKENS, DROPPED_LINE_US, WORTHLESS_TOKENS
from covey.ports import Delivered
from tests.fleet import identity
from tests.unit.app.loop.test_runtime import Agent

_TURN = 512


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def _junk(agent: Agent, author: Identity, number: int) -> Delivered:
    """Return a blob of somebody who is no member."""
    to = agent.ben.identity
    message = write_message(
        author,
        MessageType.BLOB,
        to.signing_public,
        agent.group_id,
        Incarnation(bytes(8)),
        number,
        LinkSeq(number),
        1,
        b"junk",
    )
    envelope = seal(message, to.noise_public, agent.ann.rng(32), agent.ann.rng(24))
    return Delivered("relay", (1, number), inbox_topic(to.signing_public), envelope)


def _dropped(agent: Agent) -> dict[str, int]:
    return {name: value for name, value in agent.store.counters.values().items() if name.startswith("dropped_")}


@pytest.mark.slow
def test_a_banned_device_that_floods_is_soon_not_read_and_told_of_in_one_line(agent: Agent) -> None:
    author = identity("banned")
    allowed = AUTHOR_TOKENS // WORTHLESS_TOKENS
    junk = [_junk(agent, author, number) for number in range(1, allowed + 1_001)]
    agent.said.clear()
    for first in range(0, len(junk), _TURN):
        agent.turn(*junk[first : first + _TURN])
    assert _dropped(agent) == {"dropped_not_a_member": allowed, "dropped_rate": 1_000}
    assert agent.relay.acknowledged == junk, "the relay is rid of it"
    assert len(agent.said) == 2, "one of the device, one of those that are not read"
    agent.turn(agent.delivery(b"honest"))
    assert agent.ben.inbox() == [b"honest"]


def test_drops_of_the_same_minute_are_logged_together(agent: Agent) -> None:
    author = identity("banned")
    agent.said.clear()
    agent.turn(*(_junk(agent, author, number) for number in range(1, 41)))
    agent.turn(seconds=DROPPED_LINE_US / 1e6)
    agent.turn(seconds=DROPPED_LINE_US / 1e6)
    first, rest = (line for _, line in agent.said)
    assert "not_a_member" in first
    assert "39 more" in rest


@pytest.mark.slow
def test_a_thousand_strangers_write_no_thousand_lines(agent: Agent) -> None:
    agent.said.clear()
    agent.turn(*(_junk(agent, identity(f"stranger {number}"), 1) for number in range(200)))
    assert len(agent.said) <= 65


@pytest.mark.slow
def test_an_author_pays_for_nothing_that_others_forge_in_its_name(agent: Agent) -> None:
    ann = agent.ann.identity
    to = agent.ben.identity
    numbers = Incarnation(bytes(8)), 1, LinkSeq(1), 1
    forged = write_message(ann, MessageType.BLOB, to.signing_public, agent.group_id, *numbers, b"forged")
    broken = bytearray(forged)
    broken[-1] ^= 1
    envelopes = [
        Delivered("relay", (2, number), "", seal(bytes(broken), to.noise_public, agent.ann.rng(32), agent.ann.rng(24)))
        for number in range(AUTHOR_TOKENS // WORTHLESS_TOKENS + 100)
    ]
    for first in range(0, len(envelopes), _TURN):
        agent.turn(*envelopes[first : first + _TURN])
    agent.turn(agent.delivery(b"it was not me"))
    assert agent.ben.inbox() == [b"it was not me"]


@pytest.mark.slow
def test_when_all_tokens_are_used_up_what_comes_waits_at_the_relay(agent: Agent) -> None:
    unreadable = [Delivered("relay", (1, number), "", b"\x00" * 100) for number in range(10_000)]
    for first in range(0, len(unreadable), _TURN):
        agent.turn(*unreadable[first : first + _TURN])
    event = agent.delivery(b"honest")
    waits_us = agent.turn(event)
    assert agent.ben.inbox() == []
    assert event not in agent.relay.acknowledged
    assert waits_us is not None
    assert waits_us > 0
    agent.turn(seconds=waits_us / 1e6)
    while event not in agent.relay.acknowledged:
        agent.turn(seconds=1)
    assert agent.ben.inbox() == [b"honest"]
    assert sum("wait at the relay" in line for _, line in agent.said) == 1
