"""`covey_ingest.tables.seen_orders`: what is in the tables of orders is known for good, and nobody fills them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.tables import seen_orders
from covey_ingest.tables.seen_orders import ROWS_A_DAY, Excess, columns, sift, update

_DAY_US = 86_400_000_000
_TIME = pa.timestamp("us", tz="UTC")


def _orders(names: list[str], author: str = "mallory", at_us: int = 5 * _DAY_US) -> pa.Table:
    times = pa.array([at_us] * len(names), _TIME)
    return pa.table({"operation": names, "author": [author] * len(names), "received_at": times})


def _commit(tables: Path, batch: int, table: str = "orders", rows: pa.Table | None = None) -> None:
    """Write what a micro-batch leaves behind: its part of a table, then of `readings`."""
    for name, content in ((table, rows), ("readings", pa.table({"index": [0]}))):
        if content is not None:
            (tables / name / f"batch={batch}").mkdir(parents=True)
            pq.write_table(content, tables / name / f"batch={batch}" / "part.parquet")


def test_known_orders_are_left_out_however_old(tmp_path: Path) -> None:
    _commit(tmp_path, 0, rows=_orders(["a", "b"]))
    update(tmp_path)
    later = _orders(["b", "c"], at_us=4_000 * _DAY_US)
    assert sift(tmp_path, "orders", later).dropped == [0]
    assert sift(tmp_path, "commands", later).dropped == [], "another table's"


def test_a_batch_that_is_not_committed_is_not_known(tmp_path: Path) -> None:
    _commit(tmp_path, 0)
    (tmp_path / "orders/batch=1").mkdir(parents=True)
    pq.write_table(_orders(["a"]), tmp_path / "orders/batch=1/part.parquet")
    assert sift(tmp_path, "orders", _orders(["a"])).dropped == []


def test_a_committed_batch_is_asked_for_once(tmp_path: Path) -> None:
    for batch in range(3):
        _commit(tmp_path, batch, rows=_orders([f"of {batch}"]))
        update(tmp_path)
    shutil.rmtree(tmp_path / "orders")
    assert sift(tmp_path, "orders", _orders(["of 0", "of 1", "of 2", "of 3"])).dropped == [0, 1, 2]


def test_a_lost_or_newer_state_is_rebuilt(tmp_path: Path) -> None:
    _commit(tmp_path, 0, rows=_orders(["a"]))
    _commit(tmp_path, 1, rows=_orders(["b"]))
    update(tmp_path)
    for table in ("orders", "readings"):
        shutil.rmtree(tmp_path / table / "batch=1")
    assert sift(tmp_path, "orders", _orders(["a", "b"])).dropped == [0]
    shutil.rmtree(seen_orders.path_in(tmp_path).parent)
    assert sift(tmp_path, "orders", _orders(["a", "b"])).dropped == [0]


def test_a_damaged_table_is_rebuilt(tmp_path: Path) -> None:
    _commit(tmp_path, 0, rows=_orders(["a"]))
    update(tmp_path)
    seen_orders.path_in(tmp_path).write_bytes(b"zeroed by a power cut" * 1_000)
    assert sift(tmp_path, "orders", _orders(["a", "b"])).dropped == [0]


def test_orders_in_merged_files_are_found(tmp_path: Path) -> None:
    _commit(tmp_path, 0)
    (tmp_path / "orders").mkdir()
    pq.write_table(_orders(["a"]), tmp_path / "orders/merged.parquet")
    assert sift(tmp_path, "orders", _orders(["a", "b"])).dropped == [0]


@pytest.mark.parametrize("committed", [True, False], ids=["over many batches", "in one"])
def test_one_author_fills_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool) -> None:
    monkeypatch.setitem(ROWS_A_DAY, "orders", 4)
    flood = [f"{number}" for number in range(6)]
    if committed:
        _commit(tmp_path, 0, rows=_orders(flood[:4]))
        update(tmp_path)
        flood = flood[4:]
    found = sift(tmp_path, "orders", pa.concat_tables([_orders(flood), _orders(["x"], "operator")]))
    assert [flood[number] for number in found.dropped] == ["4", "5"]
    assert found.excess == [Excess("orders", "mallory", 5, 2, 5 * _DAY_US)]
    assert sift(tmp_path, "orders", _orders(["7"], at_us=6 * _DAY_US)).dropped == [], "another day"


def test_a_repeat_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS_A_DAY, "orders", 2)
    _commit(tmp_path, 0, rows=_orders(["a"]))
    _commit(tmp_path, 1, rows=_orders(["a"]))
    found = sift(tmp_path, "orders", _orders(["a", "b"]))
    assert (found.dropped, found.excess) == ([0], [])


def test_a_state_that_comes_back_is_another_row(tmp_path: Path) -> None:
    def reported(at_us: int) -> dict[str, Any]:
        return {
            **dict.fromkeys(columns("settings"), "x"),
            "key": None,
            "reported_at": pa.scalar(at_us, _TIME).as_py(),
            "received_at": pa.scalar(0, _TIME).as_py(),
        }

    schema = pa.schema([(name, _TIME if name.endswith("_at") else pa.string()) for name in columns("settings")])
    _commit(tmp_path, 0, "settings", pa.Table.from_pylist([reported(1)], schema=schema))
    rows = pa.Table.from_pylist([reported(1), reported(2)], schema=schema)
    assert sift(tmp_path, "settings", rows).dropped == [0]
