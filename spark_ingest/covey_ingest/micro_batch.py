"""A micro-batch's rows, table by table, and what is to be known of it before it is committed. All of it is Spark's.

No readings are shuffled but those of messages that a micro-batch holds twice (`once`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's documentation has it

from covey.errors import TransientError
from covey_ingest import clocks, deletions, memberships, seen_orders
from covey_ingest.dedup import MessageKey, Repeats
from covey_ingest.messages import MESSAGE
from covey_ingest.orders import KEYS
from covey_ingest.schema import MESSAGE_SCHEMA, RowKind
from covey_ingest.seen_orders import EXCESS, Excess

_READINGS = """
    SELECT author, device, get(names, series) AS name, get(units, series) AS unit, time,
           IF(truth, NULL, number) AS value, NULLIF(get(wholes, index), 0) AS whole,
           IF(truth, number != 0, NULL) AS flag,
           get(texts, index - size(values)) AS text, get(data, index - size(values) - size(texts)) AS data,
           time_quality, clock_offset, incarnation, seq, index, batch_number, boot, collector, vault, received_at,
           `group`
    FROM (SELECT *, get(series_of, index) AS series, get(values, index) AS number,
                 index >= booleans_from AND index < booleans_until AS truth
          FROM (SELECT * EXCEPT (series), series AS series_of, posexplode(times) AS (index, time)
                FROM (SELECT *, substr(author, 1, 8) AS device FROM {messages})))
"""

_LOSSES = [
    *("author", "incarnation", "first", "last", "first_number", "last_number"),
    *("reason", "seq", "collector", "vault", "received_at"),
]
_QUARANTINE = [
    *("reason", "detail", "collector", "vault", "node", "segment", "record"),
    *("author", "incarnation", "seq", "received_at"),
]
_SPAN = {"first": "first_segment", "last": "last_segment"}
"""Of `quarantine`: the positions, where a whole segment failed or was repaired."""
NO_LISTS = [column.name for column in MESSAGE_SCHEMA if not pa.types.is_list(column.type)]
DIGEST = "digest"


def readings(messages: DataFrame) -> DataFrame:
    """Explode the source's message rows: one row for each reading, in the JVM. Key: `dedup.MESSAGE` and index."""
    return messages.sparkSession.sql(_READINGS, messages=messages)


def losses(messages: DataFrame) -> DataFrame:
    """Return the loss records among the source's rows."""
    return messages.where(F.col("kind") == RowKind.LOSS.value).select(*_LOSSES)


def quarantine(messages: DataFrame) -> DataFrame:
    """Return what failed among the source's rows, and what was repaired."""
    kinds = F.col("kind").isin(RowKind.QUARANTINE.value, RowKind.REPAIRED.value)
    return messages.where(kinds).select(*_QUARANTINE, *(F.col(name).alias(alias) for name, alias in _SPAN.items()))


_ORDERS = (RowKind.ORDER.value, RowKind.RESULT.value, RowKind.SETTING.value)
_ORDERED = ["group", "author", "ordered.*", "collector", "vault", "received_at"]
_REPORT = ["group", "author", "collector", "vault", "received_at"]
_OF_COMMANDS = [
    *("operation", "state", "code", "why", "exit", "output", "cut"),
    *("taken_at", "started_at", "ended_at", "synchronised", "reported_at"),
]
_OF_SETTINGS = ["operation", "key", "state", "value", "code", "why", "reported_at"]


def orders(messages: DataFrame) -> DataFrame:
    """Return what was ordered among the source's rows."""
    return messages.where(F.col("kind") == RowKind.ORDER.value).select(*_ORDERED)


def commands(messages: DataFrame) -> DataFrame:
    """Return what has become of commands among the source's rows."""
    found = messages.where(F.col("kind") == RowKind.RESULT.value)
    return found.select(*_REPORT, *(f"reported.{name}" for name in _OF_COMMANDS))


def settings(messages: DataFrame) -> DataFrame:
    """Return what has become of settings among the source's rows."""
    found = messages.where(F.col("kind") == RowKind.SETTING.value)
    return found.select(*_REPORT, *(f"reported.{name}" for name in _OF_SETTINGS))


def admitted(messages: DataFrame, root: Path) -> DataFrame:
    """Leave out what was deleted from the tables at `root`: it does not come back (`deletions`)."""
    refused = deletions.read(root).refused()
    return messages if refused is None else messages.where(f"NOT ({refused})")


def others(messages: DataFrame) -> DataFrame:
    """Return what is no reading among the source's rows."""
    return messages.where(F.col("kind") != RowKind.TELEMETRY.value).select(*NO_LISTS)


def once(rows: DataFrame, found: Repeats) -> DataFrame:
    """Return readings without those that are there already; of messages that came twice, the one that came first."""
    known, doubled = (F.broadcast(_keyed(rows, keys)) for keys in (found.known, found.doubled))
    singles = rows.join(known, MESSAGE, "left_anti").join(doubled, MESSAGE, "left_anti")
    copies = Window.partitionBy(*MESSAGE, "index").orderBy("received_at", "collector", "vault")
    first = rows.join(doubled, MESSAGE, "left_semi").withColumn("copy", F.row_number().over(copies))
    return singles.unionByName(first.where("copy = 1").drop("copy"))


