"""Readings per second and bytes on the wire: agent → broker → collector, against paho with JSON, singly and in batches.

Ours counts from the first reading until its sender knows that the collector has put the last one into the vault:
durable at both ends. The peer counts until its subscriber has written the last one to a file, without a sync. It
sends one JSON reading in a message, or as many as ours in one JSON list that zlib compresses: the fair one of both.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.processes import await_ready, feed, go, start
from demo.fleet import Fleet

_BATCH = 600
"""Ten sensors at 1 Hz for a minute."""

_OURS = 1_200_000
_PEER = 15_000
_BATCHES = 2_000
_ROUNDS = 3


def main() -> None:
    """Print both rates, the bytes, and their ratios."""
    with TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), agents=1)
        try:
            fleet.set_up(batch_seconds=60, interval_seconds=60)
            results = [
                (_ours(fleet), _peer(fleet, f"one-{number}", _PEER), _peer(fleet, f"all-{number}", _BATCHES, _BATCH))
                for number in range(_ROUNDS)
            ]
        finally:
            fleet.close()
    ours, singly, batched = zip(*results, strict=True)
    rate, size = (median(column) for column in zip(*ours, strict=True))
    print(f"readings/s, durable and acknowledged end to end, {_BATCH} a message {rate:>12,.0f}")
    print(f"bytes on the wire per reading, publisher to broker and back        {size:>10.2f}")
    for name, theirs in (("one JSON a message", singly), (f"{_BATCH} in a zlib JSON", batched)):
        rate, size = (median(column) for column in zip(*theirs, strict=True))
        ratios = sorted(one[0] / other[0] for one, other in zip(ours, theirs, strict=True))
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"raw paho, {name + ', neither end durable:':<50} readings/s {rate:>10,.0f}")
        print(f"  ours to theirs, median of {_ROUNDS} pairs ({spread}) {median(ratios):>30.2f}")
        print(f"  bytes on the wire per reading {size:>46.2f}")


def _ours(fleet: Fleet) -> tuple[float, float]:
    device = fleet.agents[0]
    before = fleet.tap.bytes_of(device.name)
    sender = start("bench.messages.sender", str(device.state), str(_OURS), str(_BATCH))
    seconds = go([sender])
    return _OURS / seconds, (fleet.tap.bytes_of(device.name) - before) / _OURS


def _peer(fleet: Fleet, run: str, count: int, batch: int = 1) -> tuple[float, float]:
    names = [hashlib.sha256(f"{run} {end}".encode()).hexdigest()[:32] for end in ("publisher", "subscriber")]
    passwords = [fleet.broker.add_device(name) for name in names]
    port = fleet.tap.port_for(run)
    topic = f"covey/1/in/{names[1]}"
    file = fleet.folder / f"{run}.messages"
    subscriber = start(
        "bench.messages.raw_paho", "subscribe", str(fleet.broker.port), names[1], topic, str(count), str(file), "0"
    )
    feed(subscriber, passwords[1])
    await_ready(subscriber)
    words = [str(port), names[0], topic, str(count), "0", *([str(batch)] if batch > 1 else [])]
    publisher = start("bench.messages.raw_paho", "publish", *words)
    feed(publisher, passwords[0])
    seconds = go([publisher, subscriber], ready=1)
    return count * batch / seconds, fleet.tap.bytes_of(run) / (count * batch)


if __name__ == "__main__":
    main()
