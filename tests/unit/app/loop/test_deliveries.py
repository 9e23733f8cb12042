"""`covey.app.loop.deliveries`: an envelope that brings out a defect takes no other one of its turn along."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from covey.adapters.sqlite.link.inbox import Inbox
from covey.core.now import Now
from covey.core.wire.message import Message
from covey.errors import LocalError
from covey.ports import Delivered
from tests.unit.app.loop.test_runtime import Agent


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def _fails_on(bad: bytes, defect: Callable[[Inbox], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the inbox have a defect that blobs with certain bytes bring out, after it has written."""
    deliver = Inbox.deliver

    def delivers(inbox: Inbox, message: Message, now_us: int) -> bool:
        taken = deliver(inbox, message, now_us)
        if bad in message.body:
            defect(inbox)
        return taken

    monkeypatch.setattr(Inbox, "deliver", delivers)


def _overflows(inbox: Inbox) -> None:
    inbox._database.run("UPDATE device SET next_seq = ?", (2**63,))


def _breaks_a_rule_of_the_table(inbox: Inbox) -> None:
    inbox._database.run("INSERT INTO counter VALUES ('x', 9e18 * 2)")


def _adds_beyond_63_bits(inbox: Inbox) -> None:
    inbox._database.run("INSERT INTO counter VALUES ('x', 9223372036854775807)")
    inbox._database.run("UPDATE counter SET value = value + 1")


def _is_a_local_mistake(_inbox: Inbox) -> None:
    raise LocalError("not a peer's mistake")


def _raises_what_nobody_expects(_inbox: Inbox) -> None:
    raise sqlite3.ProgrammingError("not even an error of ours")


DEFECTS = (
    _overflows,
    _breaks_a_rule_of_the_table,
    _adds_beyond_63_bits,
    _is_a_local_mistake,
    _raises_what_nobody_expects,
)


def _deliveries(agent: Agent, contents: list[bytes]) -> list[Delivered]:
    return [agent.delivery(content) for content in contents]


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_others_of_a_turn_are_taken(
    agent: Agent, defect: Callable[[Inbox], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    _fails_on(b"bad", defect, monkeypatch)
    contents = [b"bad" if number in {0, 7, 8, 19} else b"good %d" % number for number in range(20)]
    events = _deliveries(agent, contents)
    agent.turn(*events)
    assert agent.ben.inbox() == [content for content in contents if content != b"bad"]
    assert agent.relay.acknowledged == events
    assert [entry.code for entry in agent.store.quarantine.entries()] == ["unforeseen"] * 4
    assert agent.store.counters.values()["quarantined_unforeseen"] == 4
    reported = [line for level, line in agent.said if level == "error"]
    assert len(reported) == 4
    assert not any("disk" in line for line in reported)


def test_the_link_of_what_was_set_aside_goes_on(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    _fails_on(b"bad", _overflows, monkeypatch)
    agent.turn(*_deliveries(agent, [b"one", b"bad", b"two"]))
    agent.turn(seconds=1)
    for envelope in agent.relay.taken:
        agent.ann.receive(envelope)
    assert agent.ann.store.outbox.totals()[0] == 0


def test_many_defects_share_their_turns_with_everything_else(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    _fails_on(b"bad", _overflows, monkeypatch)
    events = _deliveries(agent, [b"bad"] * 20 + [b"good"])
    waits_us = agent.turn(*events)
    assert len(agent.relay.acknowledged) < len(events)
    assert waits_us is not None
    assert waits_us <= 0
    while len(agent.relay.acknowledged) < len(events):
        agent.turn()
    assert agent.ben.inbox() == [b"good"]


def test_a_message_that_fails_only_at_the_commit_is_found(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a number would that a table keeps in memory until then."""
    flush = agent.store.received._flush

    def flushes() -> None:
        flush()
        if agent.store.database.one("SELECT count(*) FROM inbox WHERE body = ?", b"bad"):
            agent.store.database.run("UPDATE device SET next_seq = ?", (2**63,))

    agent.store.database.remember(lambda: None, flushes)
    contents = [b"bad" if number == 5 else b"good %d" % number for number in range(11)]
    events = _deliveries(agent, contents)
    agent.turn(*events)
    assert agent.ben.inbox() == [content for content in contents if content != b"bad"]
    assert sorted(event.payload for event in agent.relay.acknowledged) == sorted(event.payload for event in events)


def test_a_defect_of_memory_leaves_nothing_behind(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler queued before it failed is neither stored nor sent."""
    queue = agent.runtime.node.send_blob

    def delivers(inbox: Inbox, message: Message, _now_us: int) -> bool:
        queue(agent.group_id, b"never sent", Now(1, 1))
        raise RuntimeError(message.type)

    monkeypatch.setattr(Inbox, "deliver", delivers)
    agent.turn(*_deliveries(agent, [b"bad"]))
    agent.turn(seconds=1)
    for envelope in agent.relay.taken:
        agent.ann.receive(envelope)
    assert agent.ann.inbox() == []
    assert agent.store.outbox.totals()[0] == 0
