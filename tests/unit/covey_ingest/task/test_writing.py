"""What a task writes, and what it says of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.committer.deletions import Deletions
from covey_ingest.task import writing
from covey_ingest.task.columns import READINGS
from covey_ingest.task.tasks import RESULT, write_rows
from covey_ingest.task.writing import Target, Written, write
from tests.tables_driver import DAY_US, messages


def _write(root: Path, batches: list[pa.RecordBatch], deletions: Deletions | None = None) -> list[Written]:
    """Write them as an executor does, and read what the committer is told."""
    target = Target(str(root), 5, deletions or Deletions())
    results = pa.Table.from_batches(write_rows(target, batches), RESULT)["written"].to_pylist()
    return [Written.from_bytes(content) for content in results]


@pytest.mark.slow
def test_a_task_writes_files_of_bounded_size_and_tells_of_their_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "FILE_BYTES", 1)
    monkeypatch.setattr(writing, "_ROWS_PER_GROUP", 2)
    monkeypatch.setattr(writing, "_BYTES_JOINED", 1)
    first, second, rest = _write(tmp_path, [messages(range(3)), messages(range(0)), messages(range(3, 6))])
    assert [each.notes["seq"].to_pylist() for each in (first, second)] == [[1, 2, 3], [4, 5, 6]]
    assert [each.notes["rows"].to_pylist() for each in (first, second)] == [[2, 2, 2]] * 2
    assert [each.files["readings"].rows for each in (first, second)] == [6, 6]
    assert rest.others["losses"]["first_number"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert rest.counts == {"telemetry": 6, "loss": 6}
    assert rest.newest_us == DAY_US + 5
    for each in (first, second):
        for table, file in each.files.items():
            assert file.key.startswith("batch=5/")
            assert (tmp_path / table / file.key).stat().st_size == file.size
    stored = pq.read_schema(tmp_path / "readings" / first.files["readings"].key)
    assert stored.names == READINGS.names
    assert stored.types == READINGS.types, "whoever reads the file sees plain columns"
    second_try = _write(tmp_path, [messages(range(3))])
    assert second_try[0].files["readings"].key != first.files["readings"].key, "no name is used twice"


def test_the_rows_of_many_small_segments_are_written_as_those_of_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [messages(range(first, first + 2)) for first in range(0, 8, 2)]
    (joined, *_) = _write(tmp_path, batches)
    monkeypatch.setattr(writing, "_BYTES_JOINED", 1)
    (alone, *_) = _write(tmp_path, batches)
    one, other = (pq.read_table(tmp_path / "readings" / each.files["readings"].key) for each in (joined, alone))
    assert one.num_rows
    assert one.equals(other)
    assert joined.notes.equals(alone.notes)
    assert joined.summary == alone.summary
    assert joined.counts == alone.counts


def test_a_task_without_readings_writes_no_file(tmp_path: Path) -> None:
    assert _write(tmp_path, [messages(range(0))]) == []
    assert [each.files for each in write(Target(str(tmp_path), 0, Deletions()), [messages(range(0))])] == []


@pytest.mark.slow
def test_deleted_readings_are_not_written_again(tmp_path: Path) -> None:
    one, two = "a" * 64, "b" * 64
    batches = [messages(range(4), author=one), messages(range(4), author=two)]
    until = Deletions({one: DAY_US + 1})
    rows = {author: _sequences(_write(tmp_path, batches, until), author) for author in (one, two)}
    assert rows == {one: [3, 4], two: [1, 2, 3, 4]}
    late = [messages(range(2), author=one, received_at=DAY_US + 10**9)]
    assert _sequences(_write(tmp_path, late, until), one) == [], "a copy that another collector lands later"
    doubtful = [messages(range(2), author=one, received_at=DAY_US + 10**9, time_quality="arrival")]
    assert _sequences(_write(tmp_path, doubtful, until), one) == [1, 2], "its times say nothing"
    kept = Deletions({}, DAY_US + 2)
    assert _sequences(_write(tmp_path, batches, kept), two) == [3, 4]


def _sequences(written: list[Written], author: str) -> list[int]:
    return [row["seq"] for each in written for row in each.notes.to_pylist() if row["author"] == author]
