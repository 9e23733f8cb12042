"""What an outage of an hour costs in repetition: envelopes sent for each message that waited.

The production core and store, in virtual time: a message a second from one device to another through a relay with a
queue for each device (20,000 messages, as `broker_conf/mosquitto` sets it). For an hour:

    sender away     the sender has no connection;
    recipient away  the relay keeps what comes for the recipient;
    queue lost      the same, and the relay forgets its queues before the recipient is back: what must go again, goes.

Each begins in the middle of traffic and ends when the outbox is empty. The peer is a perfect sender: each message once.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from covey.adapters.sqlite.store import SqliteStore
from covey.core.crypto import Identity
from covey.core.group.manifest import Member
from covey.core.node import Node
from covey.core.now import Now
from covey.core.wire.topics import inbox_topic

_START_US = 1_790_000_000_000_000
_SECOND = 1_000_000
_STEP_US = 100_000
_WARM_S, _OUTAGE_S, _QUEUE = 60, 3_600, 20_000
_WINDOW = 200
"""Publishes unanswered at most, as `MqttRelay` has it; each is answered at the next step."""
_ROUNDS = 3


@dataclass
class _Device:
    """One device, and what the relay keeps for it."""

    identity: Identity
    store: SqliteStore
    node: Node
    connected: bool = True
    queue: deque[bytes] = field(default_factory=deque)
    unanswered: list[tuple[bytes, int]] = field(default_factory=list)

    @property
    def key(self) -> bytes:
        """By what the other knows it."""
        return self.identity.signing_public

    def disconnect(self) -> None:
        """Lose the relay, with what it has not answered."""
        self.connected = False
        self.unanswered.clear()
        self.node.connection_lost()

    def connect(self, now: Now) -> None:
        """Have it again."""
        self.connected = True
        self.node.connected(now)


class _Pair:
    """Two members of one group, their relay, and their time."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._chance = random.Random(seed)
        self.sender, self.recipient = (self._device(folder / name) for name in ("sender", "recipient"))
        self._by_topic = {inbox_topic(each.key): each for each in (self.sender, self.recipient)}
        self._now_us = 0
        self.sent = 0
        with self.sender.store.transaction():
            self._group_id = self.sender.node.membership.create("", (), _START_US).group_id
            member = Member(self.recipient.identity.keys)
            self.sender.node.actions.change(self._group_id, lambda draft, _: draft.adding(member), self.now)
        manifests = self.sender.store.groups.manifests()
        secret = self.sender.node.membership.secret(self._group_id)
        current = self.sender.node.membership.group(self._group_id)
        assert secret is not None
        with self.recipient.store.transaction():
            for group_id, _, raw in manifests:
                self.recipient.store.groups.save_manifest(group_id, current.hash, current.version, raw, 0)
            self.recipient.store.groups.save_secret(self._group_id, current.epoch_id, secret, 0)
        self.recipient.node.refresh()
        for device in (self.sender, self.recipient):
            device.connect(self.now)

    @property
    def now(self) -> Now:
        """Both clocks."""
        return Now(self._now_us, _START_US + self._now_us)

    @property
    def waiting(self) -> int:
        """Messages that the sender has not had acknowledged."""
        return self.sender.store.outbox.totals()[0]

    def close(self) -> None:
        """Close the stores."""
        for device in (self.sender, self.recipient):
            device.store.close()

    def live(self, seconds: int, *, sends: bool) -> None:
        """Let time pass."""
        for step in range(seconds * _SECOND // _STEP_US):
            if sends and step * _STEP_US % _SECOND == 0:
                with self.sender.store.transaction():
                    self.sender.node.send_blob(self._group_id, self._chance.randbytes(200), self.now)
            self._step()

    def _step(self) -> None:
        self._now_us += _STEP_US
        for device in (self.sender, self.recipient):
            if not device.connected:
                continue
            for answered in device.unanswered:
                device.node.relayed(*answered)
            device.unanswered.clear()
            with device.store.transaction():
                for _ in range(min(_WINDOW, len(device.queue))):
                    device.node.receive_envelope(device.queue.popleft(), self.now)
                if device.node.has_work(self.now):
                    device.node.maintain(self.now)
            device.node.handle_deadline(self.now)
            self._publish(device)

    def _publish(self, device: _Device) -> None:
        for outgoing in device.node.envelopes_to_send(self.now):
            if len(device.unanswered) >= _WINDOW:
                break
            queue = self._by_topic[outgoing.topic].queue
            if len(queue) < _QUEUE:
                queue.append(outgoing.envelope)
            if outgoing.entry is not None:
                device.unanswered.append((outgoing.recipient, outgoing.entry.place))
                self.sent += device is self.sender
            device.node.sent(outgoing, self.now)

    def _jitter(self, low: int, high: int) -> int:
        return self._chance.randint(low, high)

    def _device(self, path: Path) -> _Device:
        identity = Identity.from_seeds(self._chance.randbytes(32), self._chance.randbytes(32))
        store = SqliteStore(path, self._chance.randbytes(8))
        store.connection.execute("PRAGMA synchronous = OFF")
        node = Node(identity, store, self._chance.randbytes, self._jitter)
        return _Device(identity, store, node)


@contextmanager
def _pair(seed: int) -> Iterator[_Pair]:
    with TemporaryDirectory() as folder:
        pair = _Pair(seed, Path(folder))
        try:
            yield pair
        finally:
            pair.close()


def _cost(seed: int, away: str, *, queue_lost: bool) -> tuple[float, int]:
    """Return (envelopes for each message, messages that waited at the end of the outage)."""
    with ExitStack() as stack:
        pair = stack.enter_context(_pair(seed))
        pair.live(_WARM_S, sends=True)
        sent, before = pair.sent, pair.waiting
        device: _Device = getattr(pair, away)
        device.disconnect()
        pair.live(_OUTAGE_S, sends=True)
        backlog = pair.waiting
        if queue_lost:
            pair.recipient.queue.clear()
        device.connect(pair.now)
        while pair.waiting:
            pair.live(1, sends=False)
        return (pair.sent - sent) / (_OUTAGE_S + before), backlog


def main() -> None:
    """Print the three."""
    print(f"envelopes sent for each message of an hour's outage, medians of {_ROUNDS} (least to most)")
    for name, away, queue_lost in (
        ("sender away", "sender", False),
        ("recipient away", "recipient", False),
        ("queue lost", "recipient", True),
    ):
        rounds = [_cost(seed, away, queue_lost=queue_lost) for seed in range(_ROUNDS)]
        costs = sorted(cost for cost, _ in rounds)
        backlog = round(median(waiting for _, waiting in rounds))
        print(f"{name:<16} {backlog:>6,} waited {median(costs):>8.3f}  ({costs[0]:.3f} to {costs[-1]:.3f})")


if __name__ == "__main__":
    main()
