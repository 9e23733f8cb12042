"""Is each reading in the table, once? Counted without Spark: by pyarrow, from the files of the `readings` table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from covey_ingest.table_files import table_files

_MESSAGE = ["author", "incarnation", "seq"]
_READING = [*_MESSAGE, "index"]
_MICROSECONDS = 1e6

Sequences = tuple[tuple[str, int, int], ...]
"""Runs of `seq` without a hole: (incarnation, first, last)."""


@dataclass(frozen=True, slots=True)
class Tally:
    """One device's readings: how many different ones, and how many rows say again what another row says."""

    distinct: int
    doubled: int

    @property
    def rows(self) -> int:
        """All of them."""
        return self.distinct + self.doubled


@dataclass(frozen=True, slots=True)
class DeviceAudit:
    """What the table holds of one device."""

    tally: Tally
    missing: int
    """Readings that are not there although a later one of the same message is."""
    messages: int
    sequences: Sequences
    latency_p50_s: float
    """From the reading's time to its arrival at the collector."""
    latency_p99_s: float


def tally(tables: Path) -> dict[str, Tally]:
    """Count each device's readings, by author."""
    return {author: found.tally for author, found in audit(tables).items()}


def audit(tables: Path) -> dict[str, DeviceAudit]:
    """Audit each device in the tables, by author. Needs some 200 bytes of memory for each reading."""
    files = table_files(tables, "readings")
    if not files:
        return {}
    readings = pa.concat_tables(
        pq.read_table(file, columns=[*_READING, "time", "received_at"], partitioning=None) for file in files
    )
    distinct = readings.group_by(_READING).aggregate([([], "count_all")])
    messages = (
        distinct.group_by(_MESSAGE)
        .aggregate([("count_all", "sum"), ([], "count_all"), ("index", "max")])
        .rename_columns([*_MESSAGE, "rows", "distinct", "last"])
    )
    counts = messages.group_by("author").aggregate(
        [("rows", "sum"), ("distinct", "sum"), ("last", "sum"), ([], "count_all")]
    )
    latencies, sequences = _latencies(readings), _sequences(messages)
    return {
        row["author"]: DeviceAudit(
            Tally(row["distinct_sum"], row["rows_sum"] - row["distinct_sum"]),
            row["last_sum"] + row["count_all"] - row["distinct_sum"],
            row["count_all"],
            tuple(sequences[row["author"]]),
            *latencies[row["author"]],
        )
        for row in counts.to_pylist()
    }


def _latencies(readings: pa.Table) -> dict[str, tuple[float, float]]:
    """Return each device's median and 99th percentile in seconds, as near as a t-digest tells them."""
    came, taken = (readings[name].cast(pa.int64()) for name in ("received_at", "time"))
    latency = pc.divide(pc.subtract(came, taken).cast(pa.float64()), _MICROSECONDS)
    digest = ("latency", "tdigest", pc.TDigestOptions(q=[0.5, 0.99]))
    found = pa.table([readings["author"], latency], ["author", "latency"]).group_by("author").aggregate([digest])
    return {row["author"]: tuple(row["latency_tdigest"]) for row in found.to_pylist()}


def _sequences(messages: pa.Table) -> dict[str, list[tuple[str, int, int]]]:
    """Find each device's runs."""
    runs: dict[str, list[tuple[str, int, int]]] = {}
    ordered = messages.select(_MESSAGE).sort_by([(name, "ascending") for name in _MESSAGE])
    for author, incarnation, seq in zip(*(column.to_pylist() for column in ordered.columns), strict=True):
        found = runs.setdefault(author, [])
        if found and found[-1][0] == incarnation and found[-1][2] + 1 == seq:
            found[-1] = (incarnation, found[-1][1], seq)
        else:
            found.append((incarnation, seq, seq))
    return runs
