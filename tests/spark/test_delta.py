"""The Delta sink: what a reader of the log sees, through kills, is what the Parquet sink would hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from covey.core.telemetry.batch import ClockKind
from covey.errors import ConfigurationError
from covey_ingest import clocks
from covey_ingest.progress import Progress
from covey_ingest.table_files import table_files
from covey_ingest.tables import Sink
from tests.outside.holdings import Kind
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector
from tests.spark.ingesting import audited, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _count(tables: Path, name: str) -> int:
    return sum(pq.read_metadata(file).num_rows for file in table_files(tables, name))


def test_delta_tables_hold_each_reading_once_through_replays(spark: SparkSession, tmp_path: Path) -> None:
    collector, tables = Collector(tmp_path / "vault"), tmp_path / "tables"
    device = Author(collector, 1)
    sizes = [collector.land(device.measure(20)).size for _ in range(3)]

    def ingest_as(sink: Sink = Sink.DELTA) -> list[Progress]:
        return ingest(spark, collector.vault, tables, bytes_per_trigger=2 * max(sizes), sink=sink)

    # Tables that begin as Parquet become Delta tables, with all that they hold.
    assert [each.readings for each in ingest_as(Sink.PARQUET)] == [40, 20]
    collector.land(device.loss(7, 9), b"no message")
    (third,) = ingest_as()
    assert (third.losses, third.quarantined) == (1, 1)
    assert [_count(tables, name) for name in ("readings", "losses", "quarantine", "devices")] == [60, 1, 1, 1]
    assert (tables / "gaps" / "_delta_log").is_dir()
    assert _count(tables, "gaps") == 0
    with pytest.raises(ConfigurationError, match="are Delta tables"):
        ingest_as(Sink.PARQUET)

    # Killed after all was written and before Spark noted it; then before the log had it.
    for last_entry_is_lost in (False, True):
        collector.land(device.measure(5))
        before = _count(tables, "readings")
        (progress,) = ingest_as()
        (tables / ".checkpoint" / "commits" / str(progress.batch_id)).unlink()
        (tables / ".checkpoint" / "commits" / f".{progress.batch_id}.crc").unlink(missing_ok=True)
        if last_entry_is_lost:
            max((tables / "readings" / "_delta_log").glob("*.json")).unlink()
            assert _count(tables, "readings") == before
        ingest_as()
        assert _count(tables, "readings") == before + 5
    assert audited(tables, collector, Kind.FORGED) == {device.author: 70}


def test_times_before_the_clock_was_set_are_right_once_it_is(spark: SparkSession, tmp_path: Path) -> None:
    collector, tables = Collector(tmp_path / "vault"), tmp_path / "tables"
    device = Author(collector, 1)

    def measured(kind: ClockKind, days_slow: int) -> bytes:
        clock = device.clock(kind, NOW_US - days_slow * 86_400_000_000)
        return device.telemetry([("t", "Cel", BOOTED_US, 21.5)], clock)

    slow = [measured(ClockKind.UNSYNCHRONISED, 5) for _ in range(2)]
    collector.land(slow[0])
    collector.land(measured(ClockKind.SYNCHRONISED, 0), slow[1])
    ingest(spark, collector.vault, tables, segments_per_trigger=1, sink=Sink.DELTA)
    rows = [row for file in table_files(tables, "readings") for row in pq.read_table(file).to_pylist()]
    found = sorted((row["time_quality"], round(row["time"].timestamp() * 1e6)) for row in rows)
    assert found == [("rebased", NOW_US), ("rebased", NOW_US), ("synchronised", NOW_US)]

    # The file as it was first written, and as it stays where there is no log: the same by the offsets.
    (first,) = [row for file in tables.glob("readings/batch=0/*.parquet") for row in pq.read_table(file).to_pylist()]
    (clock,) = pq.read_table(clocks.path_in(tables)).to_pylist()
    moved_us = first["time"].timestamp() * 1e6 - first["clock_offset"] + clock["clock_offset"]
    assert (first["time_quality"], round(moved_us)) == ("unsynchronised", NOW_US)
