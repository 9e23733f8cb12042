"""The audit finds what it is for: rows that came twice, readings and messages that did not come."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.audit import DeviceAudit, Tally, audit, tally

_NAMES = ["author", "incarnation", "seq", "index", "time", "received_at"]
_NOW_US = 1_800_000_000_000_000
_TIME = pa.timestamp("us", "UTC")


def _write(tables: Path, batch: int, *readings: tuple[str, str, int, int]) -> None:
    """Write a micro-batch of readings that took two seconds each."""
    folder = tables / "readings" / f"batch={batch}"
    folder.mkdir(parents=True)
    columns = [pa.array(column) for column in zip(*readings, strict=True)]
    times = [pa.repeat(at_us, len(readings)).cast(_TIME) for at_us in (_NOW_US, _NOW_US + 2_000_000)]
    pq.write_table(pa.table([*columns, *times], _NAMES), folder / "part-0.parquet")


def test_what_is_doubled_or_missing_is_found(tables: Path) -> None:
    assert audit(tables) == {}
    _write(tables, 0, ("ann", "a", 1, 0), ("ann", "a", 1, 1), ("ann", "a", 2, 0), ("bob", "c", 7, 2))
    _write(tables, 1, ("ann", "a", 1, 1), ("ann", "a", 4, 0), ("ann", "b", 5, 0), ("bob", "c", 7, 0))
    _write(tables, 2, ("ann", "a", 1, 1))
    ann_runs = (("a", 1, 2), ("a", 4, 4), ("b", 5, 5))
    assert audit(tables) == {
        "ann": DeviceAudit(Tally(5, 2), 0, 4, ann_runs, 2.0, 2.0),
        "bob": DeviceAudit(Tally(2, 0), 1, 1, (("c", 7, 7),), 2.0, 2.0),
    }
    assert tally(tables) == {"ann": Tally(5, 2), "bob": Tally(2, 0)}
    assert tally(tables)["ann"].rows == 7
