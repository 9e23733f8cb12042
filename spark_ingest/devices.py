"""The `devices` table: one row for each device that has ever sent a reading.

A small file, replaced whole after each micro-batch, rather than aggregates to merge at every read: anything that
reads Parquet reads it, and its size depends on the number of devices alone (about 150 bytes each).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's documentation has it

from spark_ingest import gaps
from spark_ingest.schema import TIMESTAMP
from spark_ingest.session import spark_path
from spark_ingest.state_file import read_state, replace_state

BOOTS_REMEMBERED = 32
"""Boots of a device that are told apart from new ones when late data arrives."""

SCHEMA = pa.schema(
    [
        ("author", pa.string()),
        ("device", pa.string()),
        ("first_seen", TIMESTAMP),  # arrivals at the collector
        ("last_seen", TIMESTAMP),
        ("last_time", TIMESTAMP),  # the newest reading's time
        ("lag_seconds", pa.float64()),  # of the newest arrival: from its last reading to the collector
        ("incarnation", pa.string()),
        ("last_seq", pa.int64()),
        ("time_quality", pa.string()),
        ("boots", pa.int64()),
        ("boot_ids", pa.list_(pa.string())),
        ("messages", pa.int64()),
        ("readings", pa.int64()),
        ("collector", pa.string()),
    ]
)
_LATEST = ("incarnation", "last_seq", "time_quality", "collector", "lag_seconds")


def path_in(tables: Path) -> Path:
    """Return where the table lies."""
    return tables / "devices" / "devices.parquet"


def update(spark: SparkSession, tables: Path, readings: Path, batch_id: int) -> None:
    """Take a committed batch of readings into the table; does nothing if it is in there already."""
    path = path_in(tables)
    before, last = read_state(path, SCHEMA)
    if last < batch_id:
        known = before.drop_columns(["open_gaps"]) if "open_gaps" in before.column_names else before
        merged = merge(known, _summary(spark, readings))
        replace_state(path, _with_open_gaps(merged, gaps.open_gaps(tables)), batch_id)


def _with_open_gaps(devices: pa.Table, lacking: pa.Table) -> pa.Table:
    places = pc.index_in(devices["author"], value_set=lacking["author"].combine_chunks())
    counts = pc.fill_null(lacking["numbers_sum"].combine_chunks().take(places.combine_chunks()), 0)
    return devices.append_column("open_gaps", counts)


def _summary(spark: SparkSession, readings: Path) -> pa.Table:
    """Summarise one batch: partial aggregates in the scan, then a shuffle of one row for each device."""
    latest = F.struct(
        "incarnation",
        F.col("seq").alias("last_seq"),
        "time_quality",
        "collector",
        ((F.unix_micros("received_at") - F.unix_micros("time")) / 1e6).alias("lag_seconds"),
    )
    return (
        spark.read.parquet(spark_path(readings))
        .groupBy("author")
        .agg(
            F.min("received_at").alias("first_seen"),
            F.max("received_at").alias("last_seen"),
            F.max("time").alias("last_time"),
            F.max_by(latest, F.struct("received_at", "seq", "time")).alias("latest"),
            F.array_sort(F.collect_set("boot")).alias("boot_ids"),
            F.count_if(F.col("index") == 0).alias("messages"),
            F.count("*").alias("readings"),
        )
        .select("*", "latest.*")
        .drop("latest")
        .toArrow()
    )


def merge(before: pa.Table, batch: pa.Table) -> pa.Table:
    """Return the table after a batch; devices that the batch does not name are carried over untouched."""
    named = pc.is_in(before["author"], value_set=batch["author"].combine_chunks())
    known = {row["author"]: row for row in before.filter(named).to_pylist()}
    merged = [_merge_device(known.get(row["author"]), row) for row in batch.to_pylist()]
    table = pa.concat_tables([before.filter(pc.invert(named)), pa.Table.from_pylist(merged, SCHEMA)])
    return table.sort_by("author").combine_chunks()


def _merge_device(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    if old is None:
        return new | {"device": new["author"][:8], "boots": len(new["boot_ids"])}
    fresh = [boot for boot in new["boot_ids"] if boot not in old["boot_ids"]]
    latest = max(old, new, key=lambda row: (row["last_seen"], row["last_seq"]))
    return (
        old
        | {name: latest[name] for name in _LATEST}
        | {
            "first_seen": min(old["first_seen"], new["first_seen"]),
            "last_seen": max(old["last_seen"], new["last_seen"]),
            "last_time": max(old["last_time"], new["last_time"]),
            "boots": old["boots"] + len(fresh),
            "boot_ids": (old["boot_ids"] + fresh)[-BOOTS_REMEMBERED:],
            "messages": old["messages"] + new["messages"],
            "readings": old["readings"] + new["readings"],
        }
    )
