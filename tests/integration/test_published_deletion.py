"""Deleting from tables that are published in an object store: gone there and here; without the store nothing goes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from covey.errors import ConfigurationError, StorageError
from covey_ingest import deletions
from covey_ingest.__main__ import main
from covey_ingest.delta_log import DeltaLog
from covey_ingest.state_file import replace_state
from covey_ingest.table_files import table_files
from covey_ingest.table_locations import Bucket
from tests.integration.s3_server import s3_server, s3_vault

__all__ = ["s3_server", "s3_vault"]

pytestmark = pytest.mark.processes

ONE, TWO = "a" * 64, "ab" * 32
_ROWS = pa.schema([("author", pa.string()), ("value", pa.float64()), ("received_at", pa.timestamp("us", tz="UTC"))])


def _commit(root: Path, batch: int, table: str, rows: list[tuple[str, float, float]]) -> None:
    folder = root / table / f"batch={batch}"
    folder.mkdir(parents=True)
    authors, values, days = zip(*rows, strict=True)
    moments = [datetime.now(UTC) - timedelta(days=age) for age in days]
    content = pa.table([[*authors], [*values], moments], schema=_ROWS)
    pq.write_table(content, folder / "part-0.parquet")


class Published:
    """Working tables of two devices, and their Delta tables in a store."""

    def __init__(self, root: Path, url: str) -> None:
        self.root, self.url = root, url
        _commit(root, 0, "readings", [(ONE, 1, 500), (TWO, 2, 500)])
        _commit(root, 1, "readings", [(ONE, 3, 1), (TWO, 4, 1)])
        _commit(root, 0, "memberships", [(ONE, 0, 500), (TWO, 0, 500)])
        for state in ("devices", "members"):
            replace_state(root / state / f"{state}.parquet", pa.table({"author": [ONE, TWO]}), 1)
        (root / "covey.json").write_text('{"ingest": "ingest", "vault_id": "00", "layout": 2}')
        (root / ".published.json").write_text(json.dumps({"url": url, "upto": 1}))
        self.bucket = Bucket.at(url)
        self.bucket.claim("ingest", "00")
        self.publish(1)

    def publish(self, newest: int) -> None:
        """Bring there what is committed, as the ingest does."""
        DeltaLog(self.root, "ingest", self.bucket).publish(newest, last=True)

    def values(self) -> tuple[list[float], list[float]]:
        """Return the readings in the store, and those of the working tables."""
        there = DeltaTable(f"{self.url}/readings").to_pyarrow_table()["value"].to_pylist()
        files = table_files(self.root, "readings")
        here = [value for file in files for value in pq.read_table(file, partitioning=None)["value"].to_pylist()]
        return sorted(there), sorted(here)

    def changes(self) -> list[str]:
        """Return the objects of the change feed of readings."""
        return [*self.bucket.store.keys("readings/_change_data/")]

    def authors(self, table: str) -> list[str]:
        """Return whose rows a table in the store has."""
        return sorted(DeltaTable(f"{self.url}/{table}").to_pyarrow_table()["author"].to_pylist())


@pytest.fixture
def published(tmp_path: Path, s3_vault: str) -> Published:
    return Published(tmp_path / "tables", s3_vault)


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_rows_go_in_the_store_and_here(published: Published, capsys: pytest.CaptureFixture[str]) -> None:
    words = "delete", str(published.root), "--author", ONE
    _commit(published.root, 2, "readings", [(ONE, 5, 1), (TWO, 6, 1)])  # committed, and not brought yet
    due = {"devices": 1, "members": 1, "memberships": 1, "readings": 3}
    assert _run(capsys, *words, "--dry-run")["rows"] == due
    assert published.values() == ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6])
    assert _run(capsys, *words)["rows"] == due
    assert published.values() == ([2, 4, 6], [2, 4, 6])
    for table in ("devices", "members", "memberships"):
        assert published.authors(table) == [TWO]
    published.publish(2)
    assert published.values() == ([2, 4, 6], [2, 4, 6]), "what is known there is not brought again"
    assert _run(capsys, "retain", str(published.root), "--days", "400")["rows"] == {"readings": 1}
    assert published.values() == ([4, 6], [4, 6])

    assert published.changes(), "what goes is told to who follows the change feed"
    published.bucket.drop_changes("readings", 24)
    assert published.changes()
    published.bucket.drop_changes("readings", -24)
    assert not published.changes(), "and no longer than a day"


def test_who_was_interrupted_says_it_again(
    published: Published, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "delete", str(published.root), "--author", ONE

    def refuse(_tables: Path, _name: str, _due: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("covey_ingest.deleting._exchange_without", refuse)
        assert main([*words]) == StorageError.exit_code
    assert published.values() == ([1, 2, 3, 4], [1, 2, 3, 4]), "readings go last"
    assert deletions.read(published.root).authors.keys() == {ONE}
    capsys.readouterr()
    assert _run(capsys, *words)["rows"]["readings"] == 2
    assert published.values() == ([2, 4], [2, 4])


def test_a_store_that_is_away_or_anothers_stops_it_before_anything_goes(
    published: Published, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["delete", str(published.root), "--author", ONE]
    (published.root / "covey.json").write_text('{"ingest": "another", "vault_id": "00", "layout": 2}')
    assert main(words) == ConfigurationError.exit_code
    assert "another ingest" in capsys.readouterr().err
    (published.root / "covey.json").write_text('{"ingest": "ingest", "vault_id": "00", "layout": 2}')
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        assert main(words) == StorageError.exit_code
    assert not deletions.path_in(published.root).exists()
    assert published.values() == ([1, 2, 3, 4], [1, 2, 3, 4])
