"""The state next to the logs: the newest one, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="the cloud extra is not installed")

from covey_ingest.committer import tables_state
from covey_ingest.committer.table_locations import TableLocation, location_at
from tests.failing_s3 import FailingS3
from tests.tables_driver import asked_once


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[TableLocation]:
    """An empty prefix."""
    with FailingS3().running() as server:
        asked_once(server, monkeypatch)
        yield location_at("s3://bucket/tables")


def test_the_newest_state_is_found_on_another_machine(bucket: TableLocation, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here / "gaps", here / "readings", there):
        folder.mkdir(parents=True)
    assert tables_state.fetch(bucket, there, range(100)) == (-1, {})
    (here / "readings" / "large").write_bytes(b"is in the tables")
    for number in (9, 10):
        (here / "gaps" / "gaps.parquet").write_bytes(b"%d" % number)
        tables_state.put(bucket, here, number, 1, {"node": [number]})
    assert [*bucket.store.keys("state/")] == ["state/00000000000000000010-0000000001.zip"]
    assert tables_state.fetch(bucket, there, range(100)) == (10, {"node": [10]})
    assert (there / "gaps" / "gaps.parquet").read_bytes() == b"10"
    assert not (there / "readings").exists()

    bucket.store.replace("state/00000000000000000011-0000000001.zip", b"cut", None)
    assert tables_state.fetch(bucket, there, range(100)) == (-1, {})
    assert not (there / "gaps").exists()
    tables_state.put(bucket, here, 12, 1, {"node": [12]})
    assert [*bucket.store.keys("state/")] == ["state/00000000000000000012-0000000001.zip"], "the damaged one is gone"
    assert tables_state.fetch(bucket, there, range(13, 100)) == (-1, {}), "rows after it were merged"
    assert tables_state.fetch(bucket, there, range(12, 100)) == (12, {"node": [12]})
