"""`covey tables verify`: whatever a disk does to a file of the tables is found, and spreads no further."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="the tables extra is not installed")

from deltalake import DeltaTable

from covey_ingest.__main__ import main
from covey_ingest.committer import delta_log, verifying
from covey_ingest.committer.file_names import named_digest
from tests.examples import parameters
from tests.failing_s3 import FailingS3
from tests.tables_driver import URL, Driver, asked_once, reworked

pytestmark = pytest.mark.slow

Damage = Callable[[bytearray, random.Random], None]


def _flip(content: bytearray, chance: random.Random) -> None:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def _zero(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content) - 8)
    content[start : start + 512] = b"\xa5" * len(content[start : start + 512])


def _cut(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content)) :]


def _empty(content: bytearray, _: random.Random) -> None:
    content.clear()


_DAMAGE: tuple[Damage, ...] = (_flip, _zero, _cut)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of four micro-batches, to be copied."""
    folder = tmp_path_factory.mktemp("sound")
    Driver(folder / "committer", str(folder / "tables"), sizes=[1]).run(4)
    return folder / "tables"


@pytest.fixture
def driver(sound: Path, tmp_path: Path) -> Driver:
    """Tables of four micro-batches in a folder."""
    shutil.copytree(sound, tmp_path / "tables")
    return Driver(tmp_path / "committer", str(tmp_path / "tables"), sizes=[1])


def _verify(tables: str, capsys: pytest.CaptureFixture[str], *, code: int) -> Any:
    assert main(["verify", tables, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def _files(tables: str, table: str = "readings") -> list[Path]:
    return sorted(Path(uri) for uri in DeltaTable(f"{tables}/{table}").file_uris())


def _damage(file: Path, how: Damage, seed: int) -> None:
    content = bytearray(file.read_bytes())
    how(content, random.Random(seed))
    file.write_bytes(content)


def test_sound_tables_are_sound(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    found = _verify(driver.location, capsys, code=0)
    assert found["damaged"] == []
    assert found["files"] >= 4 + 4 + 4 > found["without_digest"] == 0, "four of each of three tables, and states"
    assert main(["verify", driver.location]) == 0
    assert "none is damaged" in capsys.readouterr().out
    assert all(named_digest(str(file)) for file in _files(driver.location))


@pytest.mark.parametrize("how", _DAMAGE)
def test_any_damage_of_rows_is_found(driver: Driver, capsys: pytest.CaptureFixture[str], how: Damage) -> None:
    chance = random.Random(7)
    for seed in range(8):
        file = chance.choice([*_files(driver.location), *_files(driver.location, "rollups")])
        sound = file.read_bytes()
        _damage(file, how, seed)
        [damaged] = _verify(driver.location, capsys, code=1)["damaged"]
        assert f"{driver.location}/{damaged['table']}/{damaged['path']}" == str(file)
        file.write_bytes(sound)


def test_a_missing_file_is_found(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    _files(driver.location)[0].unlink()
    [damaged] = _verify(driver.location, capsys, code=1)["damaged"]
    assert damaged["problem"] == "it is missing"


def test_a_hint_says_how_to_get_sound_tables(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    file = _files(driver.location)[0]
    _damage(file, _flip, 1)
    assert main(["verify", driver.location]) == 1
    said = capsys.readouterr()
    assert file.name in said.out
    assert "1 of " in said.err
    assert "hint: run 'covey tables run' into a new folder" in said.err


def test_merging_leaves_a_damaged_file_alone(
    driver: Driver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would get a digest that is right."""
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    damaged = _files(driver.location)[1]
    _damage(damaged, _flip, 1)
    driver.run(8)
    left = _files(driver.location)
    assert damaged in left
    assert [file for file in left if file.name.startswith("merged-") and named_digest(str(file))]
    assert [each["path"].rpartition("/")[2] for each in _verify(driver.location, capsys, code=1)["damaged"]] == [
        damaged.name
    ]


def test_an_engine_finds_damage_by_itself(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "TABLES_LOOK_S", 0.0)
    file = _files(driver.location)[2]
    _damage(file, _flip, 3)
    with driver.begin() as tables:
        tables.commit(driver.put(tables, range(4, 5)), {"node": [5]}, reworked)
        found = [each for _ in range(3) for each in tables.keep_in_time()]
    assert {Path(each.path).name for each in found} == {file.name}
    assert len(found) > 1, "round after round"


@pytest.mark.parametrize("how", [*_DAMAGE, _empty])
def test_a_damaged_entry_of_a_log_is_found(driver: Driver, capsys: pytest.CaptureFixture[str], how: Damage) -> None:
    """All but the last are attested by the next. An empty one would pass for an entry that changed nothing."""
    for seed, table in enumerate(("readings", "losses", "rollups")):
        entry = sorted(Path(driver.location, table, "_delta_log").glob("*.json"))[-2]
        sound = entry.read_bytes()
        _damage(entry, how, seed)
        found = {f"{each['table']}/{each['path']}" for each in _verify(driver.location, capsys, code=1)["damaged"]}
        assert f"{table}/_delta_log/{entry.name}" in found
        entry.write_bytes(sound)
    assert _verify(driver.location, capsys, code=0)["damaged"] == []


@pytest.mark.parametrize("seed", parameters(range(12), plain=2))
def test_a_damaged_state_is_made_again_from_the_tables(driver: Driver, seed: int) -> None:
    [state] = Path(driver.location, "state").iterdir()
    _damage(state, random.Random(seed).choice((*_DAMAGE, _empty)), seed)
    driver.run(6)
    (device,) = DeltaTable(f"{driver.location}/devices").to_pyarrow_table().to_pylist()
    assert (device["messages"], device["readings"], device["open_gaps"]) == (6, 12, 0)


def test_tables_in_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with FailingS3().running() as store:
        asked_once(store, monkeypatch)
        Driver(tmp_path / "committer").run(2)
        assert _verify(URL, capsys, code=0)["damaged"] == []
        one, other = [key for key in store.objects if "/readings/batch=" in key or "/losses/batch=" in key][:2]
        store.objects.pop(other)
        stored, at = store.objects[one]
        content = bytearray(stored)
        _flip(content, random.Random(5))
        store.objects[one] = (bytes(content), at)
        said = {each["path"]: each["problem"] for each in _verify(URL, capsys, code=1)["damaged"]}
    assert {problem for path, problem in said.items() if other.endswith(path)} == {"it is missing"}
    assert {problem for path, problem in said.items() if one.endswith(path)} == {"its content is not what was written"}
