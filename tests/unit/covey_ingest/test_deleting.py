"""`covey_ingest.deleting` and its commands: what is deleted is gone for every reader, at once, and stays away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from covey.errors import ConfigurationError
from covey_ingest import deletions, merging
from covey_ingest.__main__ import main
from covey_ingest.delta_log import DeltaLog
from covey_ingest.state_file import read_state, replace_state
from covey_ingest.table_files import table_files
from covey_ingest.table_locations import Folder
from covey_ingest.table_lock import locked

ONE, TWO = "a" * 64, "ab" * 32
_TIME = pa.timestamp("us", tz="UTC")
_READINGS = pa.schema([("author", pa.string()), ("name", pa.string()), ("value", pa.float64()), ("received_at", _TIME)])


def _days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def _commit(root: Path, batch: int, table: str, rows: list[dict[str, Any]]) -> None:
    folder = root / table / f"batch={batch}"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=_READINGS), folder / "part-0.parquet")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    def row(author: str, value: float, days: float) -> dict[str, Any]:
        return {"author": author, "name": "t", "value": value, "received_at": _days_ago(days)}

    _commit(tmp_path, 0, "readings", [row(ONE, 1, 500), row(TWO, 2, 500)])
    _commit(tmp_path, 1, "readings", [row(ONE, 3, 1)])
    _commit(tmp_path, 2, "readings", [row(TWO, 4, 1)])
    _commit(tmp_path, 0, "quarantine", [{"author": None, "name": "x"}, row(ONE, 0, 500)])
    _commit(tmp_path, 0, "memberships", [row(ONE, 0, 500), row(TWO, 0, 500)])
    states = pa.table({"author": [ONE, TWO], "boots": [1, 2]})
    replace_state(tmp_path / "members" / "members.parquet", states, 2)
    replace_state(tmp_path / "devices" / "devices.parquet", states, 2)
    replace_state(tmp_path / ".numbers" / "numbers.parquet", states, 2)
    return tmp_path


def _values(root: Path, table: str = "readings") -> list[float | None]:
    files = [*map(str, table_files(root, table))]
    rows: list[float | None] = ds.dataset(files, _READINGS, format="parquet").to_table()["value"].to_pylist()
    return sorted(rows, key=lambda value: -1 if value is None else value)


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_all_of_a_device_goes_and_nothing_else(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    untouched = (tables / "readings" / "batch=2" / "part-0.parquet").stat().st_ino
    words = "delete", str(tables), "--author", ONE
    due = {"devices": 1, "members": 1, "quarantine": 1, "memberships": 1, "readings": 2}
    assert _run(capsys, *words, "--dry-run") == {"deleted": False, "what": f"all of {ONE}", "rows": due}
    assert _values(tables) == [1, 2, 3, 4]
    assert not deletions.path_in(tables).exists()
    assert _run(capsys, *words)["rows"] == due
    assert _values(tables) == [2, 4]
    assert _values(tables, "quarantine") == [None]
    names = sorted(str(file.relative_to(tables)) for file in table_files(tables, "readings"))
    assert names == [f"readings/batch={number}/part-0.parquet" for number in range(3)], "a stream meets no new name"
    assert (tables / "readings" / "batch=2" / "part-0.parquet").stat().st_ino == untouched
    for state in ("devices", "members"):
        rows, last = read_state(tables / state / f"{state}.parquet", pa.schema([]))
        assert (rows["author"].to_pylist(), last) == ([TWO], 2)
    numbers, _ = read_state(tables / ".numbers" / "numbers.parquet", pa.schema([]))
    assert len(numbers) == 2, "what came stays known"
    assert _run(capsys, *words)["rows"] == {}
    assert deletions.read(tables).authors.keys() == {ONE}


def test_the_beginning_of_a_key_is_enough_where_one_device_has_it(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(capsys, "delete", str(tables), "--author", "aa", "--dry-run")["what"] == f"all of {ONE}"
    with pytest.raises(SystemExit):
        main(["delete", str(tables), "--author", ""])  # where one device is left, that would be the one
    for beginning, found in (("a", 2), ("c", 0)):
        assert main(["delete", str(tables), "--author", beginning]) == ConfigurationError.exit_code
        assert f"{found} devices" in capsys.readouterr().err


def test_what_is_older_goes(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "retain", str(tables), "--days", "400")["rows"] == {"quarantine": 1, "readings": 2}
    assert _values(tables) == [3, 4]
    assert _values(tables, "quarantine") == [None]
    bound = deletions.read(tables).kept_since_us
    assert _run(capsys, "retain", str(tables), "--days", "800")["rows"] == {}
    assert deletions.read(tables).kept_since_us == bound, "it never goes back"


def test_a_reader_sees_all_of_it_or_nothing(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[float | None]] = []
    replaced = merging._exchange

    def watched(one: Path, other: Path) -> None:
        if other.name == "readings":
            seen.append(_values(tables))
        replaced(one, other)
        if other.name == "readings":
            seen.append(_values(tables))

    monkeypatch.setattr(merging, "_exchange", watched)
    assert main(["delete", str(tables), "--author", ONE]) == 0
    assert seen == [[1, 2, 3, 4], [2, 4]]


def test_who_is_interrupted_deletes_the_rest_by_saying_it_again(
    tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_one: Path, other: Path) -> None:
        if other.name == "readings":
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(merging, "_exchange", refuse)
        assert main(["delete", str(tables), "--author", ONE]) != 0
    capsys.readouterr()
    assert deletions.read(tables).authors.keys() == {ONE}
    assert _values(tables) == [1, 2, 3, 4]
    assert _run(capsys, "delete", str(tables), "--author", ONE)["rows"].get("readings") == 2
    assert _values(tables) == [2, 4]
    assert not (tables / ".staging").exists()


def test_nothing_is_deleted_under_an_ingest(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(tables):
        assert main(["delete", str(tables), "--author", ONE]) == ConfigurationError.exit_code
        assert main(["delete", str(tables), "--author", ONE, "--dry-run"]) == 0
    assert "another ingest" in capsys.readouterr().err
    assert _values(tables) == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_delta_table_loses_rows_in_one_commit_and_its_old_files_a_day_later(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deltalake = pytest.importorskip("deltalake", reason="Delta tables are not installed")
    log = DeltaLog(tables, "ingest")
    log.publish(2, last=True)
    before = deltalake.DeltaTable(str(tables / "readings")).version()
    assert _run(capsys, "delete", str(tables), "--author", ONE)["rows"]["readings"] == 2
    table = deltalake.DeltaTable(str(tables / "readings"))
    assert table.version() == before + 1
    assert _values(tables) == [2, 4]
    assert deltalake.DeltaTable(str(tables / "devices")).to_pyarrow_table()["author"].to_pylist() == [TWO]
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    Folder(tables).drop_changes("readings", 0)
    assert {value for file in _files_below(tables / "readings") for value in _authors(file)} == {TWO}
    log = DeltaLog(tables, "ingest")
    log.publish(2, last=True)
    assert _values(tables) == [2, 4]
    assert _run(capsys, "retain", str(tables), "--days", "400")["rows"] == {"readings": 1}
    assert _values(tables) == [4]


@pytest.mark.slow
def test_a_micro_batch_that_a_killed_ingest_left_beside_the_log_loses_its_rows_too(tables: Path) -> None:
    (tables / "covey.json").write_text('{"ingest": "ingest", "vault_id": "00"}')
    DeltaLog(tables, "ingest").publish(2, last=True)
    late = {"author": ONE, "name": "t", "value": 5.0, "received_at": _days_ago(1)}
    _commit(tables, 3, "readings", [late, late | {"author": TWO, "value": 6.0}])
    assert main(["delete", str(tables), "--author", ONE]) == 0
    DeltaLog(tables, "ingest").publish(3, last=True)
    assert _values(tables) == [2, 4, 6]


def _files_below(folder: Path) -> Iterator[Path]:
    yield from folder.rglob("*.parquet")


def _authors(file: Path) -> set[str]:
    schema = pq.read_schema(file)
    return set(pq.read_table(file, partitioning=None)["author"].to_pylist()) if "author" in schema.names else set()


def test_what_was_deleted_is_damaged_is_no_reason_to_let_it_back(tables: Path) -> None:
    for content in ("", "[]", '{"layout": 2}', '{"layout": 1, "authors": {"x": 1}, "kept_since": 0}'):
        deletions.path_in(tables).write_text(content)
        with pytest.raises(ConfigurationError):
            deletions.read(tables)


def test_there_is_room_for_some_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "DELETED_AUTHORS", 1)
    one = deletions.Deletions().with_author(ONE, 5)
    assert one.with_author(ONE, 3).authors == {ONE: 5}
    with pytest.raises(ConfigurationError):
        one.with_author(TWO, 5)
