"""Readings of a made-up vault for tables in an object store, and the store."""

from __future__ import annotations

import pyarrow as pa
import pytest

from covey.adapters.objects import cloud
from covey_ingest import gaps, table_locations
from covey_ingest.schema import TIMESTAMP
from tests.failing_s3 import FailingS3

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


def asked_once(store: FailingS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process know the store, and ask nothing of it twice."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cloud, "_RETRIES_MAX", 0)
    once = {"timeout": "5s", "connect_timeout": "5s", "max_retries": "0", "retry_timeout": "1s"}
    monkeypatch.setattr(table_locations, "_LIBRARY", once)


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
