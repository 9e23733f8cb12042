"""Readings of a made-up vault for tables in an object store, and the store."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from covey.adapters.objects import cloud
from covey.core.ids import VaultId
from covey_ingest import gaps, table_locations
from covey_ingest.placing import Placed, place
from covey_ingest.schema import TIMESTAMP
from covey_ingest.store_tables import StoreTables
from tests.failing_s3 import FailingS3, Stored

DAY_US = 1_800_000_000_000_000
_TEXTS = ("author", "device", "name", "unit", "text", "time_quality", "incarnation", "boot", "collector")
READINGS = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        *(("value", pa.float64()), ("index", pa.int32()), ("time", TIMESTAMP), ("received_at", TIMESTAMP)),
        *((name, pa.int64()) for name in ("seq", "batch_number", "clock_offset")),
    ]
)
LOSSES = gaps.LOSSES.append(pa.field("seq", pa.int64()))
URL = "s3://bucket/tables"
VAULT = VaultId(bytes(16))
SCHEMAS = {"readings": READINGS, "losses": LOSSES}


@dataclass
class Driver:
    """What stands for Spark: takes so many messages of an endless vault as a micro-batch, from where the tables are."""

    folder: Path
    starts: int = 0
    sizes: list[int] = field(default_factory=lambda: [2])
    authors: tuple[str, ...] = ("a" * 64,)
    """Each of them sends each of the messages."""

    def run(self, until: int) -> None:
        """Begin anew on an empty disk and go on to a message; what is in the way is raised."""
        self.starts += 1
        shutil.rmtree(self.folder, ignore_errors=True)
        with StoreTables(URL, self.folder, [VAULT], SCHEMAS) as tables:
            while (at := tables.offset.get("node", [0])[0]) < until:
                # A second try takes more of the vault than the first one: it has grown meanwhile.
                upto = min(at + self.sizes[self.starts % len(self.sizes)], until)
                placed = self.put(tables, range(at, upto))
                tables.commit(placed, {"losses": losses(range(at, upto))}, {"node": [upto]})

    def put(self, tables: StoreTables, messages: range) -> list[Placed]:
        """Do what executors do."""
        batches = [readings(messages, author=author) for author in self.authors]
        return list(place(tables.bucket.store, tables.done + 1, batches))


def asked_once(store: FailingS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process know the store, and ask nothing of it twice."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cloud, "_RETRIES_MAX", 0)
    once = {"timeout": "5s", "connect_timeout": "5s", "max_retries": "0", "retry_timeout": "1s"}
    monkeypatch.setattr(table_locations, "_LIBRARY", once)


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


def readings(messages: range, *, author: str = "a" * 64) -> pa.RecordBatch:
    """Return two readings of each message, as executors have them."""
    rows = [
        {
            **dict.fromkeys(_TEXTS, "x"),
            "author": author,
            "device": author[:8],
            "text": None,
            "value": float(number),
            "index": index,
            "seq": number + 1,
            "batch_number": number + 1,
            "clock_offset": 5,
            "time_quality": "synchronised",
            "time": DAY_US + number,
            "received_at": DAY_US + number,
        }
        for number in messages
        for index in (0, 1)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=READINGS)


def losses(numbers: range) -> pa.Table:
    """Return a loss for each number."""
    rows = [
        {**dict.fromkeys(("author", "incarnation", "collector", "reason"), "x"), "first_number": n, "last_number": n}
        | {"received_at": DAY_US, "seq": n}
        for n in numbers
    ]
    return pa.Table.from_pylist(rows, schema=LOSSES)
