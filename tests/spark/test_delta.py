"""The Delta sink: what a reader of the log sees, through kills, is what the Parquet sink would hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from covey.errors import ConfigurationError
from covey_ingest.progress import Progress
from covey_ingest.table_files import table_files
from covey_ingest.tables import Sink
from tests.audit import Tally, tally
from tests.spark.fleet import Author, Collector
from tests.spark.ingesting import ingest

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
    assert [*tally(tables).values()] == [Tally(70, 0)]
