"""Who reads a vault after a removal: through commands, agents and a broker, and by what the ingest reads with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.keys.vault_key_file import VaultKeyFile, read_vault_keys
from covey_ingest.options import SourceOptions
from covey_ingest.spark.source import VaultBatchReader
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

Make = Callable[[str], Gateway]


def _lines(first: int, last: int) -> str:
    return "".join(f'{{"n":"t","u":"Cel","t":{1_790_000_000 + n},"v":{n}}}\n' for n in range(first, last))


def _rows(vault: Path, key_file: Path) -> list[dict[str, Any]]:
    reader = VaultBatchReader(SourceOptions(str(vault), key_file))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def _read(vault: Path, key_file: Path) -> list[float]:
    return sorted({value for row in _rows(vault, key_file) for value in row["values"] or ()})


def _numbers(first: int, last: int) -> list[float]:
    return [float(number) for number in range(first, last)]


@pytest.mark.broker
def test_a_removed_collector_reads_nothing_that_lands_after_and_all_others_go_on(
    new_gateway: Make, tmp_path: Path
) -> None:
    one, other, gateway = new_gateway("one"), new_gateway("other"), new_gateway("gateway")
    vault, ingest_key = tmp_path / "vault", tmp_path / "ingest.key"
    one.ok("group", "create", "--capability", "collector")
    for each in (one, other, gateway):
        each.ok("config", "set", "vault.segment_seconds", "0.1")
    one.ok("vault", "init", "--vault", str(vault))
    one.ok("vault", "export-key", str(other.state / "vault.key"))
    one.ok("vault", "export-key", str(ingest_key))
    reader = gateway.json("vault", "new-reader", str(ingest_key))["public"]
    one.ok("vault", "add-reader", reader)
    assert one.json("vault", "readers")["readers"] == [{"public": reader, "device": ""}]
    one.start("collect", "--no-sensors", "--vault", str(vault))
    one.invite(other, "--capability", "collector")
    one.invite(gateway)
    other.start("collect", "--no-sensors", "--vault", str(vault))
    gateway.start("run", "--no-sensors")
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(0, 10))

    other.end()
    stolen, robbed = tmp_path / "stolen", tmp_path / "robbed.key"
    shutil.copytree(other.state, stolen, ignore=shutil.ignore_patterns("*.pipe"))
    VaultKeyFile(robbed).write(read_vault_keys(stolen / "vault.key"))
    assert _read(vault, robbed) == _numbers(0, 10)
    one.ok("group", "remove", other.author[:8], "--yes")
    wait_until(lambda: len(gateway.json("group", "show")["members"]) == 2, "the gateway knows")
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(10, 20))

    assert _read(vault, one.state / "vault.key") == _numbers(0, 20)
    assert _read(vault, ingest_key) == _numbers(0, 20), "the ingest goes on without a person"
    refused = _rows(vault, robbed)
    assert not {value for row in refused for value in row["values"] or ()} & set(_numbers(10, 20))
    assert "vault_key" in {row["reason"] for row in refused}
    (shown,) = [row for row in one.json("vault", "status", "--vault", str(vault))["nodes"] if row["key"] == 2]
    assert shown["key_since"] > "2026"
    verified = one.ok("vault", "verify", "--vault", str(vault))
    assert "key 2, since 20" in verified

    one.ok("vault", "remove-reader", reader)
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(20, 25))
    assert _read(vault, one.state / "vault.key") == _numbers(0, 25)
    assert _read(vault, ingest_key) != _numbers(0, 25)
    assert "hint" in one.fails("vault", "add-reader", "nobody", code=2)
    mirror = tmp_path / "mirror"
    one.ok("vault", "pull", str(mirror), "--vault", str(vault))
    assert _read(mirror, one.state / "vault.key") == _numbers(0, 25)


@pytest.mark.broker
def test_two_collectors_that_stay_read_each_other(new_gateway: Make, tmp_path: Path) -> None:
    one, other, gone = new_gateway("one"), new_gateway("other"), new_gateway("gone")
    vault = tmp_path / "vault"
    one.ok("group", "create", "--capability", "collector")
    for each in (one, other):
        each.ok("config", "set", "vault.segment_seconds", "0.1")
    one.ok("vault", "init", "--vault", str(vault))
    one.ok("vault", "export-key", str(other.state / "vault.key"))
    one.start("collect", "--no-sensors", "--vault", str(vault))
    one.invite(other, "--capability", "collector")
    one.invite(gone)
    other.start("collect", "--no-sensors", "--vault", str(vault))
    wait_until(lambda: len(other.json("group", "show")["members"]) == 3, "all know each other")
    wait_until(lambda: len(list(vault.rglob("*.hxkey"))) == 2, "each has shown that it holds the key")
    one.ok("group", "remove", gone.author[:8], "--yes")
    wait_until(lambda: len(other.json("group", "show")["members"]) == 2, "the other one knows")
    for number, each in enumerate((one, other)):
        each.ok("publish", "--batch", "5", feed=_lines(10 * number, 10 * number + 10))
    for each in (one, other):
        wait_until(
            lambda each=each: _read(vault, each.state / "vault.key") == _numbers(0, 20),
            "each reads what both have landed",
        )
        assert each.json("vault", "verify", "--vault", str(vault)) == {"findings": []}
