"""Readings per second and bytes on the wire: agent → broker → collector, against paho with JSON.

Ours counts from the first reading until its sender knows that the collector has put the last one into the vault:
durable at both ends. The peer counts until its subscriber has written the last one to a file, without a sync.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.processes import await_ready, feed, go, start
from demo.fleet import Fleet

_BATCH = 600
"""Ten sensors at 1 Hz for a minute."""

_OURS = 1_200_000
_PEER = 15_000
_ROUNDS = 3


def main() -> None:
    """Print both rates, the bytes, and their ratios."""
    with TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), agents=1)
        try:
            fleet.set_up(batch_seconds=60, interval_seconds=60)
            results = [(*_ours(fleet), *_peer(fleet, number)) for number in range(_ROUNDS)]
        finally:
            fleet.close()
    our_rate, our_bytes, peer_rate, peer_bytes = (median(column) for column in zip(*results, strict=True))
    ratios = sorted(ours / theirs for ours, _, theirs, _ in results)
    print(f"readings/s, durable and acknowledged end to end, {_BATCH} a message {our_rate:>12,.0f}")
    print(f"readings/s, raw paho, JSON, one a message, neither end durable     {peer_rate:>10,.0f}")
    spread = f"{ratios[0]:.1f} to {ratios[-1]:.1f}"
    print(f"  ratio, median of {_ROUNDS} pairs ({spread}) {median(ratios):>33.1f}")
    print(f"bytes on the wire per reading, publisher to broker and back        {our_bytes:>10.2f}")
    print(f"  the same as JSON                                                 {peer_bytes:>10.2f}")
    print(f"  ratio                                                            {our_bytes / peer_bytes:>10.3f}")


def _ours(fleet: Fleet) -> tuple[float, float]:
    device = fleet.agents[0]
    before = fleet.tap.bytes_of(device.name)
    sender = start("bench.messages.sender", str(device.state), str(_OURS), str(_BATCH))
    seconds = go([sender])
    return _OURS / seconds, (fleet.tap.bytes_of(device.name) - before) / _OURS


def _peer(fleet: Fleet, number: int) -> tuple[float, float]:
    names = [f"{number:02}a{'0' * 61}", f"{number:02}b{'0' * 61}"]
    passwords = [fleet.broker.add_device(name) for name in names]
    port = fleet.tap.port_for(f"peer-{number}")
    topic = f"covey/1/in/{names[1]}"
    file = fleet.folder / f"peer-{number}.ndjson"
    subscriber = start(
        "bench.messages.raw_paho", "subscribe", str(fleet.broker.port), names[1], topic, str(_PEER), str(file), "0"
    )
    feed(subscriber, passwords[1])
    await_ready(subscriber)
    publisher = start("bench.messages.raw_paho", "publish", str(port), names[0], topic, str(_PEER), "0")
    feed(publisher, passwords[0])
    seconds = go([publisher, subscriber], ready=1)
    return _PEER / seconds, fleet.tap.bytes_of(f"peer-{number}") / _PEER


if __name__ == "__main__":
    main()
