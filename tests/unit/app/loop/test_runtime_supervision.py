"""When the supervisor hears that the agent moves, and when it does not: real store and node, a relay that can hang."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.core.crypto import Identity
from covey.core.ids import GroupId, Incarnation
from covey.core.now import Now
from covey.core.pairing.invite import SECRET_BYTES, Invite
from covey.limits.pairing import INVITE_US
from covey.ports import Delivered, PublishRefusal, RelayEvent, RelayUp, Released
from tests.fleet import NodeMaker

SECOND_US = 1_000_000


class _Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_us = 1_000 * SECOND_US

    def monotonic_us(self) -> int:
        return self.now_us

    def wall_us(self) -> int:
        return self.now_us

    def synchronised(self) -> bool:
        return False

    def boot_id(self) -> bytes:
        return bytes(8)


class _Relay:
    """A relay whose every answer a test decides."""

    name = "relay"

    def __init__(self) -> None:
        self.runs = True
        self.refuses: PublishRefusal | None = None
        self.published = 0
        self.deliver: Callable[[RelayEvent], None] = lambda _: None

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        self.deliver = deliver

    def publish(self, _topic: str, _payload: bytes, _lifetime_s: int = 0) -> int | PublishRefusal:
        self.published += 1
        return self.published if self.refuses is None else self.refuses

    def acknowledge(self, delivered: Delivered) -> None:
        pass

    def rest(self) -> None:
        """Satisfy the port."""

    def resume(self) -> None:
        """Satisfy the port."""

    def renew_subscription(self) -> None:
        pass

    def set_will(self, will: object) -> None:
        pass

    def alive(self) -> bool:
        return self.runs

    def stop(self) -> None:
        pass


class _World:
    """One agent that has a message for a peer who never answers."""

    def __init__(self, store: SqliteStore) -> None:
        self.clock, self.relay = _Clock(), _Relay()
        nodes = NodeMaker(Identity.from_seeds(bytes(32), bytes([1]) * 32), random.Random(1))
        self.runtime = Runtime(
            store,
            Relays([self.relay]),  # type: ignore[list-item] # nobody moves its inbox
            self.clock,
            lambda state: nodes.make(store, state),
            [],
            lambda _level, _line: None,
        )
        inviter = Identity.from_seeds(bytes([2]) * 32, bytes([3]) * 32)
        now = Now(self.clock.now_us, self.clock.now_us)
        with store.transaction():
            self.runtime.node.actions.request_join(
                Invite(GroupId(bytes(32)), inviter.keys, bytes(SECRET_BYTES), now.wall_us + INVITE_US, ""), "asker", now
            )

    def pass_time(self, seconds: int, *events: RelayEvent) -> bool:
        """Let the loop turn once a second; return whether it still speaks to the supervisor."""
        moves = True
        for _ in range(seconds):
            self.clock.now_us += SECOND_US
            self.runtime.turn(list(events))
            moves = self.runtime._moves()
        return moves


@pytest.fixture
def world(tmp_path: Path) -> Iterator[_World]:
    store = SqliteStore(tmp_path / "state.sqlite", Incarnation(bytes(8)), StorageKey(bytes(32)))
    yield _World(store)
    store.close()


UP = RelayUp("relay", session_present=False, maximum_payload=1_000_000)


def test_offline_is_not_stuck(world: _World) -> None:
    assert world.pass_time(600)
    assert world.relay.published == 0


def test_a_recipient_that_never_answers_is_not_stuck(world: _World) -> None:
    assert world.pass_time(1, UP)
    assert world.pass_time(1200)
    assert world.relay.published > 3


def test_silence_reveals_a_dead_relay_thread(world: _World) -> None:
    assert world.pass_time(10)
    world.relay.runs = False
    assert not world.pass_time(10)


def test_silence_reveals_a_relay_that_accepts_nothing(world: _World) -> None:
    world.relay.refuses = PublishRefusal.WINDOW_FULL
    assert world.pass_time(1, UP)
    assert world.pass_time(110)
    assert not world.pass_time(20)


@pytest.mark.slow
def test_a_relay_that_releases_now_and_then_moves(world: _World) -> None:
    world.relay.refuses = PublishRefusal.WINDOW_FULL
    assert world.pass_time(1, UP)
    assert world.pass_time(600, Released("relay", 1, 0))
