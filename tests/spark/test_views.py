"""The script of `covey ingest views` means the same to Spark and to DuckDB, over what the ingest wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest

from covey.core.group.manifest import Member, genesis, secret_id, sign_manifest
from covey.core.telemetry.batch import ClockKind
from covey.core.vault.landed_records import landed_manifest
from covey_ingest.deleting import delete, of_author
from covey_ingest.deletions import Deletions
from covey_ingest.views import Engine, views
from tests.group_manifests import GROUP, profile
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector
from tests.spark.ingesting import ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

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


def test_both_engines_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    collector, tables = Collector(tmp_path / "vault"), tmp_path / "tables"
    one, two = Author(collector, 1, GROUP), Author(collector, 2)
    orchard = genesis(GROUP, Member(one.identity.keys, label="orchard"), secret_id(bytes(32)))
    orchard = sign_manifest(orchard, one.identity)
    meadow = sign_manifest(orchard.changing(Member(one.identity.keys, label="meadow")), one.identity)
    collector.land(landed_manifest(orchard), profile("Pumpen"), received_at_us=NOW_US - 10_000_000)
    collector.land(landed_manifest(meadow), received_at_us=NOW_US - 4_500_000)
    hostile = "it's a \\ `name\\'; --"
    collector.land(one.measure(9), two.telemetry([(hostile, "", BOOTED_US + 1, 2**53 + 1), ("on", "", NOW_US, True)]))
    ingest(spark, collector.vault, tables)
    collector.land(one.telemetry([("state", "", BOOTED_US + 2, "open")], one.clock(ClockKind.UNSYNCHRONISED)))
    collector.land(one.measure(3))
    ingest(spark, collector.vault, tables)

    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for statement in views(str(tables), Engine.SPARK).rstrip().removesuffix(";").split(";\n\n"):
        spark.sql(statement)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for statement in views(str(tables), Engine.DUCKDB).split(";\n\n"):
            database.execute(statement)
        for query in _QUERIES:
            by_spark = [tuple(row) for row in spark.sql(query.replace("EXCLUDE", "EXCEPT")).collect()]
            by_duckdb = database.execute(query).fetchall()
            assert by_spark == by_duckdb
            assert by_spark
        labels = "SELECT label, group_name, count(*) FROM readings WHERE author = ? GROUP BY ALL ORDER BY label"
        named = [("meadow", "Pumpen", 8), ("orchard", "Pumpen", 5)]
        assert database.execute(labels, [one.author]).fetchall()[:2] == named
        days = "SELECT * FROM {}_day ORDER BY author, name"
        assert database.execute(days.format("rollup")).fetchall() == database.execute(days.format("by")).fetchall()
        columns = [name for name, *_ in database.execute("SELECT * FROM wide").description]
        assert delete(tables, of_author(one.author), Deletions({one.author: NOW_US}))["members"] == 2
        for table in ("readings", "latest", "members", "memberships", "devices"):
            authors = database.execute(f"SELECT DISTINCT author FROM {table} WHERE author IS NOT NULL").fetchall()
            assert authors in ([], [(two.author,)]), "nothing tells of who was deleted, by key or by label"
    refilled = tmp_path / "refilled"
    refilled.mkdir()
    shutil.copy(tables / "deletions.json", refilled)
    ingest(spark, collector.vault, refilled)
    assert pq.read_table(refilled / "members" / "members.parquet").num_rows == 0, "nor in tables that are filled anew"
    assert hostile in columns
    assert hostile in spark.table("wide").columns
