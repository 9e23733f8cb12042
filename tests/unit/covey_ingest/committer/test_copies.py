"""Copies of logs and documents of tables: whatever a disk does to one file, readers get the rows that were written."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the tables extra is not installed")

import pyarrow.compute as pc
from deltalake import DeltaTable

from bench.rot.damages import HOW, damage, damaged
from covey.errors import StorageError
from covey_ingest.committer import delta_log, verifying
from covey_ingest.committer.deleting import delete, of_author
from covey_ingest.committer.table_locations import location_at
from covey_ingest.committer.verifying import verified
from covey_ingest.queries.querying import export, query
from tests.examples import parameters
from tests.failing_s3 import FailingS3
from tests.tables_driver import URL, Driver, asked_once, reworked

pytestmark = pytest.mark.slow

ONE, TWO = "a" * 64, "b" * 64


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of five micro-batches with a checkpoint, without a device that was deleted."""
    folder = tmp_path_factory.mktemp("sound")
    driver = Driver(folder / "committer", str(folder / "tables"), sizes=[1], authors=(ONE, TWO))
    with pytest.MonkeyPatch.context() as merging:
        merging.setattr(delta_log, "BATCHES_PER_MERGE", 4)
        driver.run(4)
    delete(location_at(driver.location), of_author(TWO), lambda before: before.with_author(TWO, 1))
    driver.authors = (ONE,)
    driver.run(5)
    return folder / "tables"


@pytest.fixture
def driver(sound: Path, tmp_path: Path) -> Driver:
    """A copy of these tables."""
    shutil.copytree(sound, tmp_path / "tables")
    return Driver(tmp_path / "committer", str(tmp_path / "tables"), sizes=[1], authors=(ONE,))


def _rows(location: str, table: str = "readings") -> list[str]:
    """Return rows as readers do that go by the ranges which a log has of each file."""
    rows = DeltaTable(f"{location}/{table}").to_pyarrow_dataset()
    return sorted(map(repr, rows.to_table(filter=pc.field("seq") > -1).to_pylist()))


def _newest(driver: Driver, pattern: str = "*.json", table: str = "readings") -> Path:
    return max(Path(driver.location, table, "_delta_log").glob(pattern))


def _name_no_file(entry: Path) -> None:
    """Damage an entry so that it is a sound one of other rows: a bit in `add` of the newest file."""
    lines = entry.read_bytes().splitlines(keepends=True)
    entry.write_bytes(b"".join(line.replace(b'{"add":', b'{"adf":') for line in lines))
    assert b'"adf"' in entry.read_bytes()


