"""How long a reading takes to the vault, with nothing else, and beside a collector's catch-up of a history.

Agent, broker and collector are processes of their own; a reading in each message, ten a second. It counts from its
publishing until the collector's own counter says that it is in the vault; a segment of a second is most of that.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

from covey.app.device.device import find_state, open_device
from covey.client import Client
from covey.core.history.bodies import Note
from demo.device import Device
from demo.fleet import Fleet

_OPERATIONS = 10_000
_READINGS = 400
_EVERY_S = 0.1
_LOOK_S = 0.02
_NOTE = Note("text/plain", b"pump 3 rattles again; oiled it, and ordered a bearing")


def main() -> None:
    """Print p50 and p99 of both, and their ratio."""
    with TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), agents=1)
        try:
            fleet.set_up(batch_seconds=1, interval_seconds=60)
            agent = fleet.agents[0]
            agent.ok("config", "set", "api.socket", "api.sock")
            agent.start("run", "--no-sensors")
            alone = times(agent, fleet.collector, _READINGS)
            agent.end()
            _write(agent)
            agent.start("run", "--no-sensors")
            beside = times(agent, fleet.collector, _READINGS)
            fetched = _count(fleet.collector, "SELECT count(*) FROM operation")
        finally:
            fleet.close()
    print(f"{'a reading to the vault, ms':<42} {'p50':>8} {'p99':>8}")
    for name, found in (("alone", alone), (f"beside {fetched:,} of {_OPERATIONS:,} operations", beside)):
        print(f"  {name:<40} {1_000 * percentile(found, 50):>8.0f} {1_000 * percentile(found, 99):>8.0f}")
    print(f"  ratio of p99 {percentile(beside, 99) / percentile(alone, 99):>45.2f}")


def percentile(found: list[float], which: int) -> float:
    """Return the percentile of a number of samples."""
    return quantiles(found, n=100)[which - 1]


def _write(agent: Device) -> None:
    """Give the agent a history that the collector lacks."""
    with open_device(find_state(str(agent.state))) as device:
        group_id = device.pick_group(None).group_id
        for _ in range(_OPERATIONS // 100):
            with device.store.transaction():
                for _ in range(100):
                    device.node.history.write(group_id, _NOTE, device.now())


def times(agent: Device, collector: Device, number: int) -> list[float]:
    """Return the seconds that each reading has taken: the n-th that was published is the n-th that lands."""
    client = Client(agent.state / "api.sock")
    while not client.answers():
        time.sleep(_LOOK_S)
    landed_before = _landed(collector)
    published: list[float] = []
    landed: list[float] = []
    while len(landed) < number:
        now = time.monotonic()
        if len(published) < number and (not published or now >= published[-1] + _EVERY_S):
            published.append(now)
            client.publish([{"n": "t", "v": len(published)}], batch=1)
        new = _landed(collector) - landed_before - len(landed)
        landed += [time.monotonic()] * new
        time.sleep(_LOOK_S)
    return [there - here for here, there in zip(published, landed, strict=True)]


def _landed(collector: Device) -> int:
    return _count(collector, "SELECT coalesce(max(value), 0) FROM counter WHERE name = 'landed_messages'")


def _count(device: Device, statement: str) -> int:
    with closing(sqlite3.connect(f"{(device.state / 'state.sqlite').as_uri()}?mode=ro", uri=True)) as database:
        [(found,)] = database.execute(statement)
    return int(found)
