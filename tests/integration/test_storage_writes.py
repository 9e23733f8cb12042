"""What an agent says that it has written to storage is what the kernel has counted of its process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_END = 512 * 1024
"""What the agent may write after the kernel was asked: the end of its connections, and the note itself."""

_LOOKS = 20
"""So many in a row see the same of a process that rests: a busy machine lets it wait."""


def _written(pid: int) -> int:
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"])


def _written_at_rest(pid: int) -> int:
    """Return what a process has written once it writes no more."""
    seen = [-1]

    def rests() -> bool:
        seen.append(_written(pid))
        return seen[-1] == seen[-_LOOKS]

    seen *= _LOOKS
    wait_until(rests, "the process rests")
    return seen[-1]


@pytest.fixture
def hub(broker: Broker) -> Iterator[Gateway]:
    """A collector on a disk: the kernel counts nothing of what is in memory only."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        gateway = Gateway(Path(folder), "hub", broker)
        yield gateway
        gateway.end()


def test_the_count_is_the_kernels_also_after_a_restart(hub: Gateway) -> None:
    hub.ok("group", "create", "--capability", "collector")
    hub.ok("config", "set", "api.socket", "api.sock")
    lines = "".join(json.dumps({"n": f"series/{number}", "v": number / 7}) + "\n" for number in range(2_000))
    kernel = 0
    for _ in range(2):
        hub.start("collect", "--no-sensors")
        for _ in range(5):
            hub.ok("publish", feed=lines)
        kernel += _written_at_rest(hub.pid)
        hub.end()
    counted = hub.counters()
    assert kernel <= counted["written_bytes"] <= kernel + 2 * _END
    assert 0 < counted["written_database_bytes"] <= counted["written_bytes"]
    metrics = hub.ok("metrics")
    assert f"covey_written_bytes_total {counted['written_bytes']}" in metrics
    written = hub.json("status")["written"]
    assert (written["bytes"], written["bytes_per_day"]) == (counted["written_bytes"], None)