def test_a_bit_of_the_newest_entry_makes_no_other_rows(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    before, entry = _rows(driver.location), _newest(driver)
    _name_no_file(entry)
    assert len(_rows(driver.location)) == len(before) - 2, "any reader takes it for what was written"
    with pytest.raises(StorageError, match=f"{entry.name} is damaged"):
        query(driver.location, "SELECT * FROM readings", "csv")
    with pytest.raises(StorageError, match=f"{entry.name} is damaged"):
        export(driver.location, "readings", Path(driver.location, "out"))
    assert [each.has_copy for each in verified(location_at(driver.location), ["readings"]) if each.problem] == [True]
    with driver.begin() as tables:
        assert [(each.path, each.restored) for each in tables.restored()] == [(f"_delta_log/{entry.name}", True)]
        assert tables.restored() == [], "told once"
    assert _rows(driver.location) == before
    query(driver.location, "SELECT count(*) FROM readings", "csv")
    assert str(len(before)) in capsys.readouterr().out


def test_an_engine_at_work_restores_a_log(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "TABLES_LOOK_S", 0.0)
    with driver.begin() as tables:
        tables.commit(driver.put(tables, range(5, 6)), {"node": [6]}, reworked)
        before, entry = _rows(driver.location), _newest(driver)
        _name_no_file(entry)
        assert [(each.path, each.restored) for each in tables.keep_in_time()] == [(f"_delta_log/{entry.name}", True)]
        assert _rows(driver.location) == before


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pattern", ["*.json", "*.checkpoint.parquet", "_last_checkpoint"])
def test_a_damaged_file_of_a_log_is_restored(driver: Driver, pattern: str, how: str) -> None:
    before = _rows(driver.location)
    for table in ("readings", "losses"):
        file = _newest(driver, pattern, table)
        content = file.read_bytes()
        if how == "gone":
            file.unlink()
        else:
            file.write_bytes(damaged(content, how, random.Random(how)))
        found = [each for each in verified(location_at(driver.location), [table], restores=True) if each.problem]
        assert [each.restored for each in found] == [True]
        assert file.read_bytes() == content
    assert _rows(driver.location) == before


@pytest.mark.parametrize("seed", parameters(range(12), plain=2))
@pytest.mark.parametrize("name", ["covey.json", "deletions.json"])
def test_a_damaged_document_is_restored(driver: Driver, name: str, seed: int) -> None:
    """A bit of `covey.json` would name other tables, and fill them again; one of the other would bring rows back."""
    chance, document = random.Random(seed), Path(driver.location, name)
    content = document.read_bytes()
    damage(document, chance)
    driver.run(6)
    assert name != "deletions.json" or document.read_bytes() == content
    assert len(_rows(driver.location)) == 12


def test_new_tables_take_the_deletions_of_others(driver: Driver, tmp_path: Path) -> None:
    """People lay `deletions.json` into an empty folder; from the first run on it has a copy."""
    (tmp_path / "new").mkdir()
    shutil.copy(Path(driver.location, "deletions.json"), tmp_path / "new")
    fresh = Driver(tmp_path / "committer", str(tmp_path / "new"), authors=(ONE,))
    fresh.run(2)
    Path(fresh.location, "deletions.json").unlink()
    fresh.run(3)
    assert Path(fresh.location, "deletions.json").read_bytes() == Path(driver.location, "deletions.json").read_bytes()


def test_a_damaged_copy_is_made_again(driver: Driver) -> None:
    copies = [each for each in Path(driver.location, "copies", "readings").rglob("*") if each.is_file()]
    copies = [each for each in copies if each.stat().st_size]
    sound = {each: each.read_bytes() for each in copies}
    for seed, copy in enumerate(copies):
        damage(copy, random.Random(seed))
    assert not [each for each in verified(location_at(driver.location), ["readings"], restores=True) if each.problem]
    assert {each: each.read_bytes() for each in copies} == sound


@pytest.mark.parametrize("part", ["", "_change_data"])
@pytest.mark.parametrize("table", ["readings", "rollups"])
def test_damage_of_a_file_that_the_library_wrote_is_found(driver: Driver, table: str, part: str) -> None:
    """Its name has no digest: what is left of a file that lost a deleted device's rows, and its change feed."""
    [file] = Path(driver.location, table, part).glob("part-*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(content)
    found = [each for each in verified(location_at(driver.location), [table]) if each.problem]
    assert [f"{each.table}/{each.path}" for each in found] == [str(file.relative_to(driver.location))]


def test_a_table_that_is_replaced_whole_is_written_again(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "TABLES_LOOK_S", 0.0)
    with driver.begin() as tables:
        before = DeltaTable(f"{driver.location}/devices").to_pyarrow_table().to_pylist()
        [file] = map(Path, DeltaTable(f"{driver.location}/devices").file_uris())
        damage(file, random.Random(3))
        assert ("devices", True) in {(each.table, each.restored) for each in tables.keep_in_time()}
    assert DeltaTable(f"{driver.location}/devices").to_pyarrow_table().to_pylist() == before


def test_a_table_from_a_backup_stays_what_it_was_then(driver: Driver, tmp_path: Path) -> None:
    """Copies of later entries are not brought back: the files that they add are gone."""
    readings = Path(driver.location, "readings")
    shutil.copytree(readings, tmp_path / "backup")
    driver.run(7)
    shutil.rmtree(readings)
    shutil.copytree(tmp_path / "backup", readings)
    assert not [each for each in verified(location_at(driver.location), ["readings"], restores=True) if each.problem]
    assert len(_rows(driver.location)) == 10
    driver.run(8)
    assert len(_rows(driver.location)) == 16


def test_a_lost_state_is_made_again_of_files_that_the_library_wrote(driver: Driver) -> None:
    """Those that lost the rows of a deleted device."""
    shutil.rmtree(Path(driver.location, "state"))
    driver.run(6)
    assert len(_rows(driver.location)) == 12
    (device,) = DeltaTable(f"{driver.location}/devices").to_pyarrow_table().to_pylist()
    assert (device["messages"], device["readings"], device["open_gaps"]) == (6, 12, 0)


def test_an_entry_and_its_copy_are_damaged(driver: Driver) -> None:
    entry = _newest(driver)
    [copy] = Path(driver.location, "copies", "readings", "_delta_log").glob(f"{entry.name}.*")
    _name_no_file(entry)
    _name_no_file(copy)
    with pytest.raises(StorageError, match="nor is its copy"):
        driver.begin()


def test_a_store_returns_a_damaged_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FailingS3().running() as store:
        asked_once(store, monkeypatch)
        driver = Driver(tmp_path / "committer")
        driver.run(4)
        before = DeltaTable(f"{URL}/readings").to_pyarrow_table().num_rows
        for table in ("readings", "losses"):
            key = max(key for key in store.objects if f"tables/{table}/_delta_log/" in key and "/copies/" not in key)
            content, at = store.objects[key]
            store.objects[key] = (content.replace(b'{"add":', b'{"adf":'), at)
        key = "bucket/tables/covey.json"
        content, at = store.objects[key]
        store.objects[key] = (content.replace(b"ingest", b"ingess"), at)
        with driver.begin() as tables:
            assert len(tables.restored()) >= 2
        assert DeltaTable(f"{URL}/readings").to_pyarrow_table().num_rows == before
        driver.run(5)
        assert DeltaTable(f"{URL}/readings").to_pyarrow_table().num_rows == 10
