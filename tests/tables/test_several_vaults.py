"""Several vaults into one set of tables: a column says from which, and what is in two of them is there once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from covey.errors import ConfigurationError
from covey_ingest.__main__ import main
from covey_ingest.progress import Progress
from covey_ingest.vault.vaults import VaultPlace
from tests.outside.audit import audit
from tests.outside.holdings import Holdings
from tests.outside.vault import Vault
from tests.spark.fleet import NOW_US, Author, Collector
from tests.tables.ingesting import ingest, rows_of, table_of

pytestmark = [pytest.mark.slow, pytest.mark.processes]


class Sites:
    """Two sites with a vault each, and tables of both; a device that moves between them."""

    def __init__(self, folder: Path) -> None:
        self.north, self.south = Collector(folder / "north", 1), Collector(folder / "south", 2)
        self.settled, self.moving = Author(self.north, 3), Author(self.south, 4)
        self.tables = folder / "tables"

    def ingest(self, *sites: Collector) -> list[Progress]:
        """Take in what some of the vaults hold now."""
        first, *others = sites
        places = [VaultPlace(str(each.vault), each.key_file) for each in others]
        return ingest(first.vault, self.tables, others=tuple(places))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return whose messages are in the table, and from where."""
        names = {self.north.key.vault_id.hex(): "north", self.south.key.vault_id.hex(): "south"}
        whose = {self.settled.author: "settled", self.moving.author: "moving"}
        found = duckdb.from_arrow(table_of(self.tables, "readings"))
        said = found.project("author, batch_number, vault, count(*) OVER (PARTITION BY author, batch_number) AS times")
        return sorted((whose[row[0]], row[1], names[row[2]], row[3]) for row in said.distinct().fetchall())

    def findings(self, *sites: Collector) -> list[str]:
        """Ask the audit from outside."""
        holdings = Holdings(None)
        for each in sites:
            holdings.take(Vault(str(each.vault), each.key_file))
        return [str(each) for each in audit(holdings, [self.tables]).findings]


def test_a_device_that_is_in_two_vaults_is_in_the_tables_once(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    north, south = sites.north, sites.south
    said = [sites.moving.measure(2) for _ in range(4)]
    north.land(sites.settled.measure(2), said[0], said[1])
    sites.ingest(north)
    assert rows_of(sites.tables, "gaps") == []

    south.land(said[0], said[3], received_at_us=NOW_US + 1)
    (first,) = sites.ingest(north, south)
    assert (first.readings, first.repeats) == (2, 1), "one of both was there from the other vault"
    (gap,) = rows_of(sites.tables, "gaps")
    assert (gap["first"], gap["last"], gap["state"]) == (3, 3, "open")

    south.land(said[2], received_at_us=NOW_US + 2)
    north.land(said[2], received_at_us=NOW_US + 2)
    (second,) = sites.ingest(south, north)
    assert (second.readings, second.repeats) == (2, 1), "both at once"
    (gap,) = rows_of(sites.tables, "gaps")
    assert gap["state"] == "closed", "what one vault lacks another has"
    assert sites.ingest(north, south) == []

    south.land(sites.moving.measure(2))
    north.land(sites.settled.measure(2))
    (third,) = sites.ingest(south)
    assert third.readings == 2
    (fourth,) = sites.ingest(north)
    assert fourth.readings == 2, "who was not named goes on where it was"
    expected = [("moving", 1, "north", 2), ("moving", 2, "north", 2), ("moving", 4, "south", 2)]
    found = sites.rows()
    assert [row for row in found if row[1] != 3 or row[0] != "moving"] == [
        *expected,
        ("moving", 5, "south", 2),
        ("settled", 1, "north", 2),
        ("settled", 2, "north", 2),
    ]
    assert [row[3] for row in found if row[:2] == ("moving", 3)] == [2]
    assert sites.findings(north, south) == []


def test_a_failed_segment_is_repaired_in_its_own_vault(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    sites.north.land(sites.settled.measure(2))
    path = sites.south.segment_path(sites.south.land(sites.moving.measure(2)))
    content = path.read_bytes()
    path.unlink()
    (first,) = sites.ingest(sites.north, sites.south)
    assert (first.readings, first.quarantined) == (2, 1)
    path.write_bytes(content)
    (second,) = sites.ingest(sites.north, sites.south)
    assert (second.readings, second.repaired) == (2, 1)
    rows = rows_of(sites.tables, "quarantine")
    assert {row["vault"] for row in rows} == {sites.south.key.vault_id.hex()}
    assert sites.ingest(sites.north, sites.south) == []
    assert {row["vault"] for row in rows_of(sites.tables, "readings")} == {
        each.key.vault_id.hex() for each in (sites.north, sites.south)
    }


def test_vaults_that_do_not_belong_here_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sites = Sites(tmp_path)
    sites.north.land(sites.settled.measure(1))
    sites.ingest(sites.north)
    with pytest.raises(ConfigurationError, match="filled from another vault"):
        sites.ingest(sites.south)
    mirror = Collector(tmp_path / "mirror", 5, key=sites.north.key)
    with pytest.raises(ConfigurationError, match="are the same vault"):
        sites.ingest(sites.north, mirror)
    sites.ingest(sites.south, sites.north)
    sites.ingest(sites.south)
    vaults = [str(sites.north.vault), str(sites.south.vault)]
    assert main([*vaults, str(sites.tables), "--key-file", str(sites.north.key_file)]) == 2
    assert "2 vaults but 1 key files" in capsys.readouterr().err
