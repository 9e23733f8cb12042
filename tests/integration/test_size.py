"""What the agent costs a gateway, looked at shortly; `./dev bench size` takes its time."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from bench.size import Idle, Patience, fill, idle_of, start
from broker_conf.mosquitto import Broker
from tests.integration.gateway import Gateway
from tests.waiting import GUARD_S

_SHORT = Patience(1, 0.2, 10)
_QUEUED = 100_000
_RSS_MIB = 37.5
"""Half of it are Python and its libraries; signed history, and what is ordered by it, took the last one and a half."""
_READY_S = 3.0
"""Five times what a quiet machine takes."""


def _cost(gateway: Gateway) -> tuple[float, Idle]:
    process, ready_s = start(sys.executable, gateway.state)
    try:
        return ready_s, idle_of(process.pid, _SHORT)
    finally:
        process.terminate()
        process.wait(timeout=GUARD_S)


@pytest.mark.broker
def test_a_queue_costs_neither_memory_nor_time(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    ready_s, empty = _cost(one)
    broker.kill()
    fill(one.state, _QUEUED)
    full_ready_s, full = _cost(one)
    assert max(empty.rss, full.rss) < _RSS_MIB
    assert full.rss < empty.rss + 2
    assert max(ready_s, full_ready_s) < _READY_S
