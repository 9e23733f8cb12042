"""A vault is compacted while the job reads it: each reading once, and the same rows as without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from covey_ingest.progress import Progress
from tests.spark.fleet import Author, Collector
from tests.spark.ingesting import Recorder, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = ["author", "incarnation", "seq", "index", "name", "unit", "time", "number", "collector", "landed_at"]


def _rows(tables: Path) -> list[tuple[object, ...]]:
    table = ds.dataset(tables / "readings", partitioning="hive").to_table()
    columns = [name for name in COLUMNS if name in table.column_names]
    return sorted(tuple(row.values()) for row in table.select(columns).to_pylist())


def test_a_compaction_in_the_middle_of_a_stream_changes_no_row(spark: SparkSession, tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    devices = [Author(collector, seed) for seed in range(3)]
    compactions: list[Any] = []

    def fill(tables: Path, *, compacts: bool) -> None:
        class Between(Recorder):
            def written(self, progress: Progress) -> None:
                super().written(progress)
                if compacts:  # ever larger segments, and what was replaced goes at once
                    compactions.append(collector.compact(target_bytes=2_000 * 2 ** len(compactions)))

        ingest(spark, collector.vault, tables, segments_per_trigger=3, recorder=Between())

    tables = tmp_path / "tables"
    for _ in range(2):
        for _ in range(6):
            collector.land(*(device.measure(5) for device in devices))
        fill(tables, compacts=True)
    assert sum(each.merged for each in compactions) >= 2
    assert sum(each.deleted for each in compactions) >= 6
    rows = _rows(tables)
    assert len(rows) == len(set(rows)) == 2 * 6 * 3 * 5
    assert not list((tables / "quarantine").rglob("*.parquet"))
    replayed = tmp_path / "again"
    fill(replayed, compacts=False)
    assert _rows(replayed) == rows, "a replay from zero, over merged segments alone"
