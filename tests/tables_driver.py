"""An endless made-up vault, and an engine that fills tables from it, in this process: for the tests of `Tables`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from covey.adapters.objects import cloud
from covey.core.ids import VaultId
from covey_ingest.committer import table_locations
from covey_ingest.committer.table_locations import location_at
from covey_ingest.committer.tables import Tables
from covey_ingest.task.schema import MESSAGE_SCHEMA
from covey_ingest.task.writing import Rework, Written, rework, write
from tests.failing_s3 import FailingS3, Stored

DAY_US = 1_800_000_000_000_000
URL = "s3://bucket/tables"
VAULT = VaultId(bytes(16))
READINGS_EACH = 2


@dataclass
class Driver:
    """Takes so many messages of the vault as a micro-batch, from where the tables stand."""

    folder: Path
    """Of the committer; begun anew at each start."""
    location: str = URL
    starts: int = 0
    sizes: list[int] = field(default_factory=lambda: [2])
    authors: tuple[str, ...] = ("a" * 64,)
    """Each of them sends each of the messages. Somebody else sends a loss record for each."""

    def run(self, until: int) -> None:
        """Begin anew on an empty disk and go on to a message; what is in the way is raised."""
        with self.begin() as tables:
            while (at := tables.offset.get("node", [0])[0]) < until:
                # A second try takes more of the vault than the first one: it has grown meanwhile.
                upto = min(at + self.sizes[self.starts % len(self.sizes)], until)
                tables.commit(self.put(tables, range(at, upto)), {"node": [upto]}, reworked)

    def begin(self) -> Tables:
        """Begin a run on an empty disk."""
        self.starts += 1
        shutil.rmtree(self.folder, ignore_errors=True)
        return Tables(location_at(self.location), self.folder, [VAULT])

    def put(self, tables: Tables, numbers: range) -> list[Written]:
        """Do what tasks do."""
        batches = [messages(numbers, author=author, losses=author == self.authors[0]) for author in self.authors]
        return list(write(tables.target, batches))


def reworked(jobs: list[Rework]) -> list[Written]:
    """Write files again, in this process."""
    return [written for job in jobs for written in rework(job)]


def messages(numbers: range, *, author: str = "a" * 64, losses: bool = True, **changed: Any) -> pa.RecordBatch:
    """Return a message of two readings for each number, and a loss record, as the source has them."""
    rows = [_row(number, author, changed) for number in numbers]
    rows += [_loss(number) for number in numbers] if losses else []
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


_LISTS: dict[str, list[Any]] = {field.name: [] for field in MESSAGE_SCHEMA if pa.types.is_list(field.type)}


def _row(number: int, author: str, changed: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "telemetry", "author": author, "seq": number + 1, "batch_number": number + 1}
    row |= dict.fromkeys(("vault", "collector", "node", "incarnation", "boot"), "x")
    row |= {"clock_offset": 5, "time_quality": "synchronised", "received_at": DAY_US + number}
    row |= {"booleans_from": 0, "booleans_until": 0, "names": ["x"], "units": ["x"], "series": [0, 0]}
    row |= {"times": [DAY_US + number] * 2, "values": [float(number)] * 2}
    return _LISTS | row | changed


def _loss(number: int) -> dict[str, Any]:
    row = {"kind": "loss", "reason": "x", "seq": number, "received_at": DAY_US}
    row |= dict.fromkeys(("vault", "collector", "node", "author", "incarnation"), "x")
    return _LISTS | row | {"booleans_from": 0, "booleans_until": 0, "first_number": number, "last_number": number}


def asked_once(store: FailingS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process know the store, and ask nothing of it twice."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cloud, "_RETRIES_MAX", 0)
    once = {"timeout": "5s", "connect_timeout": "5s", "max_retries": "0", "retry_timeout": "1s"}
    monkeypatch.setattr(table_locations, "_LIBRARY", once)
    table_locations.open_location.cache_clear()


def distinct_moments(store: FailingS3) -> list[dict[str, Stored]]:
    """Return what the store was like after each of its changes, and forget it.

    Left out are those after which there is one more file of rows that no log names: nobody asks for it, and it is
    looked for by its age alone.
    """
    moments, store.moments, before = store.moments, [], set[str]()
    distinct = []
    for moment in moments:
        new = {*moment} - before
        if not new or not all(key.endswith(".parquet") and ".checkpoint." not in key for key in new):
            distinct.append(moment)
        before = {*moment}
    return distinct
