"""`covey.app.device.shared_commits`: callers share a commit, each is answered after it, and refused alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.file.high_water_file import HighWaterFile
from covey.adapters.sqlite.file.state_file import StateFile
from covey.adapters.sqlite.store import SqliteStore
from covey.app.api.opened_device import OpenedDevice
from covey.app.device.shared_commits import SharedCommits, Work
from covey.core.ids import DeviceKey, Incarnation, Place
from covey.core.link.queued import MessageClass
from covey.core.node import Node
from covey.core.now import Now
from covey.errors import DiskFullError, OutboxFullError, TransientError, UnknownGroupError
from covey.limits.storage import SHARED_COMMIT_BYTES
from covey.limits.units import MIB
from tests.fleet import START, Device, carry, found, identity
from tests.powercut import HIGH_WATER, recorded
from tests.waiting import wait_until

_CALLERS = 8
_BEN = DeviceKey(b"b" * 32)


class _FillingStore(SqliteStore):
    """The production store on a disk that a test fills."""

    full = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Refuse at the end while the disk is full."""
        with super().transaction():
            yield
            if self.full:
                raise DiskFullError("no room")


class _Agent:
    """Ann, whose loop is this thread; programs call from others."""

    def __init__(self, folder: Path, callers: ThreadPoolExecutor) -> None:
        self.ann = Device("ann", folder, opens=_FillingStore)
        self.ben = Device("ben", folder)
        self.group_id = found(self.ann, self.ben)
        self.store = self.ann.store
        assert isinstance(self.store, _FillingStore)
        self.wakes: list[None] = []
        self.commits = SharedCommits(self.store, lambda: self.wakes.append(None))
        self._callers = callers

    def call(self, work: Work, size: int = 0) -> Future[int]:
        """Have a program call; return when the loop can take its request."""
        return self.submit(lambda: self.commits.commit(work, size))

    def submit(self, call: Callable[[], int | None]) -> Future[Any]:
        """Have a program make a call that has one request; return when the loop can take it."""
        before = self.commits.waiting
        future = self._callers.submit(call)
        wait_until(lambda: self.commits.waiting > before, "the request waits")
        return future

    def send(self, node: Node, now: Now) -> int:
        """Queue a blob."""
        return node.send_blob(self.group_id, b"content", now)

    def turn(self) -> int | None:
        """Let the loop do a turn, as `Runtime` does: a node whose transaction failed is replaced."""
        try:
            return self.commits.turn(self.ann.node, START)
        finally:
            if self.ann.node.discarded:
                self.ann.replace_node()

    @property
    def written(self) -> int:
        """Commits so far."""
        return self.store.database.one("SELECT commits FROM device")

    @property
    def queued(self) -> int:
        """Messages that wait."""
        return self.store.outbox.totals()[0]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[_Agent]:
    with ThreadPoolExecutor(_CALLERS) as callers:
        made = _Agent(tmp_path, callers)
        try:
            yield made
        finally:
            made.commits.close()


def test_callers_share_a_commit_and_are_answered_after_it(agent: _Agent) -> None:
    before, queued = agent.written, agent.queued
    calls = [agent.call(agent.send) for _ in range(_CALLERS)]
    done_early: list[bool] = []
    agent.store.database.before_commit(lambda: done_early.extend(call.done() for call in calls))
    assert agent.turn() is None
    assert [call.result(60) for call in calls] == [1] * _CALLERS
    assert done_early == [False] * _CALLERS
    assert agent.written - before == 1
    assert agent.queued - queued == _CALLERS
    assert len(agent.wakes) == 1


def test_programs_that_take_messages_share_a_commit(agent: _Agent) -> None:
    for _ in range(_CALLERS):
        agent.ben.blob(agent.group_id, b"content")
    carry(agent.ben, agent.ann)
    opened = OpenedDevice(cast("Any", agent.ann), agent.commits.commit)
    before = agent.written
    calls = [agent.submit(partial(opened.delete, row[0])) for row in agent.store.inbox.arrived(_CALLERS)]
    assert len(agent.store.inbox.arrived(_CALLERS)) == _CALLERS
    agent.turn()
    for call in calls:
        call.result(60)
    assert agent.store.inbox.arrived(1) == []
    assert agent.written - before == 1


def test_no_caller_is_answered_before_the_sync(agent: _Agent) -> None:
    call = agent.call(agent.send)
    seen: list[tuple[str, bool]] = []
    agent.store.connection.set_trace_callback(lambda statement: seen.append((statement[:6], call.done())))
    agent.turn()
    agent.store.connection.set_trace_callback(None)
    assert ("COMMIT", False) in seen
    assert call.result(60) == 1


def test_a_call_refused_before_writing_fails_alone(agent: _Agent) -> None:
    def to_unknown_group(node: Node, now: Now) -> int:
        return node.send_blob(type(agent.group_id)(b"?" * 32), b"", now)

    before = agent.written
    good, bad, last = agent.call(agent.send), agent.call(to_unknown_group), agent.call(agent.send)
    assert agent.turn() is None
    assert (good.result(60), last.result(60)) == (1, 1)
    with pytest.raises(UnknownGroupError):
        bad.result(60)
    assert agent.written - before == 1


