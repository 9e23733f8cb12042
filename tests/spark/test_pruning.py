"""Spark asks for some columns and some of the time: what comes is right, and what is not asked for is not read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from covey_ingest.spark.source import FORMAT, readings
from tests.spark.fleet import NOW_US, Author, Collector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECOND_US = 1_000_000
SINCE = "2027-01-15T08:00:02Z"
"""Two seconds after NOW_US."""


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """A vault of four segments, a second apart, each with two messages of three readings and a loss."""
    collector = Collector(tmp_path_factory.mktemp("pruning") / "vault")
    one, two = Author(collector, 1), Author(collector, 2)
    for second in range(4):
        messages = one.measure(3), two.measure(3), one.loss(second + 1, second + 1)
        collector.land(*messages, received_at_us=NOW_US + second * SECOND_US)
    return collector


def _load(spark: SparkSession, collector: Collector, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format(FORMAT).option("keyFile", str(collector.key_file)).options(**options)
    return (reader.schema(schema) if schema else reader).load(str(collector.vault))


def test_a_schema_names_the_columns(spark: SparkSession, collector: Collector, tmp_path: Path) -> None:
    schema = "seq bigint, author string, received_at timestamp"
    narrow, full = _load(spark, collector, schema), _load(spark, collector)
    assert narrow.columns == ["seq", "author", "received_at"]
    assert sorted(narrow.collect()) == sorted(full.select(*narrow.columns).collect())
    assert _load(spark, collector, "times array<timestamp>").selectExpr("sum(size(times))").collect()[0][0] == 24
    stream = spark.readStream.format(FORMAT).schema("kind string, node string")
    rows = stream.option("keyFile", str(collector.key_file)).load(str(collector.vault))
    query = (
        rows.writeStream.format("memory")
        .queryName("narrow")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(spark.table("narrow").groupBy("kind").count().collect()) == [("loss", 4), ("telemetry", 8)]
    with pytest.raises(PySparkException, match="column seq cannot be string"):
        _load(spark, collector, "seq string").collect()


def test_a_view_of_the_readings_opens_no_segment_from_before_the_time_asked_for(
    spark: SparkSession, collector: Collector
) -> None:
    recent = _load(spark, collector, receivedSince=SINCE, nodes=collector.identity.signing_public.hex())
    expected = readings(_load(spark, collector)).where(f"received_at >= '{SINCE}'").collect()
    assert len(expected) == 2 * 2 * 3
    assert collector.manifest is not None
    older = [collector.segment_path(entry) for entry in collector.manifest.segments[:2]]
    for path in older:
        path.rename(path.with_suffix(".away"))
    try:
        assert sorted(readings(recent).collect()) == sorted(expected)
        assert recent.where("kind = 'quarantine'").isEmpty()
    finally:
        for path in older:
            path.with_suffix(".away").rename(path)


def test_no_query_takes_rows_from_another_by_its_filters(spark: SparkSession, collector: Collector) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")  # where a source that pushes filters loses rows
    try:
        rows = _load(spark, collector)
        before, after = rows.where(f"received_at < '{SINCE}'"), rows.where(f"received_at >= '{SINCE}'")
        assert [each.count() for each in (before, after, rows, before.union(after))] == [6, 6, 12, 12]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
