"""Spark reads the tables, and follows them, without jars: as docs/how-to/readers.md shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from covey_ingest.committer import delta_log
from covey_ingest.task.writing import write
from tests.failing_s3 import FailingS3
from tests.meta.source_tree import ROOT
from tests.tables_driver import DAY_US, URL, Driver, asked_once, messages, reworked
from tests.waiting import GUARD_S

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


def _example() -> str:
    document = (ROOT / "docs" / "how-to" / "readers.md").read_text(encoding="utf-8")
    parts: list[str] = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    [example] = [part for part in parts if "spark_session" in part]
    return example


def test_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    driver = Driver(tmp_path / "committer", str(tmp_path / "tables"))
    driver.run(2)
    example = _example().replace("/srv/tables", driver.location).replace("/srv/follower", f"file://{tmp_path}/follower")
    names: dict[str, Any] = {}
    exec(compile(example, "readers.md", "exec"), names)
    try:
        names["query"].processAllAvailable()
        assert names["query"].lastProgress.numInputRows == 4
    finally:
        names["query"].stop()


@pytest.mark.slow
@pytest.mark.processes
def test_the_page_runs_for_tables_in_a_store(tmp_path: Path) -> None:
    """In a session of its own, that knows the store from its environment, as its workers do."""
    with FailingS3().running() as store:
        with pytest.MonkeyPatch.context() as patched:
            asked_once(store, patched)
            Driver(tmp_path / "committer").run(2)
        example = _example().replace("/srv/tables", URL).replace("/srv/follower", f"file://{tmp_path}/follower")
        example += "query.processAllAvailable()\nprint(query.lastProgress.numInputRows, 'rows')\nquery.stop()\n"
        done = subprocess.run(
            [sys.executable, "-c", example],
            env=os.environ | store.environment | {"PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "0.5" in done.stdout, "two messages of values 0 and 1"
        assert "4 rows" in done.stdout
