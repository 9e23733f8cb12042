"""Two collectors and one vault; one of them is killed for good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from covey.core import crypto
from covey_ingest.options import SourceOptions
from covey_ingest.spark.source import VaultBatchReader
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

Make = Callable[[str], Gateway]


def _lines(first: int, last: int) -> str:
    return "".join(f'{{"n":"t","u":"Cel","t":{1_790_000_000 + n},"v":{n}}}\n' for n in range(first, last))


def _readings(vault: Path, key_file: Path) -> list[float]:
    """Return the values that the tables get: each message once."""
    reader = VaultBatchReader(SourceOptions(str(vault), key_file))
    messages: dict[tuple[str, str, int], list[float]] = {}
    for partition in reader.partitions():
        for batch in reader.read(partition):
            rows: list[dict[str, Any]] = batch.to_pylist()
            for row in rows:
                if row["kind"] == "telemetry":
                    messages[row["author"], row["incarnation"], row["seq"]] = row["values"]
                assert row["kind"] in {"telemetry", "loss", "membership"}, row
                assert row["kind"] != "loss", "nothing is told lost"
    return sorted(value for values in messages.values() for value in values)


@pytest.mark.broker
def test_messages_for_a_lost_collector_reach_the_tables(new_gateway: Make, tmp_path: Path) -> None:
    one, other, gateway = new_gateway("one"), new_gateway("other"), new_gateway("gateway")
    one.ok("group", "create", "--capability", "collector")
    vault, key_file = tmp_path / "vault", one.state / "vault.key"
    for collector in (one, other, gateway):
        collector.ok("config", "set", "vault.segment_seconds", "0.1")
    one.ok("vault", "init", "--vault", str(vault))
    one.ok("vault", "export-key", str(other.state / "vault.key"))
    one.start("collect", "--no-sensors", "--vault", str(vault))
    one.invite(other, "--capability", "collector")
    one.invite(gateway)
    other.start("collect", "--no-sensors", "--vault", str(vault))
    gateway.ok("config", "set", "telemetry.takeover_minutes", "0.25")  # a busy machine is no silence
    gateway.start("run", "--no-sensors")
    wait_until(lambda: len(gateway.json("group", "show")["members"]) == 3, "the gateway knows both collectors")

    first, second = sorted(
        (one, other),
        key=lambda each: crypto.digest(b"covey/1 rendez", bytes.fromhex(gateway.author) + bytes.fromhex(each.author)),
        reverse=True,
    )
    gateway.ok("publish", "--batch", "5", feed=_lines(0, 10))
    wait_until(lambda: gateway.queued() == 0, "the first collector has taken it")
    first.kill()
    gateway.ok("publish", "--batch", "5", feed=_lines(10, 20))
    wait_until(lambda: gateway.counters().get("silent_collectors", 0) == 1, "the first collector counts as silent")
    gateway.ok("publish", "--batch", "5", feed=_lines(20, 30))
    wait_until(lambda: gateway.queued() == 2, "the second has taken over what is new")
    assert _readings(vault, key_file) == [float(n) for n in (*range(10), *range(20, 30))]

    second.ok("group", "remove", first.author[:8], "--yes")
    key_file = second.state / "vault.key"  # what lands from now on is for those alone who are left
    wait_until(lambda: _readings(vault, key_file) == [float(n) for n in range(30)], "nothing is missing")
    assert gateway.counters()["redirected_messages"] == 2
    assert second.json("vault", "verify", "--vault", str(vault)) == {"findings": []}