def rebased(rows: DataFrame, known: pa.Table) -> DataFrame:
    """Return readings with better times where their boot's clock is known by now (`clocks.known_for`)."""
    joined = rows.join(F.broadcast(rows.sparkSession.createDataFrame(known)), clocks.BOOT, "left")
    return joined.selectExpr(*(f"{clocks.REBASED.get(name, f'`{name}`')} AS `{name}`" for name in rows.columns))


def by_table(staged: DataFrame, seen_orders_of: Path | None, newest: int) -> tuple[dict[str, DataFrame], int]:
    """Return the rows that each table takes of what is no reading, and how many rows of quarantine tell of excess.

    `seen_orders_of` names the tables that remember orders, up to the micro-batch `newest`; None where there are none.
    """
    found = {table: of(staged) for table, of in OTHERS.items()}
    excess: list[Excess] = []
    if seen_orders_of is not None:
        for table in KEYS:
            found[table], left_out = _first(found[table], table, seen_orders_of, newest)
            excess += left_out
    if excess:
        found["quarantine"] = found["quarantine"].unionByName(_reported(staged, excess), allowMissingColumns=True)
    return found, len(excess)


def _first(rows: DataFrame, table: str, root: Path, newest: int) -> tuple[DataFrame, list[Excess]]:
    """Return the rows that the table takes: those that it lacks, and not too many of one author; then the others.

    Of rows that say the same, it is the one that came first.
    """
    key = list(KEYS[table])
    copies = Window.partitionBy(*key).orderBy("received_at", "collector", "vault", "group")
    first = rows.withColumn("copy", F.row_number().over(copies)).where("copy = 1").drop("copy")
    asked = first.select(*seen_orders.columns(table)).orderBy("received_at", *key).toArrow()
    sifted = seen_orders.sift(root, table, asked, newest)
    if not sifted.dropped:
        return first, []
    dropped = rows.sparkSession.createDataFrame(asked.take(sifted.dropped).select(key))
    return first.join(F.broadcast(dropped), key, "left_anti"), sifted.excess


def said_of_groups(messages: DataFrame) -> DataFrame:
    """Return what manifests and profiles say among the source's rows."""
    found = messages.where(F.col("kind") == RowKind.MEMBERSHIP.value)
    return found.select("group", "author", "membership.*", "collector", "vault", "received_at")


OTHERS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "losses": losses,
    "quarantine": quarantine,
    "orders": orders,
    "commands": commands,
    "settings": settings,
    memberships.TABLE: said_of_groups,
}


def counted_rows(messages: DataFrame) -> tuple[DataFrame, Observation]:
    """Return the rows, and what is known once they have been read: counts, and a digest of what failed."""
    counts, kind = Observation(), F.col("kind")
    return messages.observe(
        counts,
        F.count_if(kind == RowKind.TELEMETRY.value).alias("messages"),
        F.coalesce(F.sum(F.size("times")), F.lit(0)).alias("readings"),
        F.count_if(kind == RowKind.LOSS.value).alias("losses"),
        F.count_if(kind.isin(*_ORDERS)).alias("orders"),
        F.count_if(kind == RowKind.MEMBERSHIP.value).alias("memberships"),
        F.count_if(kind == RowKind.QUARANTINE.value).alias("quarantined"),
        F.count_if(kind == RowKind.REPAIRED.value).alias("repaired"),
        F.count_if(F.col("reason").isin("signature", "decryption")).alias("unverified"),
        F.max(F.unix_micros("received_at")).alias("newest_us"),
        F.bit_xor(F.xxhash64("kind", "reason", "node", "segment", "record", "author", "seq")).alias(DIGEST),
    ), counts


def changed_meanwhile() -> TransientError:
    """Return the error for a micro-batch that did not read the same twice."""
    return TransientError(
        "the vault changed while a micro-batch was read: a segment failed one time, and not the other",
        hint="start again: nothing of it was committed",
    )


def _reported(rows: DataFrame, excess: list[Excess]) -> DataFrame:
    """Return rows of `quarantine` that tell what was left out, and of whom."""
    columns = "reason string, detail string, author string, received_at timestamp"
    reported = [
        (
            EXCESS,
            f"{each.table}: {each.rows} left out, beyond {seen_orders.ROWS_A_DAY[each.table]} of one author and day",
            each.author,
            datetime.fromtimestamp(each.latest_us / 1e6, UTC),
        )
        for each in excess
    ]
    return rows.sparkSession.createDataFrame(reported, columns)


def _keyed(rows: DataFrame, keys: list[MessageKey]) -> DataFrame:
    columns = "author string, incarnation string, seq bigint, boot string, batch_number bigint"
    return rows.sparkSession.createDataFrame(keys, columns)


@dataclass(frozen=True, slots=True)
class BatchWritten:
    """What one micro-batch brought; zeros where it had been committed by an earlier run."""

    batch_id: int
    messages: int = 0
    readings: int = 0
    losses: int = 0
    orders: int = 0
    """Of orders, and of what devices report of them, repeats included."""
    memberships: int = 0
    """Members that signed manifests list, and profiles of groups."""
    quarantined: int = 0
    repaired: int = 0
    """Segments that an earlier micro-batch had to pass over."""
    repeats: int = 0
    """Messages left out of `readings`, since they are in there already."""
    unverified: int = 0
    """What is quarantined since a signature or a seal does not hold."""
    newest_us: int | None = None
    """The newest arrival at a collector."""
    bytes: int = 0
    """Of the files of `readings`."""

    @property
    def has_others(self) -> bool:
        """Say whether there is anything beside readings."""
        return any((self.losses, self.orders, self.memberships, self.quarantined, self.repaired))
