"""Hostile envelopes a second that an agent survives, and how long an honest message takes beside them.

The production runtime, node and store, on one core, and a relay in memory with at most 512 envelopes unacknowledged,
one of them honest whenever the last one was taken. For some seconds each: nothing else; other members' messages; and
envelopes of each kind that is worthless. `dealt` counts what the agent opened, dropped or took; `used` is the share of
the core; then how long an honest message took from delivery to acknowledgement. What the limits hold back
(`covey/limits/rate.py`) waits at the relay: then few are dealt with, and little of the core is used.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from covey.adapters.clock import SystemClock
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.messages import pull_to_wire
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.link.state import LinkState
from covey.core.node import Node
from covey.core.now import Now
from covey.core.presence.heartbeat import LastWill
from covey.core.wire import cbor
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, MessageType, write_message
from covey.core.wire.topics import inbox_topic
from covey.ports import Delivered, PublishRefusal, RelayEvent, RelayUp
from tests.fleet import NodeMaker

_SECONDS, _PREPARED, _WINDOW, _BYTES = 12.0, 30_000, 512, 200
_INCARNATION = Incarnation(b"incarnat")


class _Relay:
    """A relay that takes everything, and remembers what was acknowledged to it."""

    name = "relay"

    def __init__(self) -> None:
        self.acknowledged: list[Delivered] = []

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Satisfy the port."""

    def publish(self, _topic: str, _payload: bytes, _lifetime_s: int = 0) -> int | PublishRefusal:
        """Take it."""
        return 1

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
        """Satisfy the port."""

    def set_will(self, will: LastWill | None) -> None:
        """Satisfy the port."""

    def alive(self) -> bool:
        """Satisfy the port."""
        return True

    def stop(self) -> None:
        """Satisfy the port."""


class _Victim:
    """An agent in a group with two others; a third was removed."""

    def __init__(self, folder: Path) -> None:
        self.chance = random.Random(1)
        self.identity, self.legitimate, self.member, self.banned, self.stranger = (self._identity() for _ in range(5))
        self.clock, self.relay = SystemClock(), _Relay()
        self.store = SqliteStore(
            folder / "state.sqlite", Incarnation(self.chance.randbytes(8)), StorageKey.of(self.identity)
        )
        self.runtime = Runtime(self.store, Relays([self.relay]), self.clock, self._node, [], lambda *_line: None)
        now = Now(self.clock.monotonic_us(), self.clock.wall_us())
        node = self.runtime.node
        with self.store.transaction():
            self.group_id = node.membership.create("", (), now.wall_us).group_id
            for each in (self.legitimate, self.member, self.banned):
                node.actions.change(self.group_id, self._adding(each), now)
            key = self.banned.signing_public
            node.actions.change(self.group_id, lambda draft, epoch: draft.removing(key, epoch), now)
        self.runtime.turn([RelayUp("relay", False, 1_000_000)])

    @staticmethod
    def _adding(newcomer: Identity) -> Callable[[GroupManifest, bytes], GroupManifest]:
        return lambda draft, _: draft.adding(Member(newcomer.keys))

    def _identity(self) -> Identity:
        return Identity.from_seeds(self.chance.randbytes(32), self.chance.randbytes(32))

    def _node(self, state: LinkState | None) -> Node:
        return NodeMaker(self.identity, self.chance).make(self.store, state)

    def envelope(self, author: Identity, kind: MessageType, number: int, body: bytes, group_id: GroupId) -> bytes:
        """Return a sealed message for the victim."""
        own = self.identity
        message = write_message(
            author, kind, own.signing_public, group_id, _INCARNATION, number, LinkSeq(number), 1, body
        )
        return seal(message, own.noise_public, self.chance.randbytes(32), self.chance.randbytes(24))

    def blobs(self, author: Identity) -> Iterator[bytes]:
        """Yield new messages of an author."""
        content = self.chance.randbytes(_BYTES)
        for number in count(1):
            yield self.envelope(author, MessageType.BLOB, number, content, self.group_id)

    def unreadable(self) -> Iterator[bytes]:
        """Yield what does not open."""
        own = self.identity.noise_public
        while True:
            raw = seal(self.chance.randbytes(_BYTES), own, self.chance.randbytes(32), self.chance.randbytes(24))
            yield raw[:-1] + bytes([raw[-1] ^ 1])

    def repeats(self) -> Iterator[bytes]:
        """Yield one message of a member again and again."""
        content = self.chance.randbytes(_BYTES)
        while True:
            yield self.envelope(self.member, MessageType.BLOB, 1, content, self.group_id)

    def false_losses(self) -> Iterator[bytes]:
        """Yield a member's claims to have lost what it can never have sent."""
        body = cbor.encode([1, [[1, 2**40 - 1]], [], b"earlier!"])
        for number in count(1):
            yield self.envelope(self.member, MessageType.LOSS, number, body, NO_GROUP)

    def pulls(self) -> Iterator[bytes]:
        """Yield a member's requests for all manifests."""
        for number in count(1):
            yield self.envelope(self.member, MessageType.GROUP_PULL, number, pull_to_wire(1), self.group_id)


