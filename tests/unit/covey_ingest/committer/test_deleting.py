"""Deleting from tables in an object store: gone for every reader at once, for good, and whatever is struck there."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from deltalake import DeltaTable

from covey.errors import ConfigurationError, StorageError
from covey_ingest.__main__ import main
from covey_ingest.committer import deleting, delta_log
from covey_ingest.committer import tables as tables_module
from covey_ingest.committer.deleting import of_author, of_before
from covey_ingest.committer.deletions import Deletions
from covey_ingest.committer.table_locations import location_at
from tests.examples import Share, shares
from tests.failing_s3 import FailingS3, Order
from tests.tables_driver import DAY_US, URL, Driver, asked_once, distinct_moments, reworked

pytestmark = pytest.mark.slow

ONE, TWO = "a" * 64, "b" * 64


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    """An empty store, which nobody asks twice."""
    with FailingS3().running() as server:
        asked_once(server, monkeypatch)
        yield server


def _standing(author: str, table: str = "readings") -> list[int]:
    rows = DeltaTable(f"{URL}/{table}").to_pyarrow_table()
    return sorted(row.get("seq", 0) for row in rows.to_pylist() if row["author"] == author)


def _each_twice(until: int, first: int = 1) -> list[int]:
    return [number for number in range(first, until + 1) for _ in (0, 1)]


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def _parquet_of(store: FailingS3) -> Iterator[tuple[str, bytes]]:
    """Yield all that holds rows: of tables, of their changes, and of the state."""
    for key in store.keys("bucket/tables/"):
        content = store.objects[key][0]
        if key.endswith(".parquet"):
            yield key, content
        if key.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(content)) as state:
                yield from ((name, state.read(name)) for name in state.namelist() if name.endswith(".parquet"))


def _holders(store: FailingS3, author: str) -> set[str]:
    """Return where a device is named."""
    found = set()
    for key, content in _parquet_of(store):
        rows = pq.read_table(io.BytesIO(content))
        if "author" in rows.column_names and author in rows["author"].to_pylist():
            found.add(key)
    return found


def test_all_of_a_device_goes_and_a_day_later_no_object_names_it(
    store: FailingS3, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path / "driver", authors=(ONE, TWO))
    driver.run(4)
    before = dict(store.objects)
    words = "delete", URL, "--author", "aa"
    would = _run(capsys, *words, "--dry-run")
    assert store.objects == before, "nothing was changed"
    due = {"devices": 1, "clocks": 1, "rollups": 2, "readings": 8}
    assert would == {"deleted": False, "what": f"all readings of {ONE}", "rows": due}
    assert _run(capsys, *words)["rows"] == would["rows"]
    for table in ("readings", "devices", "clocks", "rollups"):
        assert _standing(ONE, table) == [], table
        assert _standing(TWO, table), table
    (state,) = store.keys("bucket/tables/state/")
    assert _run(capsys, "delete", URL, "--author", ONE)["rows"] == {}
    assert (main([*words]), "0 devices" in capsys.readouterr().err) == (ConfigurationError.exit_code, True)
    driver.authors = (TWO,)
    driver.run(5)
    assert _standing(TWO) == _each_twice(5)
    assert state not in store.objects
    store.age(25 * 3600)
    monkeypatch.setattr(delta_log, "_KEPT_HOURS", 0)  # what the log says of when files went grows no older
    driver.run(6)
    assert _holders(store, ONE) == {".numbers/numbers.parquet"}, "what came stays known"


def test_deleting_before_a_time_removes_older_rows(store: FailingS3, tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver", authors=(ONE, TWO))
    driver.run(4)
    bucket, due = location_at(URL), of_before(DAY_US + 3)
    assert deleting.counted(bucket, due) == {"losses": 4, "readings": 12}

    def noted(before: Deletions) -> Deletions:
        return before.with_bound(DAY_US + 3)

    assert deleting.delete(bucket, due, noted) == {"losses": 4, "readings": 12}
    driver.run(5)
    assert _standing(ONE) == _standing(TWO) == _each_twice(5, 4)
    with Driver(tmp_path / "looks").begin() as tables:
        assert json.loads((tables.root / "deletions.json").read_bytes())["kept_since"] == DAY_US + 3


def _delete_one() -> dict[str, int]:
    return deleting.delete(location_at(URL), of_author(ONE), lambda before: before.with_author(ONE, DAY_US))


@pytest.mark.parametrize("share", shares(16, plain=1))
def test_a_killed_deletion_is_repeated_and_loses_nothing_else(
    store: FailingS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    """From each state that a killed deletion leaves behind another ingest goes on, and the deletion is said again.

    Before it an ingest was killed that had committed a micro-batch after its state, and put the half of another one.
    """
    monkeypatch.setattr(tables_module, "STATE_SECONDS", 1e9)
    driver = Driver(tmp_path / "driver", sizes=[2, 3], authors=(ONE, TWO))
    driver.run(2)
    store.orders = lambda method, key: (
        Order.CUT if method == "PUT" and "readings/_delta_log" in key and _is_of(store, "batch=3") else Order.OBEY
    )
    with pytest.raises(StorageError):
        driver.run(9)
    store.orders = lambda _method, _key: Order.OBEY
    store.moments = []
    assert _delete_one()["readings"]
    driver.authors = (TWO,)
    driver.sizes = [9]  # a second try takes more of the vault than the first one
    for number, moment in share.of(enumerate(distinct_moments(store))):
        store.objects = dict(moment)
        driver.run(9)
        _delete_one()
        assert _standing(ONE) == _standing(ONE, "rollups") == _standing(ONE, "devices") == [], number
        assert _standing(TWO) == _each_twice(9), number
        (device,) = DeltaTable(f"{URL}/devices").to_pyarrow_table().to_pylist()
        assert (device["messages"], device["open_gaps"]) == (9, 0), number
        minutes = DeltaTable(f"{URL}/rollups").to_pyarrow_table()["readings"].to_pylist()
        assert sum(minutes) == 18, number
        assert sorted(DeltaTable(f"{URL}/losses").to_pyarrow_table()["seq"].to_pylist()) == [*range(9)], number


def _is_of(store: FailingS3, folder: str) -> bool:
    return any(key.startswith(f"bucket/tables/readings/{folder}/") for key in store.objects)


def test_an_ingest_that_begins_meanwhile_shuts_the_deletion_out(store: FailingS3, tmp_path: Path) -> None:
    """Or else it might not have read what is deleted, and bring it back."""
    driver = Driver(tmp_path / "driver", authors=(ONE, TWO))
    driver.run(2)

    def begin(method: str, key: str) -> Order:
        if method == "PUT" and key.endswith("deletions.json") and driver.starts == 1:
            driver.run(3)
        return Order.OBEY

    store.orders = begin
    with pytest.raises(ConfigurationError, match="another engine has started"):
        _delete_one()
    assert _standing(ONE) == _each_twice(3)
    assert _delete_one()["readings"] == 6


def test_an_ingest_that_runs_is_shut_out(store: FailingS3, tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver", authors=(ONE, TWO))
    with Driver(tmp_path / "slow").begin() as tables:
        tables.commit(driver.put(tables, range(2)), {"node": [2]}, reworked)
        _delete_one()
        with pytest.raises(ConfigurationError, match="another engine has started"):
            tables.commit(driver.put(tables, range(2, 3)), {"node": [3]}, reworked)
    assert _standing(ONE) == []


def test_nothing_is_deleted_where_there_are_no_tables(store: FailingS3, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["delete", URL, "--author", ONE]) == ConfigurationError.exit_code
    assert "there are no tables" in capsys.readouterr().err
    assert store.objects == {}


def test_a_folder_that_an_engine_writes_is_not_deleted_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1000 * (DAY_US + 10))
    driver = Driver(tmp_path / "driver", str(tmp_path / "tables"), authors=(ONE, TWO))
    driver.run(2)
    with tables_module.opened_tables(driver.location):
        assert main(["delete", driver.location, "--author", ONE]) == ConfigurationError.exit_code
    assert "another engine is writing the tables" in capsys.readouterr().err
    assert main(["delete", driver.location, "--author", ONE]) == 0
    driver.run(3)
    left = DeltaTable(f"{driver.location}/readings").to_pyarrow_table()["author"].to_pylist()
    assert set(left) == {TWO}, "what a collector had by then is let in no more"
