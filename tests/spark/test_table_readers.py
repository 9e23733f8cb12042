"""Spark reads the tables, and follows them, without jars: as docs/how-to/readers.md shows it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from covey_ingest.committer import delta_log
from covey_ingest.task.writing import write
from tests.meta.source_tree import ROOT
from tests.tables_driver import DAY_US, Driver, messages, reworked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def _followed(spark: SparkSession, table: str, checkpoint: Path) -> list[tuple[int, int]]:
    """Return the readings that a stream with this checkpoint takes in now, by message and index."""
    taken: list[tuple[int, int]] = []

    def take(rows: DataFrame, _number: int) -> None:
        taken.extend((row.seq, row["index"]) for row in rows.collect())

    stream = spark.readStream.format("covey_tables").load(table).writeStream.foreachBatch(take)
    stream.option("checkpointLocation", f"file://{checkpoint}").trigger(availableNow=True).start().awaitTermination()
    return taken


def test_a_batch_and_a_stream_see_each_reading_once_through_merging_and_repairs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    driver = Driver(tmp_path / "committer", str(tmp_path / "tables"))
    table, checkpoint = f"{driver.location}/readings", tmp_path / "checkpoint"
    slow: dict[str, Any] = {"time_quality": "unsynchronised", "clock_offset": 5 - 10**9, "times": [DAY_US - 10**9] * 2}
    with driver.begin() as tables:
        tables.commit(list(write(tables.target, [messages(range(2), **slow)])), {"node": [2]}, reworked)
    seen = _followed(spark, table, checkpoint)
    for until in (4, 6, 8, 10):  # the clock becomes known: times are repaired; and small files are merged
        driver.run(until)
    seen += _followed(spark, table, checkpoint)
    driver.run(12)
    seen += _followed(spark, table, checkpoint)
    assert Counter(seen) == Counter((number + 1, index) for number in range(12) for index in (0, 1))
    assert _followed(spark, table, checkpoint) == []
    now = spark.read.format("covey_tables").load(table)
    assert now.count() == 24
    assert {row.time_quality for row in now.select("time_quality").distinct().collect()} == {"rebased", "synchronised"}


def test_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    driver = Driver(tmp_path / "committer", str(tmp_path / "tables"))
    driver.run(2)
    document = (ROOT / "docs" / "how-to" / "readers.md").read_text(encoding="utf-8")
    [example] = [part for part in re.findall(r"```python\n(.*?)```", document, re.DOTALL) if "spark_session" in part]
    example = example.replace("/srv/tables", driver.location).replace("/srv/follower", f"file://{tmp_path}/follower")
    names: dict[str, Any] = {}
    exec(compile(example, "readers.md", "exec"), names)
    try:
        names["query"].processAllAvailable()
        assert names["query"].lastProgress.numInputRows == 4
    finally:
        names["query"].stop()