@dataclass(frozen=True, slots=True)
class _Row:
    dealt_per_second: float
    used: float
    latencies_s: list[float]


def _run(victim: _Victim, prepared: list[bytes]) -> _Row:
    topic, relay = inbox_topic(victim.identity.signing_public), victim.relay
    legitimate = [
        Delivered("relay", (2, 0), topic, raw) for raw in islice(victim.blobs(victim.legitimate), _PREPARED // 10)
    ]
    waiting = iter([Delivered("relay", (1, 0), topic, raw) for raw in prepared])
    latencies: list[float] = []
    unacknowledged = dealt = 0
    mine, delivered_at = legitimate.pop(0), 0.0
    started, used = time.perf_counter(), time.process_time()
    while legitimate and time.perf_counter() < started + _SECONDS:
        events: list[RelayEvent] = list(islice(waiting, max(0, _WINDOW - 1 - unacknowledged)))
        unacknowledged += len(events)
        if not delivered_at:
            delivered_at = time.perf_counter()
            events.append(mine)
        deadline = victim.runtime.turn(events)
        if mine in relay.acknowledged:
            latencies.append(time.perf_counter() - delivered_at)
            mine, delivered_at = legitimate.pop(0), 0.0
            unacknowledged += 1
        unacknowledged -= len(relay.acknowledged)
        dealt += len(relay.acknowledged)
        relay.acknowledged.clear()
        if delivered_at and deadline is not None:
            time.sleep(max(0.0, min(0.25, (deadline - victim.clock.monotonic_us()) / 1e6)))
    elapsed = time.perf_counter() - started
    return _Row(dealt / elapsed, (time.process_time() - used) / elapsed, latencies)


_KINDS: dict[str, Callable[[_Victim], Iterator[bytes]]] = {
    "nothing else": lambda _victim: iter(()),
    "a member's messages": lambda victim: victim.blobs(victim.member),
    "unreadable": _Victim.unreadable,
    "of a stranger": lambda victim: victim.blobs(victim.stranger),
    "of a removed device": lambda victim: victim.blobs(victim.banned),
    "repeats of a member": _Victim.repeats,
    "false losses": _Victim.false_losses,
    "pulls": _Victim.pulls,
}


def main() -> None:
    """Print a line for each kind."""
    print(f"{'beside':<22} {'dealt/s':>9} {'used':>6} {'µs each':>9} {'honest p50, ms':>15} {'p99, ms':>9}")
    for name, make in _KINDS.items():
        with TemporaryDirectory(dir="/var/tmp") as folder:
            victim = _Victim(Path(folder))
            row = _run(victim, list(islice(make(victim), _PREPARED)))
            victim.store.close()
        taken = sorted(row.latencies_s) or [float("inf")]
        each_us = 1e6 * row.used / row.dealt_per_second
        print(
            f"{name:<22} {row.dealt_per_second:>9,.0f} {row.used:>6.0%} {each_us:>9,.0f}"
            f" {1000 * taken[len(taken) // 2]:>15.1f} {1000 * taken[len(taken) * 99 // 100]:>9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
