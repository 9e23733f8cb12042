"""Is each reading in the table, once? Counted from the `readings` table alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's documentation has it

from covey_ingest.session import spark_path
from covey_ingest.table_files import table_files


@dataclass(frozen=True, slots=True)
class DeviceAudit:
    """What the table holds of one device."""

    author: str
    rows: int
    distinct: int
    """Different (incarnation, seq, index)."""
    missing: int
    """Readings that are not there although a later one of the same message is."""
    messages: int
    sequences: tuple[tuple[str, int, int], ...]
    """Runs of `seq` without a hole: (incarnation, first, last)."""
    latency_p50_s: float
    """From the reading's time to its arrival at the collector."""
    latency_p99_s: float

    @property
    def duplicates(self) -> int:
        """Rows that say again what another row says."""
        return self.rows - self.distinct


def audit(spark: SparkSession, tables: Path) -> list[DeviceAudit]:
    """Audit every device in the tables, ordered by author. Shuffles the readings once: for tests and reports."""
    files = table_files(tables.absolute(), "readings")
    if not files:
        return []
    readings = spark.read.parquet(*map(spark_path, files))
    messages = (
        readings.groupBy("author", "incarnation", "seq")
        .agg(
            F.count("*").alias("rows"),
            F.count_distinct("index").alias("distinct"),
            (F.max("index") + 1).alias("expected"),
        )
        .cache()
    )
    latency = (F.unix_micros("received_at") - F.unix_micros("time")) / 1e6
    latencies = readings.groupBy("author").agg(F.percentile_approx(latency, [0.5, 0.99], 1000).alias("latency"))
    try:
        runs = _runs(messages)
        counts = (
            messages.groupBy("author")
            .agg(
                F.sum("rows").alias("rows"),
                F.sum("distinct").alias("distinct"),
                F.sum(F.col("expected") - F.col("distinct")).alias("missing"),
                F.count("*").alias("messages"),
            )
            .join(latencies, "author")
            .orderBy("author")
            .collect()
        )
    finally:
        messages.unpersist()
    return [
        DeviceAudit(
            row.author,
            row.rows,
            row.distinct,
            row.missing,
            row.messages,
            tuple(runs[row.author]),
            *row.latency,
        )
        for row in counts
    ]


def _runs(messages: DataFrame) -> dict[str, list[tuple[str, int, int]]]:
    """Find runs of consecutive sequences: within one, a sequence minus its rank stays the same."""
    rank = F.row_number().over(Window.partitionBy("author", "incarnation").orderBy("seq"))
    rows = (
        messages.withColumn("island", F.col("seq") - rank)
        .groupBy("author", "incarnation", "island")
        .agg(F.min("seq").alias("first"), F.max("seq").alias("last"))
        .orderBy("author", "incarnation", "first")
        .collect()
    )
    runs: dict[str, list[tuple[str, int, int]]] = {}
    for row in rows:
        runs.setdefault(row.author, []).append((row.incarnation, row["first"], row["last"]))
    return runs
