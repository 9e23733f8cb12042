"""Merging by columns says of every device what merging row by row says."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from covey_ingest.tables.devices import BOOTS_REMEMBERED, SCHEMA, merge

START = datetime(2027, 1, 1, tzinfo=UTC)
_LATEST = ("incarnation", "last_seq", "time_quality", "collector", "lag_seconds")
_OF_A_BATCH = pa.schema([field for field in SCHEMA if field.name not in {"device", "boots"}])

Row = dict[str, Any]


def _merge_device(old: Row | None, new: Row) -> Row:
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
            "firmware": new["firmware"] or old["firmware"],
        }
    )


def _summary(chance: random.Random, author: str) -> Row:
    first, last, newest = sorted(START + timedelta(minutes=chance.randrange(60)) for _ in range(3))
    boots = {f"{chance.randrange(60):016x}" for _ in range(chance.randrange(1, 4))}
    return {
        "author": author,
        "first_seen": first,
        "last_seen": last,
        "last_time": newest,
        "lag_seconds": chance.random(),
        "incarnation": chance.choice("xy"),
        "last_seq": chance.randrange(5),
        "time_quality": chance.choice(("synchronised", "arrival")),
        "boot_ids": sorted(boots),
        "messages": chance.randrange(1, 9),
        "readings": chance.randrange(1, 99),
        "collector": chance.choice("cd"),
        "firmware": chance.choice((None, "covey 1", "covey 2")),
        "gateway": None,
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_columns_and_rows_agree(seed: int) -> None:
    chance = random.Random(seed)
    fleet = [f"{chance.getrandbits(256):064x}" for _ in range(8)]
    table, expected = SCHEMA.empty_table(), dict[str, Row]()
    for _ in range(60):
        rows = [_summary(chance, author) for author in chance.sample(fleet, chance.randrange(len(fleet)))]
        table = merge(table, pa.Table.from_pylist(rows, _OF_A_BATCH))
        for row in rows:
            expected[row["author"]] = _merge_device(expected.get(row["author"]), row)
        assert table.schema == SCHEMA
        assert table.to_pylist() == [expected[author] for author in sorted(expected)]
    assert max(map(len, table["boot_ids"].to_pylist())) == BOOTS_REMEMBERED
