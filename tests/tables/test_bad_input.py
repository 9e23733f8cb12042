"""What engines are pointed at by mistake: one sentence and a hint each, and the tables are as they were."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from covey_ingest.__main__ import main
from tests.failing_s3 import FailingS3
from tests.spark.fleet import Author, Collector
from tests.tables.ingesting import audited, copied, ingest, rotated
from tests.waiting import GUARD_S

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
    mark, copies = tmp_path / "tables" / "covey.json", tmp_path / "tables" / "copies" / "tables"
    before = mark.read_bytes()
    mark.write_text(json.dumps(json.loads(before) | {"layout": 2}))
    shutil.rmtree(copies)
    assert "a newer Covey wrote" in _refused(collector, tmp_path / "tables", capsys)
    mark.write_bytes(before)
    shutil.rmtree(copies)
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


def test_a_key_file_of_another_vault(collector: Collector, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Collector(tmp_path / "other", seed=7)
    command = ["run", str(collector.vault), str(tmp_path / "new"), "--key-file", str(other.key_file), "--available-now"]
    assert main(command) == 78
    assert "belongs to another vault" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_key_file_without_the_newest_key_gets_a_warning_at_each_start(
    collector: Collector, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, tables = copied(collector, tmp_path / "old.key"), tmp_path / "tables"
    rotated(collector)
    collector.land(Author(collector, 2).measure(10))
    command = ["run", str(collector.vault), str(tables), "--key-file", str(old), "--available-now"]
    for _ in range(2):
        assert main(command) == 0
        warning, hint = capsys.readouterr().err.splitlines()
        assert warning.startswith(f"warning: collector {collector.node.hex()[:8]} is not followed any further: the key")
        assert "copy the collector's vault.key again" in hint
    assert sum(_audited_after(collector, tmp_path).values()) == 50


def test_a_vault_that_goes_back_and_forth_while_it_is_read(
    collector: Collector, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, tables = tmp_path / "before", tmp_path / "tables"
    shutil.copytree(collector.vault, before)
    collector.land(Author(collector, 2).measure(10))
    ingest(collector.vault, tables)
    now = tmp_path / "now"
    collector.vault.rename(now)
    shutil.copytree(before, collector.vault)
    command = ["run", str(collector.vault), str(tables), "--key-file", str(now / "vault.key"), "--available-now"]
    assert main(command) == 0
    assert "the vault has an older manifest than before" in capsys.readouterr().err
    shutil.rmtree(collector.vault)
    now.rename(collector.vault)
    collector.land(Author(collector, 3).measure(10))
    assert sum(_audited_after(collector, tmp_path).values()) == 60


def test_two_engines_that_live_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In an object store nothing locks: the later one wins, and the other says so."""
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    collector.land(author.measure(10))
    with FailingS3().running() as store:
        command = [sys.executable, "-m", "covey_ingest", "run", str(collector.vault), "s3://bucket/tables"]
        command += ["--key-file", str(collector.key_file), "--trigger-seconds", "0.2"]
        environment = os.environ | store.environment
        first = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert first.stdout is not None
            assert "10 readings" in first.stdout.readline()
            later = subprocess.run(
                [*command, "--available-now"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=GUARD_S,
                check=False,
            )
            assert (later.returncode, later.stderr) == (0, "")
            collector.land(author.measure(10))
            _, said = first.communicate(timeout=GUARD_S)
        finally:
            first.kill()
            first.wait()
        assert first.returncode == 78
        lines = [line for line in said.splitlines() if line.startswith(("error", "hint"))]
        assert lines == [
            "error: another engine has started to write the tables at s3://bucket/tables",
            "hint: run only one: keep that one, or stop it and restart this one",
        ]


def _audited_after(collector: Collector, folder: Path) -> dict[str, int]:
    """Return what the tables hold once an engine has gone on."""
    ingest(collector.vault, folder / "tables")
    return audited(folder / "tables", collector)
