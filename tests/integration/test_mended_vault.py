"""A collector whose vault is damaged: what senders or another collector hold comes back, the rest is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from covey.core import crypto
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

Make = Callable[[str], Gateway]

pytestmark = [pytest.mark.broker, pytest.mark.slow]


class Fleet:
    """Two collectors with a vault each, whose key is one, and a gateway that sends to the first of them."""

    def __init__(self, make: Make, folder: Path) -> None:
        one, other, self.gateway = make("one"), make("other"), make("gateway")
        self._folder = folder
        one.ok("group", "create", "--capability", "collector")
        for collector in (one, other):
            collector.ok("config", "set", "vault.segment_seconds", "0.1")
            collector.ok("config", "set", "vault.mirrors", str(self.copy))
        one.ok("vault", "init", "--vault", str(self.vault_of(one)))
        one.ok("vault", "export-key", str(other.state / "vault.key"))
        self._start(one)
        one.invite(other, "--capability", "collector")
        one.invite(self.gateway)
        self._start(other)
        self.gateway.start("run", "--no-sensors")
        wait_until(lambda: len(self.gateway.json("group", "show")["members"]) == 3, "the gateway knows both collectors")
        self.first, self.second = sorted(
            (one, other),
            key=lambda each: crypto.digest(
                b"covey/1 rendez", bytes.fromhex(self.gateway.author) + bytes.fromhex(each.author)
            ),
            reverse=True,
        )
        self.vault = self.vault_of(self.first)
        self.tables = folder / "tables"

    def vault_of(self, collector: Gateway) -> Path:
        """Return the folder of a collector's vault."""
        return self._folder / f"vault {collector.name}"

    @property
    def copy(self) -> Path:
        """The folder of what the other collector has copied."""
        return self._folder / "copy"

    def _start(self, collector: Gateway) -> None:
        collector.start("collect", "--no-sensors", "--vault", str(self.vault_of(collector)))

    def publish(self, first: int, last: int) -> None:
        """Have a reading with each of these values landed, in a segment for each."""
        for value in range(first, last):
            self.gateway.ok("publish", feed=f'{{"n":"t","u":"Cel","t":{1_790_000_000 + value},"v":{value}}}\n')
            wait_until(lambda: self.gateway.queued() == 0, "the first collector has taken it")

    def segments(self) -> list[Path]:
        """Return the files of the vault's segments, oldest first."""
        return sorted(self.vault.rglob("*.hxseg"))

    def values(self) -> list[float]:
        """Bring the tables up to date, and return all values that they have."""
        from tests.tables.ingesting import ingest  # it loads what no other file here needs: half a second a worker

        ingest(self.vault, self.tables, self.first.state / "vault.key")
        return sorted(row["value"] for row in self.rows("readings"))

    def rows(self, table: str, *order: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        from tests.tables.ingesting import rows_of

        return rows_of(self.tables, table, *order)

    def damage(self, count: int) -> None:
        """Damage the newest segments: a flipped bit, a lost tail, a lost file."""
        for place, path in enumerate(self.segments()[-count:]):
            content = path.read_bytes()
            if place % 3 == 0:
                path.write_bytes(content[:50] + bytes([content[50] ^ 4]) + content[51:])
            elif place % 3 == 1:
                path.write_bytes(content[:-1])
            else:
                path.unlink()


@pytest.fixture
def fleet(new_gateway: Make, tmp_path: Path) -> Fleet:
    return Fleet(new_gateway, tmp_path)


def test_senders_repeat_what_a_damaged_vault_held_and_tables_have_each_once(fleet: Fleet) -> None:
    fleet.publish(0, 3)
    assert fleet.values() == [0.0, 1.0, 2.0]
    fleet.publish(3, 6)
    fleet.damage(6)  # half of it is in the tables already
    wait_until(lambda: fleet.values() == [float(value) for value in range(6)], "each reading is there once")
    wait_until(lambda: fleet.gateway.counters().get("resent_to_restored", 0) == 6, "all have been repeated")
    wait_until(lambda: fleet.gateway.queued() == 0, "all have been taken")
    assert fleet.values() == [float(value) for value in range(6)]
    assert [row for row in fleet.rows("gaps") if row["state"] != "closed"] == []
    assert "damaged segments of the vault" in str(fleet.first.json("status"))


def test_a_collector_takes_the_same_bytes_from_what_the_other_has_copied(fleet: Fleet) -> None:
    fleet.publish(0, 3)
    good = {path: path.read_bytes() for path in fleet.segments()}
    fleet.second.ok("vault", "pull", str(fleet.copy), "--vault", str(fleet.vault))
    fleet.damage(3)
    wait_until(lambda: {path: path.read_bytes() for path in fleet.segments()} == good, "all is as it was")
    wait_until(lambda: fleet.first.counters().get("restored_segments", 0) == 3, "it is counted")
    assert fleet.values() == [0.0, 1.0, 2.0]
    assert fleet.gateway.counters().get("resent_to_restored", 0) == 0
    assert "damaged" not in str(fleet.first.json("status"))


def test_what_nobody_holds_is_named_by_device_and_message(fleet: Fleet) -> None:
    fleet.publish(0, 3)
    fleet.gateway.end()
    with closing(sqlite3.connect(fleet.gateway.state / "state.sqlite")) as database, database:
        database.execute("DELETE FROM acknowledged_message")  # as of older messages than a sender keeps
    fleet.damage(2)
    wait_until(lambda: fleet.first.counters().get("damaged_segments", 0) == 2, "the collector has noticed")
    fleet.gateway.start("run", "--no-sensors")
    wait_until(lambda: fleet.gateway.counters().get("lost_by_recipients", 0) == 2, "the sender names what is lost")

    def gaps() -> list[tuple[str, int, int, str]]:
        fleet.values()
        rows = fleet.rows("gaps", "first")
        return [(row["author"], row["first"], row["last"], row["reason"]) for row in rows]

    wait_until(lambda: [row[3] for row in gaps()] == ["recipient_lost"], "the tables say so")
    [(author, first, last, _)] = gaps()
    assert (author, last - first) == (fleet.gateway.author, 1)
    assert fleet.values() == [0.0]
    assert "of gateway" in fleet.first.log.read_text() or fleet.gateway.author[:8] in fleet.first.log.read_text()
