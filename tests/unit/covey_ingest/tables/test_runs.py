"""What a task sums up while it writes is what SQL says of the rows, in whatever batches and order they come."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from covey_ingest.tables import rollups
from covey_ingest.tables.devices import SUMMARY, DeviceSums
from covey_ingest.tables.messages import database
from covey_ingest.task.columns import READINGS
from covey_ingest.task.exploding import stored

_BOARD = f"board/{'5' * 64}/firmware"
_NAMES = ("temperature", "firmware", "state", _BOARD, "board/5/firmware")
_MINUTES = """
    SELECT author, device, name, unit, time // 60_000_000 * 60_000_000 AS minute, count(*) AS readings,
           min(value) AS minimum, max(value) AS maximum, sum(value) AS total,
           arg_max(value, (time, seq, index)) AS last, max(time) AS last_time,
           arg_max(seq, (time, seq, index)) AS last_seq
    FROM given WHERE value IS NOT NULL
    GROUP BY author, device, name, unit, minute
    ORDER BY author, name, unit, minute"""
_SEEN = """
    SELECT author, min(received_at) AS first_seen, max(received_at) AS last_seen, max(time) AS last_time,
           max({'received': received_at, 'seq': seq, 'taken': time, 'incarnation': incarnation,
                'time_quality': time_quality, 'collector': collector}) AS latest,
           list_sort(list(DISTINCT boot)) AS boot_ids, count(*) FILTER ("index" = 0) AS messages, count(*) AS readings,
           max({'received': received_at, 'seq': seq, 'index': "index", 'text': said})
               FILTER (name = 'firmware' AND text IS NOT NULL) AS own
    FROM (SELECT *, substr(text, 1, 200) AS said FROM given)
    GROUP BY author ORDER BY author"""
_BOARDS = """
    SELECT author, max({'received_at': received_at, 'name': name, 'text': text}) AS board
    FROM given WHERE name = $name AND text IS NOT NULL GROUP BY author"""


def _rows(dice: random.Random, count: int) -> pa.Table:
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        author = dice.choice("abc") * 64
        message = {
            "author": author,
            "device": author[:8],
            "incarnation": "1",
            "seq": len(rows),
            "batch_number": len(rows),
            "boot": dice.choice("xyz") * 16,
            "time_quality": "synchronised",
            "collector": dice.choice([None, "c" * 64]),
            "vault": "v",
            "received_at": 10**15 + len(rows) * 1_000_000 + dice.randrange(3_000_000),
        }
        for index in range(dice.randrange(1, 12)):
            name = dice.choice(_NAMES)
            reading = {
                "index": index,
                "name": name,
                "unit": dice.choice(["", "Cel"]),
                "time": 10**15 + dice.randrange(300) * 1_000_000,
                "value": float(dice.randrange(50)) if name == "temperature" else None,
                "text": dice.choice(["x", "y" * 300, None]) if name != "temperature" else None,
            }
            rows.append(message | reading)
    numbers = pa.schema([pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in READINGS])
    return pa.Table.from_pylist(rows, numbers).cast(READINGS)


def _batches(dice: random.Random, table: pa.Table) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = []
    at = 0
    while at < len(table):
        size = dice.randrange(1, 60)
        batches += stored(table.slice(at, size))
        at += size
    return batches


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("held", [1, 262_144])
def test_sums_are_what_sql_says(monkeypatch: pytest.MonkeyPatch, held: int, *, shuffled: bool) -> None:
    monkeypatch.setattr(rollups, "_SUMS_HELD", held)
    dice = random.Random(held + shuffled)
    table = _rows(dice, 600)
    if shuffled:
        table = table.take(dice.sample(range(len(table)), len(table)))
    minutes, summary = rollups.Minutes(), DeviceSums()
    for batch in _batches(dice, table):
        minutes.add(batch)
        summary.add(batch)
    with database(given=table) as known:
        expected = known.sql(_MINUTES).to_arrow_table()
        seen = known.sql(_SEEN).to_arrow_table()
        boards = known.sql(_BOARDS, params={"name": _BOARD}).to_arrow_table()
    assert minutes.table().schema == rollups.SCHEMA
    assert minutes.table().to_pylist() == expected.cast(rollups.SCHEMA).to_pylist()
    found = summary.table().sort_by("author")
    assert found.schema == SUMMARY
    assert found.drop_columns(["boards"]).to_pylist() == seen.to_pylist()
    reported = {row["author"]: row["board"] | {"text": row["board"]["text"][:200]} for row in boards.to_pylist()}
    assert {row["author"]: row["boards"] for row in found.to_pylist()} == {
        author: [reported[author]] if author in reported else [] for author in seen["author"].to_pylist()
    }


def test_nothing_is_said_of_no_rows() -> None:
    assert rollups.Minutes().table() == rollups.SCHEMA.empty_table()
    assert DeviceSums().table() == SUMMARY.empty_table()
