"""What the agent costs a gateway, looked at shortly; `./dev bench size` takes its time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.agent.size import Idle, Patience, fill, idle_of, start
from broker_conf.mosquitto import Broker
from covey.core.ids import DeviceKey
from tests.integration.gateway import Gateway
from tests.integration.test_sensors import add_sensor
from tests.waiting import GUARD_S

_SHORT = Patience(1, 0.2, 10)
_QUEUED = 100_000
_RSS_MIB = 37.5
"""Half of it are Python and its libraries; signed history, and what is ordered by it, took the last one and a half."""
_ON_MIB = 8
"""What a sensor and the local API may take more; the page and doors are processes of their own."""
_READ_MIB = 1.0
"""What an agent with a queue may read more from its files; the queue has 30 times as much."""


def _cost(gateway: Gateway) -> tuple[float, Idle]:
    """Run an agent for a moment; return how many MiB it has read, and what it takes while it is idle."""
    process, _ = start(sys.executable, gateway.state)
    try:
        idle = idle_of(process.pid, _SHORT)
        counts = dict(line.split(": ") for line in Path(f"/proc/{process.pid}/io").read_text().splitlines())
        return int(counts["rchar"]) / 2**20, idle
    finally:
        process.terminate()
        process.wait(timeout=GUARD_S)


@pytest.mark.broker
def test_a_queue_costs_neither_memory_nor_reading(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    empty_read, empty = _cost(one)
    broker.kill()
    fill(one.state, _QUEUED, DeviceKey(bytes(32)))
    full_read, full = _cost(one)
    assert max(empty.rss, full.rss) < _RSS_MIB
    assert full.rss < empty.rss + 2
    assert full_read < empty_read + _READ_MIB, "it starts without reading the queue"


@pytest.mark.broker
def test_the_page_and_doors_cost_the_agent_little(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    one.ok("vault", "init")
    one.ok("config", "set", "api.socket", "api.sock")
    program = tmp_path / "level"
    program.write_text('#!/bin/sh\nwhile echo \'{"n":"level","v":1}\'; do sleep 0.1; done\n')
    program.chmod(0o755)
    add_sensor(one, 'name = "tide"', 'kind = "exec"', f'command = ["{program}"]')
    path = one.state / "config.toml"
    path.write_text(f'{path.read_text()}\n[[door]]\nname = "d"\nkind = "webhook"\nurl = "http://127.0.0.1:1/"\n')
    page = one.start_beside("dashboard", "--listen", "127.0.0.1:0")
    sender = one.start_beside("door", "run")
    try:
        assert _cost(one)[1].rss < _RSS_MIB + _ON_MIB
        assert (page.poll(), sender.poll()) == (None, None)
    finally:
        one.end()
