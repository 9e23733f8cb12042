"""What engines are pointed at by mistake: one sentence and a hint each, and the tables are as they were."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from covey_ingest.__main__ import main
from tests.spark.fleet import Author, Collector
from tests.tables.ingesting import audited, ingest

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    for _ in range(3):
        collector.land(author.measure(10))
    ingest(collector.vault, tmp_path / "tables")
    collector.land(author.measure(10))
    return collector


def _refused(collector: Collector, tables: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run an engine that must refuse; return what it says, which is one error and one hint."""
    before = {file: file.read_bytes() for file in tables.rglob("*") if file.is_file() and file.name != ".lock"}
    command = ["run", str(collector.vault), str(tables), "--key-file", str(collector.key_file), "--available-now"]
    assert main(command) == 78
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in lines if line.startswith(("error", "hint"))] == ["error", "hint"]
    assert {file: file.read_bytes() for file in before} == before
    return next(line for line in lines if line.startswith("error"))


def test_tables_of_another_fleet(collector: Collector, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Collector(tmp_path / "other", seed=7)
    other.land(Author(other, 2).measure(10))
    assert "filled from another vault" in _refused(other, tmp_path / "tables", capsys)
    assert sum(_audited_after(collector, tmp_path).values()) == 40


def test_tables_of_a_later_version(collector: Collector, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = tmp_path / "tables" / "covey.json"
    before = mark.read_bytes()
    mark.write_text(json.dumps(json.loads(before) | {"layout": 2}))
    assert "a newer Covey wrote" in _refused(collector, tmp_path / "tables", capsys)
    mark.write_bytes(before)
    assert sum(_audited_after(collector, tmp_path).values()) == 40


def test_a_folder_of_something_else(collector: Collector, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "photographs"
    folder.mkdir()
    (folder / "cat.jpg").write_bytes(b"cat")
    assert "is not empty" in _refused(collector, folder, capsys)
    assert (folder / "cat.jpg").read_bytes() == b"cat"


def test_a_second_engine(collector: Collector, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "tables" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another engine is writing" in _refused(collector, tmp_path / "tables", capsys)
    assert sum(_audited_after(collector, tmp_path).values()) == 40


def _audited_after(collector: Collector, folder: Path) -> dict[str, int]:
    """Return what the tables hold once an engine has gone on."""
    ingest(collector.vault, folder / "tables")
    return audited(folder / "tables", collector)
