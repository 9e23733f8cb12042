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

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, GroupId, Incarnation, Place
from covey.core.wire.topics import inbox_topic
from tests.fleet import Device, settled

_STEPS = 10
"""In a second."""
_WARM_S, _OUTAGE_S, _QUEUE = 60, 3_600, 20_000
_WINDOW = 200
"""Publishes unanswered at most, as `MqttRelay` has it; each is answered at the next step."""
_ROUNDS = 3


@dataclass(eq=False)
class _Online:
    """A device, and what the relay keeps for it."""

    device: Device
    connected: bool = True
    queue: deque[bytes] = field(default_factory=deque)
    unanswered: list[tuple[DeviceKey, Place]] = field(default_factory=list)

    def disconnect(self) -> None:
        """Lose the relay, with what it has not answered."""
        self.connected = False
        self.unanswered.clear()
        self.device.node.connection_lost()

    def connect(self) -> None:
        """Have it again."""
        self.connected = True
        self.device.node.connected(self.device.now)


class Pair:
    """Two members of one group, their relay, and their time."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._chance = random.Random(seed)
        names = ("sender", "recipient")
        self.sender, self.recipient = self.both = [
            _Online(Device(name, folder, chance=self._chance, opens=_unsynced)) for name in names
        ]
        self._by_topic = {inbox_topic(each.device.key): each for each in self.both}
        self._group_id = settled(self.sender.device, self.recipient.device)
        self.sent = 0

    @property
    def waiting(self) -> int:
        """Messages that the sender has not had acknowledged."""
        return self.sender.device.store.outbox.totals()[0]

    def close(self) -> None:
        """Close the stores."""
        for each in self.both:
            each.device.stop()

    def live(self, seconds: int, *, sends: bool) -> None:
        """Let time pass."""
        for step in range(seconds * _STEPS):
            if sends and step % _STEPS == 0:
                self.sender.device.blob(GroupId(self._group_id), self._chance.randbytes(200))
            for each in self.both:
                self._step(each)

    def _step(self, online: _Online) -> None:
        device = online.device
        device.wait(1 / _STEPS)
        if not online.connected:
            return
        for answered in online.unanswered:
            device.node.relayed(*answered)
        online.unanswered.clear()
        with device.store.transaction():
            for _ in range(min(_WINDOW, len(online.queue))):
                device.node.receive_envelope(online.queue.popleft(), device.now)
        device.maintain()
        self._publish(online)

    def _publish(self, online: _Online) -> None:
        device = online.device
        for outgoing in device.node.envelopes_to_send(device.now):
            if len(online.unanswered) >= _WINDOW:
                break
            queue = self._by_topic[outgoing.topic].queue
            if len(queue) < _QUEUE:
                queue.append(outgoing.envelope)
            if outgoing.entry is not None:
                online.unanswered.append((outgoing.recipient, outgoing.entry.place))
                self.sent += online is self.sender
            device.node.sent(outgoing, device.now)


def _unsynced(path: Path, incarnation: Incarnation, storage_key: StorageKey, outbox_bytes: int) -> SqliteStore:
    store = SqliteStore(path, incarnation, storage_key, outbox_bytes)
    store.connection.execute("PRAGMA synchronous = OFF")
    return store


@contextmanager
def _pair(seed: int) -> Iterator[Pair]:
    with TemporaryDirectory() as folder:
        pair = Pair(seed, Path(folder))
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
        online: _Online = getattr(pair, away)
        online.disconnect()
        pair.live(_OUTAGE_S, sends=True)
        backlog = pair.waiting
        if queue_lost:
            pair.recipient.queue.clear()
        online.connect()
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
