"""What a task puts into an object store, and what it says of it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

pytest.importorskip("obstore", reason="the cloud extra is not installed")

from covey_ingest import placing
from covey_ingest.placing import PLACED, Placed, fetcher, placer
from tests.failing_s3 import FailingS3
from tests.s3_tables import asked_once, readings

_URL = "s3://bucket/tables"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    """An empty store."""
    with FailingS3().running() as server:
        asked_once(server, monkeypatch)
        yield server


def _place(batches: list[pa.RecordBatch]) -> list[Placed]:
    """Put them as an executor does, and read what the driver is told."""
    return Placed.from_rows(pa.Table.from_batches(placer(_URL, 5)(batches), PLACED))


@pytest.mark.slow
def test_a_task_puts_files_of_bounded_size_and_tells_of_their_messages(
    store: FailingS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "FILE_BYTES", 1)
    monkeypatch.setattr(placing, "_ROWS_PER_GROUP", 2)
    batches = [readings(range(first, first + 3)) for first in (0, 3)]
    first, second = _place([batches[0], readings(range(0)), batches[1]])
    assert [each.messages["seq"].to_pylist() for each in (first, second)] == [[1, 2, 3], [4, 5, 6]]
    assert [each.files["readings"].rows for each in (first, second)] == [6, 6]
    assert sum(part["readings"] for each in (first, second) for part in each.summary.to_pylist()) == 12
    keys = {f"bucket/tables/{table}/{file.key}" for each in (first, second) for table, file in each.files.items()}
    assert keys == set(store.keys("bucket/tables/"))
    assert all("/batch=5/" in key for key in keys)
    assert {len(store.objects[f"bucket/tables/readings/{first.files['readings'].key}"][0])} == {
        first.files["readings"].size
    }

    second_try = _place(batches)
    assert not {each.files["readings"].key for each in second_try} & {first.files["readings"].key}, (
        "no name is used twice"
    )
    named = pa.RecordBatch.from_pydict({"key": [each.files["readings"].key for each in (second, first)]})
    fetched = pa.Table.from_batches(fetcher(_URL)([named])).sort_by([("seq", "ascending"), ("index", "ascending")])
    assert fetched.to_pylist() == pa.Table.from_batches(batches).to_pylist()


def test_a_task_without_readings_puts_nothing(store: FailingS3) -> None:
    assert _place([readings(range(0))]) == []
    assert not store.objects
