"""Three gateways, two groups, two collectors: one gateway is moved, and moved back, while processes are killed."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from covey_ingest.options import SourceOptions
from covey_ingest.spark.source import VaultBatchReader
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

Make = Callable[[str], Gateway]


class Readings:
    """What gateways publish: each reading has a value of its own."""

    def __init__(self) -> None:
        self.published: dict[str, list[int]] = {}
        self._next = 0

    def publish(self, gateway: Gateway, count: int = 20) -> None:
        """Publish some, in messages of five readings."""
        numbers = range(self._next, self._next + count)
        lines = "".join(f'{{"n":"t","u":"Cel","t":{1_790_000_000 + n},"v":{n}}}\n' for n in numbers)
        gateway.ok("publish", "--batch", "5", feed=lines)
        self.published.setdefault(gateway.author, []).extend(numbers)
        self._next += count

    def all(self) -> list[int]:
        """Return all values, ascending."""
        return sorted(number for numbers in self.published.values() for number in numbers)


def _values(*collectors: Gateway) -> Counter[int]:
    """Return how often each value gets into the tables of the collectors, together."""
    found: Counter[int] = Counter()
    for each in collectors:
        reader = VaultBatchReader(SourceOptions(str(each.state / "vault"), each.state / "vault.key"))
        messages: dict[tuple[str, str, int], list[float]] = {}
        for partition in reader.partitions():
            for batch in reader.read(partition):
                rows: list[dict[str, Any]] = batch.to_pylist()
                for row in rows:
                    if row["kind"] == "telemetry":
                        messages[row["author"], row["incarnation"], row["seq"]] = row["values"]
                    assert row["kind"] != "loss", "nothing is told lost"
        found.update(int(value) for values in messages.values() for value in values)
    return found


def _group(ops: Gateway, hub: Gateway) -> str:
    """Create a group with a collector."""
    group: str = ops.json("group", "create")["group_id"]
    hub.ok("config", "set", "vault.segment_seconds", "0.1")
    ops.invite(hub, "--group", group, "--capability", "collector")
    hub.start("collect", "--no-sensors")
    return group


def _gateway(ops: Gateway, gateway: Gateway, group: str) -> None:
    """Let a gateway into a group; it obeys."""
    gateway.ok("config", "set", "operations.operators", ops.json("key", "show")["signing_key"])
    gateway.ok("config", "set", "operations.commands", "move-group")
    gateway.ok("config", "set", "label", gateway.name)
    ops.invite(gateway, "--group", group)
    gateway.start("run", "--no-sensors")


def _labels(ops: Gateway, group: str) -> set[str]:
    return {each["label"] for each in ops.json("group", "members", "--group", group)}


def _state(ops: Gateway, order: str) -> str:
    [move] = [each for each in ops.json("group", "moves") if each["id"] == order]
    [device] = move["devices"]
    state: str = device["state"]
    return state


def test_a_gateway_is_moved_to_another_group_and_back_without_loss(new_gateway: Make) -> None:
    ops, first, second = new_gateway("ops"), new_gateway("first"), new_gateway("second")
    ops.ok("config", "set", "operations.operators", ops.json("key", "show")["signing_key"])
    ops.start("run", "--no-sensors")
    old, new = _group(ops, first), _group(ops, second)
    barn, roof, shed = gateways = [new_gateway(name) for name in ("barn", "roof", "shed")]
    for each in gateways:
        _gateway(ops, each, old)
    obeying = "history", "log", "--type", "obeying", "--group", old
    wait_until(lambda: len(ops.ok(*obeying).splitlines()) >= len(gateways), "the operator knows that they obey")
    readings = Readings()
    for each in gateways:
        readings.publish(each)

    first.kill()
    readings.publish(barn)
    order = ops.json("group", "split", "--group", old, "--into", new, "--for", "barn", "--yes")["id"]
    barn.end(signal.SIGKILL)
    readings.publish(barn)
    barn.start("run", "--no-sensors")
    wait_until(lambda: _state(ops, order) == "delivering", "it is in the new group, and readings wait for the old one")
    readings.publish(barn)
    wait_until(lambda: set(readings.published[barn.author][-20:]) <= _values(second).keys(), "they go to the new one")
    barn.end(signal.SIGKILL)
    ops.end(signal.SIGKILL)
    barn.start("run", "--no-sensors")
    first.start("collect", "--no-sensors")
    ops.start("run", "--no-sensors")
    wait_until(lambda: _state(ops, order) == "moved", "the operator's device has removed it from the old group")
    assert barn.name not in _labels(ops, old)
    assert barn.name in _labels(ops, new)
    wait_until(lambda: len(barn.json("group", "list")) == 1, "it knows that itself")
    for each in gateways:
        readings.publish(each)
    wait_until(lambda: _values(first, second).total() >= len(readings.all()), "all readings are in a vault")
    assert sorted(_values(first, second).elements()) == readings.all()

    order = ops.json("group", "merge", "--group", new, "--into", old, "--yes")["id"]
    second.kill()
    readings.publish(barn)
    barn.end(signal.SIGKILL)
    second.start("collect", "--no-sensors")
    barn.start("run", "--no-sensors")
    wait_until(lambda: _state(ops, order) == "moved", "it is back")
    for each in gateways:
        readings.publish(each)
    wait_until(lambda: _values(first, second).total() >= len(readings.all()), "all readings are in a vault")
    assert sorted(_values(first, second).elements()) == readings.all()
    assert set(readings.published[barn.author][-20:]) <= _values(first).keys()
    assert set(readings.published) == {each.author for each in (barn, roof, shed)}
