"""`covey_ingest.tables.messages`: one row for each message, from whatever files of readings."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.tables.messages import MESSAGES, messages_in, scanned
from covey_ingest.task.columns import TIMESTAMP


def _readings(count: int) -> pa.Table:
    """Return messages of two readings each, of two devices in turn."""
    places = [place for place in range(count) for _ in range(2)]
    return pa.table(
        {
            "author": [f"author-{place % 2}" for place in places],
            "incarnation": ["00"] * len(places),
            "seq": places,
            "boot": ["0b"] * len(places),
            "batch_number": places,
            "collector": ["c"] * len(places),
            "received_at": pa.array([1_800_000_000_000_000 + place for place in places], TIMESTAMP),
            "time_quality": ["synchronised"] * len(places),
            "clock_offset": [None if place % 3 else place for place in places],
            "index": pa.array([0, 1] * count, pa.int32()),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name is a pattern to whoever takes it for one, with an apostrophe."""
    folder = tmp_path / "batch=1 [a-z]*?'"
    folder.mkdir()
    (tmp_path / "batch=1 abc'").mkdir()
    for number, rows in enumerate((_readings(3), _readings(5))):
        pq.write_table(rows, folder / f"part-{number}.parquet")
        pq.write_table(_readings(1), tmp_path / "batch=1 abc'" / f"part-{number}.parquet")
    return folder


def test_a_message_is_its_first_reading_in_the_order_of_files_and_rows(folder: Path) -> None:
    found = messages_in(folder)
    assert found.schema == MESSAGES
    assert found["seq"].to_pylist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert found.equals(scanned(folder).to_table())
    assert messages_in(sorted(folder.iterdir())[1:])["seq"].to_pylist() == [0, 1, 2, 3, 4]


def test_missing_columns_are_null(folder: Path) -> None:
    for number, columns in enumerate((["clock_offset", "collector"], ["collector"])):
        path = folder / f"part-{number}.parquet"
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(columns), path)
    found = messages_in(folder)
    assert found.equals(scanned(folder).to_table())
    assert found["collector"].null_count == 8
    assert found["clock_offset"].drop_null().to_pylist() == [0, 3]


def test_a_file_that_cannot_be_read_is_an_error_of_the_disk(folder: Path) -> None:
    missing = folder / "part-2.parquet"
    with pytest.raises(OSError, match="part-2"):
        messages_in([*folder.iterdir(), missing])
    assert not len(messages_in([]))
