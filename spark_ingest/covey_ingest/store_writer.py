"""A micro-batch of tables in an object store: what executors put, and what the driver has to commit. All of it Spark's.

1. Nothing here is committed. Whatever fails, the micro-batch is made again, and what was put is an orphan (`placing`).
2. Repeats, and times that are known better by now, are rare: then what was put is read back, put once more as it
   should be, and removed.
3. What is no reading is read from the vault a second time, and comes to the driver. Both times must bring the same
   (rule 4 of `tables`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from covey_ingest import clocks, dedup
from covey_ingest.messages import MESSAGES
from covey_ingest.micro_batch import (
    DIGEST,
    OTHERS,
    BatchWritten,
    admitted,
    by_table,
    changed_meanwhile,
    counted_rows,
    once,
    others,
    readings,
    rebased,
)
from covey_ingest.placing import PLACED_SQL, Placed, fetcher, placer
from covey_ingest.schema import MESSAGE_SCHEMA
from covey_ingest.store_tables import StoreTables


@dataclass(frozen=True, slots=True)
class Prepared:
    """A micro-batch that waits for its commit."""

    written: BatchWritten
    placed: list[Placed]
    others: dict[str, pa.Table]


def schemas(spark: SparkSession) -> dict[str, pa.Schema]:
    """Return the schemas of `readings` and of what is no reading. Asks no executor."""
    nothing = spark.createDataFrame([], from_arrow_schema(MESSAGE_SCHEMA))
    found = {"readings": readings(nothing), **{table: of(nothing) for table, of in OTHERS.items()}}
    return {table: rows.limit(0).toArrow().schema for table, rows in found.items()}


def prepare(tables: StoreTables, messages: DataFrame) -> Prepared:
    """Put the readings of the next micro-batch, and fetch what is no reading.

    Raises:
        TransientError: the vault changed meanwhile (rule 3).
        StorageError: the store refused, or was not reached.
    """
    number = tables.done + 1
    messages = admitted(messages, tables.root)
    counted, counts = counted_rows(messages)
    rows = readings(counted)
    placed = _put(rows, tables.bucket.url, number)
    seen = counts.get
    written = BatchWritten(number, **{name: count for name, count in seen.items() if name != DIGEST})
    came = pa.concat_tables([MESSAGES.empty_table(), *(each.messages.select(MESSAGES.names) for each in placed)])
    repeats = dedup.find(tables.root, came, tables.done)
    known = clocks.known_for(tables.root, came, tables.done)
    if repeats.copies or len(known):
        better = _fetched(placed, rows, tables.bucket.url)
        better = once(better, repeats) if repeats.copies else better
        better = rebased(better, known) if len(known) else better
        first, placed = placed, _put(better, tables.bucket.url, number)
        tables.forget(first)
    files = [each.files["readings"] for each in placed]
    written = replace(
        written,
        messages=written.messages - repeats.copies,
        readings=sum(file.rows for file in files),
        repeats=repeats.copies,
        bytes=sum(file.size for file in files),
    )
    if not written.has_others:
        return Prepared(written, placed, {})
    found, more = _others(tables, messages, seen)
    return Prepared(replace(written, quarantined=written.quarantined + more), placed, found)


def _put(rows: DataFrame, url: str, number: int) -> list[Placed]:
    cores = rows.sparkSession.sparkContext.defaultParallelism
    return Placed.from_rows(rows.coalesce(cores).mapInArrow(placer(url, number), PLACED_SQL).toArrow())


def _fetched(placed: list[Placed], rows: DataFrame, url: str) -> DataFrame:
    """Return the readings that were put, as executors read them back."""
    keys = [(each.files["readings"].key,) for each in placed]
    named = rows.sparkSession.createDataFrame(keys, "key string").repartition(len(keys))
    return named.mapInArrow(fetcher(url), rows.schema)


def _others(tables: StoreTables, messages: DataFrame, seen: dict[str, object]) -> tuple[dict[str, pa.Table], int]:
    """Return what is no reading by its tables, and how many rows of quarantine there are beside those of the vault."""
    counted, counts = counted_rows(messages)
    fetched = others(counted)
    staged = messages.sparkSession.createDataFrame(fetched.toArrow(), fetched.schema)
    if counts.get != seen:
        raise changed_meanwhile()
    found, more = by_table(staged, tables.root if seen["orders"] else None, tables.done)
    return {table: rows.toArrow() for table, rows in found.items()}, more
