"""Merging puts readings in order, so that one device's day is a few row groups of a fleet's; it changes no row."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from covey_ingest.committer import delta_files, delta_log
from covey_ingest.committer.delta_files import clustered
from covey_ingest.committer.table_locations import location_at
from covey_ingest.task.columns import TIMESTAMP
from tests.delta_files import log_file

_DAY_US = 86_400_000_000
_SCHEMA = pa.schema(
    [
        ("author", pa.string()),
        ("name", pa.string()),
        ("time", TIMESTAMP),
        ("value", pa.float64()),
        ("data", pa.binary()),
        ("index", pa.int32()),
    ]
)


def _readings(seed: int, count: int = 400) -> pa.Table:
    """Return readings of 20 devices on two days."""
    dice = random.Random(seed)
    rows = {
        "author": [f"{dice.randrange(20):02}" for _ in range(count)],
        "name": dice.choices(["temperature", "humidity"], k=count),
        "time": [dice.randrange(2 * _DAY_US) for _ in range(count)],
        "value": [dice.choice([None, dice.random()]) for _ in range(count)],
        "data": [dice.randbytes(40) for _ in range(count)],
        "index": [*range(count)],
    }
    return pa.table(rows).cast(_SCHEMA)


def _counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in _SCHEMA.names), strict=True))


def test_files_hold_the_same_rows_in_order_and_each_some_of_the_authors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_files, "ROWS_PER_GROUP", 50)
    before = [tmp_path / f"{seed}.parquet" for seed in range(3)]
    for seed, path in enumerate(before):
        pq.write_table(_readings(seed), path)
    files = clustered(ds.dataset([*map(str, before)]), _SCHEMA, tmp_path / "new", 10_000)
    assert len(files) > 4
    assert sorted((tmp_path / "new").iterdir()) == sorted(files), "and nothing else"
    after = pa.concat_tables([pq.read_table(file) for file in files])
    assert after.schema == _SCHEMA
    assert _counted(after) == _counted(pa.concat_tables([pq.read_table(path) for path in before]))
    times = [moment // _DAY_US for moment in after["time"].cast(pa.int64()).to_pylist()]
    places = [*zip(times, after["author"].to_pylist(), strict=True)]
    assert places == sorted(places)
    groups = [pq.ParquetFile(file).metadata.row_group(0) for file in files]
    spans = [group.column(0).statistics for group in groups]
    assert sum(span.min <= "07" <= span.max for span in spans) <= 3


def test_a_delta_table_is_put_in_order_by_a_commit_that_changes_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    log = delta_log.DeltaLog(tmp_path, "tables", location_at(str(tmp_path)), 1)
    for number in range(6):
        folder = tmp_path / "readings" / f"batch={number}"
        folder.mkdir(parents=True)
        pq.write_table(_readings(number, 60), folder / "part-0.parquet")
        log_file(tmp_path, "readings", folder / "part-0.parquet")
        log.table("readings").update_incremental()
    log.maintain()
    table = deltalake.DeltaTable(tmp_path / "readings")
    merged, small = (
        [Path(uri) for uri in table.file_uris() if ("/merged-" in uri) is wanted] for wanted in (True, False)
    )
    assert (len(merged), len(small)) == (1, 0)
    authors = pq.read_table(merged[0])["author"].to_pylist()
    assert authors != sorted(authors), "by day first"
    found = pa.concat_tables([pq.read_table(file, partitioning=None) for file in (*merged, *small)])
    assert _counted(found) == _counted(pa.concat_tables([_readings(number, 60) for number in range(6)]))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".merging-")]
    commits = [json.loads(line) for file in sorted(_commits(tmp_path)) for line in file.read_text().splitlines()]
    assert [each["remove"]["dataChange"] for each in commits if "remove" in each] == [False] * 6
    added = [each["add"] for each in commits if "add" in each]
    assert [each["dataChange"] for each in added if each["path"].startswith("merged-")] == [False]


def _commits(root: Path) -> list[Path]:
    return [*(root / "readings" / "_delta_log").glob("*.json")]
