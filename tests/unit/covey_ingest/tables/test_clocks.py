"""What a boot's clock was worth, as messages tell it one by one; and readings that stand in a Delta table already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.committer.delta_log import DeltaLog
from covey_ingest.committer.table_locations import location_at
from covey_ingest.tables import clocks
from covey_ingest.tables.clocks import BOOTS_KEPT, known_for, path_in, update
from covey_ingest.tables.messages import messages_in
from covey_ingest.task.columns import TIMESTAMP
from tests.delta_files import log_file

_NOW_US = 1_800_000_000_000_000
_DAY_US = 86_400_000_000

Row = tuple[str, str, str, int | None, int]
"""Author, boot, quality, clock offset, arrival."""


def _write(folder: Path, rows: list[Row]) -> Path:
    """Write two readings for each message, ten seconds and twenty after the boot."""
    folder.mkdir(parents=True)
    columns: dict[str, list[Any]] = {name: [] for name in ("author", "boot", "time_quality", "clock_offset")}
    columns |= {name: [] for name in ("received_at", "time", "index", "seq", "incarnation")}
    for number, (author, boot, quality, offset, received_us) in enumerate(rows):
        for index in (0, 1):
            time_us = 10_000_000 * (index + 1) + (offset or 0)
            values = (author, boot, quality, offset, received_us, time_us, index, number + received_us, "x")
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("author", "boot", "time_quality")),
            ("clock_offset", pa.int64()),
            *(("received_at", TIMESTAMP), ("time", TIMESTAMP)),
            *(("index", pa.int32()), ("seq", pa.int64()), ("incarnation", pa.string())),
        ]
    )
    pq.write_table(pa.table(columns, schema=schema), folder / "part-0.parquet")
    return folder


def _commit(tables: Path, number: int, *rows: Row) -> None:
    _write(tables / "readings" / f"batch={number}", list(rows))


def _known(tables: Path) -> dict[tuple[str, str], int | None]:
    rows = pq.read_table(path_in(tables)).to_pylist()
    return {(row["author"], row["boot"]): row["clock_offset"] for row in rows}


@pytest.mark.slow
def test_the_first_disciplined_clock_of_a_boot_counts_and_of_that_boot_alone(tmp_path: Path) -> None:
    slow, right = _NOW_US - 5 * _DAY_US, _NOW_US
    _commit(tmp_path, 0, ("a", "1", "unsynchronised", slow, _NOW_US), ("b", "1", "asserted", None, _NOW_US))
    update(tmp_path)
    staged = _write(tmp_path / "staged", [("a", "1", "arrival", slow, _NOW_US), ("a", "2", "arrival", slow, _NOW_US)])
    assert known_for(tmp_path, messages_in(staged), 0).to_pylist() == []
    later: Row = ("a", "1", "synchronised", right + 9, _NOW_US + 2)
    _commit(tmp_path, 1, later, ("a", "1", "synchronised", right, _NOW_US + 1))
    for _ in range(2):
        assert known_for(tmp_path, messages_in(staged), 1).to_pylist() == [{"author": "a", "boot": "1", "known": right}]
    assert _known(tmp_path) == {("a", "1"): right}
    alone = _write(
        tmp_path / "alone", [("c", "1", "unsynchronised", 7, _NOW_US), ("c", "1", "synchronised", 8, _NOW_US + 1)]
    )
    known = known_for(tmp_path, messages_in(alone), 1).to_pylist()
    assert known == [{"author": "c", "boot": "1", "known": 8}], "in one micro-batch"


@pytest.mark.slow
def test_boots_are_bounded_and_a_lost_table_is_rebuilt(tmp_path: Path) -> None:
    for boot in range(2 * BOOTS_KEPT):
        _commit(tmp_path, boot, ("a", str(boot), "synchronised", boot, _NOW_US + boot))
    update(tmp_path)
    assert len(_known(tmp_path)) == BOOTS_KEPT
    before = path_in(tmp_path).read_bytes()
    path_in(tmp_path).unlink()
    update(tmp_path)
    assert path_in(tmp_path).read_bytes() == before


@pytest.mark.slow
def test_a_delta_table_is_repaired_once_despite_kills(tmp_path: Path) -> None:
    slow = _NOW_US - 5 * _DAY_US
    mad: Row = ("m", "1", "unsynchronised", _NOW_US - 60_000_000, _NOW_US)

    def publish(number: int, *rows: Row) -> None:
        _commit(tmp_path, number, *rows)
        clocks.update(tmp_path, number)
        log_file(tmp_path, "readings", tmp_path / "readings" / f"batch={number}" / "part-0.parquet")
        repair(number)

    def repair(number: int) -> None:
        log = DeltaLog(tmp_path, "tables", location_at(str(tmp_path)), 1)
        if log.done("readings") < number:
            log.append("readings", number, [])
        log.rebase()

    def stands() -> list[tuple[str, str, int]]:
        rows = deltalake.DeltaTable(tmp_path / "readings").to_pyarrow_table().to_pylist()
        found = [(row["author"], row["time_quality"], round(row["time"].timestamp() * 1e6)) for row in rows]
        return sorted(row for row in found if row[0] == "a")

    publish(0, ("a", "1", "unsynchronised", slow, _NOW_US), ("a", "2", "unsynchronised", slow, _NOW_US), mad)
    before = stands()
    publish(1, ("b", "1", "synchronised", _NOW_US, _NOW_US))
    version = deltalake.DeltaTable(tmp_path / "readings").version()
    assert stands() == before
    publish(
        2,
        ("a", "1", "synchronised", _NOW_US, _NOW_US + 1),
        ("m", "1", "synchronised", _NOW_US + 3650 * _DAY_US, _NOW_US),
    )
    repaired = [("a", "rebased", _NOW_US + seconds * 1_000_000) for seconds in (10, 20)]
    right = [("a", "synchronised", _NOW_US + seconds * 1_000_000) for seconds in (10, 20)]
    other = [("a", "unsynchronised", slow + seconds * 1_000_000) for seconds in (10, 20)]
    assert stands() == [*repaired, *right, *other]
    # Killed before the repair was in the log: the next start does it, and the one after that has nothing to do.
    newest = deltalake.DeltaTable(tmp_path / "readings").version()
    assert newest == version + 3
    (tmp_path / "readings" / "_delta_log" / f"{newest:020}.json").unlink()
    assert stands() == sorted([*right, *other, *other])
    for _ in range(2):
        repair(2)
        assert stands() == [*repaired, *right, *other]
    assert deltalake.DeltaTable(tmp_path / "readings").version() == newest
    table = deltalake.DeltaTable(tmp_path / "readings").to_pyarrow_table()
    assert {row["time_quality"] for row in table.to_pylist() if row["author"] == "m"} == {
        "unsynchronised",
        "synchronised",
    }
    feed = pa.table(deltalake.DeltaTable(tmp_path / "readings").load_cdf(starting_version=0).read_all())
    kinds = feed["_change_type"].cast(pa.string()).to_pylist()
    assert kinds.count("insert") == len(table), "who follows the change feed gets each reading once,"
    changed = [row for row in feed.to_pylist() if row["_change_type"] == "update_postimage"]
    assert [row["time_quality"] for row in changed] == ["rebased"] * 2, "and what was repaired"
    assert kinds.count("update_preimage") == 2