@pytest.mark.parametrize("error", [OutboxFullError("full"), DiskFullError("no room"), ZeroDivisionError("a defect")])
def test_a_call_refused_while_writing_fails_alone(agent: _Agent, error: Exception) -> None:
    def refused(node: Node, now: Now) -> int:
        agent.send(node, now)
        raise error

    before, queued = agent.written, agent.queued
    good, bad, last = agent.call(agent.send), agent.call(refused), agent.call(agent.send)
    assert agent.turn() == START.monotonic_us, "the others are due at once"
    with pytest.raises(type(error)):
        bad.result(60)
    assert not good.done()
    assert agent.written == before
    assert agent.turn() is None
    assert (good.result(60), last.result(60)) == (1, 1)
    assert agent.queued - queued == 2
    assert agent.written - before == 1


def test_a_call_refused_after_it_took_a_number_leaves_no_hole(agent: _Agent) -> None:
    def refused(_node: Node, _now: Now) -> int:
        agent.store.outbox.allocate(agent.ben.key)
        raise OutboxFullError("full")

    good, bad, last = agent.call(agent.send), agent.call(refused), agent.call(agent.send)
    while agent.turn() is not None:
        pass
    assert (good.result(60), last.result(60)) == (1, 1)
    with pytest.raises(OutboxFullError):
        bad.result(60)
    places = [place for place, _ in agent.store.outbox.queued(agent.ben.key, Place(0), 10, MIB)]
    assert places == list(range(places[0], places[0] + len(places)))


def test_a_disk_that_refuses_the_commit_is_reported_to_all_and_to_the_loop(agent: _Agent) -> None:
    queued = agent.queued
    calls = [agent.call(agent.send) for _ in range(2)]
    assert isinstance(agent.store, _FillingStore)
    agent.store.full = True
    with pytest.raises(DiskFullError):
        agent.turn()
    for call in calls:
        with pytest.raises(DiskFullError):
            call.result(60)
    agent.store.full = False
    call = agent.call(agent.send)
    agent.turn()
    assert call.result(60) == 1
    assert agent.queued - queued == 1


def test_a_large_request_does_not_delay_those_before_it(agent: _Agent) -> None:
    small, large, next_one = (agent.call(agent.send, size) for size in (1, SHARED_COMMIT_BYTES, 1))
    assert agent.turn() == START.monotonic_us
    assert small.result(60) == 1
    assert not large.done()
    agent.turn()
    assert large.result(60) == 1
    agent.turn()
    assert next_one.result(60) == 1


@pytest.mark.parametrize(
    "end", [lambda agent: agent.commits.close(), lambda agent: agent.commits.stop(agent.ann.node, START)]
)
def test_an_agent_that_ends_answers_everybody(agent: _Agent, end: Callable[[_Agent], None]) -> None:
    call = agent.call(agent.send)
    queued = agent.queued
    end(agent)
    try:
        assert call.result(60) == agent.queued - queued == 1
    except TransientError:
        assert agent.queued == queued
    with pytest.raises(TransientError, match="nothing was queued"):
        agent.commits.commit(agent.send)


@pytest.mark.slow
def test_a_power_cut_takes_nothing_from_a_caller_that_was_answered(tmp_path: Path) -> None:
    written, left = tmp_path / "written", tmp_path / "left"
    written.mkdir()
    left.mkdir()
    with recorded() as recording, ThreadPoolExecutor(_CALLERS) as callers:
        store = SqliteStore(
            written / "state.sqlite",
            Incarnation(b"incarnat"),
            StorageKey(bytes(32)),
            high_water=HighWaterFile(written / HIGH_WATER),
        )
        with store.transaction():
            store.high_water.begin()
        store.connection.execute("PRAGMA wal_autocheckpoint = 20")
        commits, node = SharedCommits(store, lambda: None), Device("ann", tmp_path).node

        def queue(_node: Node, _now: Now) -> int:
            seq, link_seq = store.outbox.allocate(_BEN)
            return store.outbox.queue(_BEN, seq, link_seq, MessageClass.DATA, b"content" * 40, 5)

        for number in range(40):
            calls = [callers.submit(commits.commit, queue) for _ in range(1 + number % _CALLERS)]
            wait_until(lambda calls=calls: commits.waiting == len(calls), "all wait")
            commits.turn(node, START)
            recording.mark(max(call.result(60) for call in calls))
        store.close()
    for number in range(150):
        chance = random.Random(number)
        cut = chance.randint(1, len(recording.events))
        promised = max((int(str(place)) for at, place in recording.marks if at <= cut), default=0)
        for old in left.iterdir():
            old.unlink()
        for name, content in recording.states_at(cut, chance).items():
            (left / name).write_bytes(content)
        opened, reports = StateFile(left / "state.sqlite").open(identity("ann"), 100 * MIB)
        places = [place for place, _ in opened.outbox.queued(_BEN, Place(0), 10_000, 100 * MIB)]
        opened.close()
        assert not reports
        assert len(places) >= promised
        assert places == list(range(1, len(places) + 1))
