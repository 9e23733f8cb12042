"""The views of `covey tables query`, over what an engine wrote; nothing tells of a device that was deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from covey.core.group.manifest import Member, genesis, secret_id, sign_manifest
from covey.core.telemetry.batch import ClockKind
from covey.core.vault.landed_records import landed_manifest
from covey_ingest.committer.deleting import delete, of_author
from covey_ingest.committer.table_locations import location_at
from covey_ingest.queries.views import create, opened, refresh
from tests.group_manifests import GROUP, profile
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector
from tests.tables.ingesting import ingest, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.processes]

_QUERIES = (
    "SELECT author, name, seq, index, value, whole, flag, text, time_quality FROM readings ORDER BY author, seq, index",
    "SELECT author, seq, index, label, group_name FROM readings ORDER BY author, seq, index",
    "SELECT author, name, label, value, text, flag FROM latest ORDER BY author, name",
    "SELECT author, label, role, group_name, valid_from IS NULL AS first FROM members ORDER BY author, label",
    "SELECT author, name, readings, minimum, maximum, mean, last FROM by_minute ORDER BY author, name, minute",
    "SELECT author, name, readings, minimum, maximum, mean, last FROM rollup_minute ORDER BY author, name, minute",
    "SELECT author, seq, number, readings FROM messages ORDER BY author, seq",
    "SELECT author, name, sum(readings) AS n FROM by_day GROUP BY author, name ORDER BY author, name",
    "SELECT * EXCLUDE (time) FROM wide ORDER BY author, time",
    "SELECT author, boots FROM devices ORDER BY author",
)


def test_views_over_what_the_engine_wrote(tmp_path: Path) -> None:
    collector, tables = Collector(tmp_path / "vault"), tmp_path / "tables"
    one, two = Author(collector, 1, GROUP), Author(collector, 2)
    orchard = genesis(GROUP, Member(one.identity.keys, label="orchard"), secret_id(bytes(32)))
    orchard = sign_manifest(orchard, one.identity)
    meadow = sign_manifest(orchard.changing(Member(one.identity.keys, label="meadow")), one.identity)
    collector.land(landed_manifest(orchard), profile("Pumpen"), received_at_us=NOW_US - 10_000_000)
    collector.land(landed_manifest(meadow), received_at_us=NOW_US - 4_500_000)
    hostile = "it's a \\ `name\\'; --"
    collector.land(one.measure(9), two.telemetry([(hostile, "", BOOTED_US + 1, 2**53 + 1), ("on", "", NOW_US, True)]))
    ingest(collector.vault, tables)
    collector.land(one.telemetry([("state", "", BOOTED_US + 2, "open")], one.clock(ClockKind.UNSYNCHRONISED)))
    collector.land(one.measure(3))
    ingest(collector.vault, tables)

    with opened(location_at(str(tables))) as database:
        refresh(database, location_at(str(tables)))
        create(database, wide=True)
        database.execute("SET TimeZone = 'UTC'")
        for query in _QUERIES:
            assert database.execute(query).fetchall(), query
        labels = "SELECT label, group_name, count(*) FROM readings WHERE author = ? GROUP BY ALL ORDER BY label"
        named = [("meadow", "Pumpen", 8), ("orchard", "Pumpen", 5)]
        assert database.execute(labels, [one.author]).fetchall()[:2] == named
        days = "SELECT * EXCLUDE (mean), round(mean, 9) FROM {}_day ORDER BY author, name"
        assert database.execute(days.format("rollup")).fetchall() == database.execute(days.format("by")).fetchall()
        columns = database.table("wide").columns
        location = location_at(str(tables))
        noted = delete(location, of_author(one.author), lambda before: before.with_author(one.author, NOW_US))
        assert noted["members"] == 2
        refresh(database, location)
        create(database, wide=True)
        for table in ("readings", "latest", "members", "memberships", "devices"):
            authors = database.execute(f"SELECT DISTINCT author FROM {table} WHERE author IS NOT NULL").fetchall()
            assert authors in ([], [(two.author,)]), "nothing tells of who was deleted, by key or by label"
    refilled = tmp_path / "refilled"
    refilled.mkdir()
    shutil.copy(tables / "deletions.json", refilled)
    ingest(collector.vault, refilled)
    assert rows_of(refilled, "members") == [], "nor in tables that are filled again"
    assert hostile in columns
