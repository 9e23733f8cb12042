"""Processes of their own: `format("covey")` in a session that nobody has told of it; a machine without Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from covey_ingest.spark.java import java_home
from tests.meta.source_tree import ROOT
from tests.spark.fleet import Author, Collector
from tests.trapped_folder import TrappedFolder
from tests.waiting import GUARD_S

pytestmark = pytest.mark.spark

_PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
vault, key_file, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
batch = spark.read.format("covey").option("keyFile", key_file).load(vault)
counts = [sum(len(row.times) for row in batch.collect())]
stream = spark.readStream.format("covey").option("keyFile", key_file).load(vault)
query = (stream.writeStream.foreachBatch(lambda rows, _: counts.append(sum(len(row.times) for row in rows.collect())))
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
query.awaitTermination()
print(json.dumps(counts))
"""


def test_a_session_finds_the_source_by_itself(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    collector.land(Author(collector, 1).measure(4), Author(collector, 2).measure(3))
    installed = os.pathsep.join(str(ROOT / folder) for folder in ("agent", "spark_ingest"))
    words = [str(collector.vault), str(collector.key_file), str(tmp_path / "checkpoint")]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": installed},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [7, 7]


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the machine's Java off the PATH, and leave all other programs there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in filter(None, os.environ["PATH"].split(os.pathsep)):
        for program in Path(folder).glob("*"):
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("no_java")
def test_java_is_found_at_the_given_place(monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_home()
    assert home is not None
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_home() == home
    version = subprocess.run([home / "bin/java", "-version"], capture_output=True, text=True, check=True).stderr
    assert 'version "21' in version


def _run(engine: str, collector: Collector, tables: Path, **how: Any) -> subprocess.CompletedProcess[str]:
    words = [str(collector.vault), str(tables), "--key-file", str(collector.key_file), "--available-now", "--json"]
    command = [sys.executable, "-P", "-m", "covey.cli.main", "tables", "run", "--engine", engine, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False, **how)


def test_the_local_engine_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    collector, folder = Collector(tmp_path / "vault"), TrappedFolder(tmp_path / "here")
    collector.land(Author(collector, 1).measure(4), Author(collector, 2).measure(3))
    done = _run("local", collector, tmp_path / "tables", cwd=folder.path)
    assert not folder.executed
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["readings"] == 7


_SLOW = f"""#!{sys.executable}
import os, sys, time
if "pyspark.sql.streaming.python_streaming_source_runner" in sys.argv:
    try:
        os.mkdir(__file__ + ".started")
        time.sleep(12)
    except FileExistsError:
        pass
os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])
"""


@pytest.mark.usefixtures("no_java")
def test_spark_starts_without_java_with_a_slow_python_in_a_trapped_folder(
    tmp_path: Path,
) -> None:
    """Three in one, as a start of Spark takes 20 s of processor time.

    1. The machine has no Java: the extra `jre` brings one.
    2. Spark waits 10 s for a Python worker; a busy machine once took longer, and the ingest ended.
    3. No worker imports from the working directory.
    """
    collector, folder = Collector(tmp_path / "vault"), TrappedFolder(tmp_path / "here")
    collector.land(Author(collector, 1).measure(4), Author(collector, 2).measure(3))
    slow = tmp_path / "python"
    slow.write_text(_SLOW)
    slow.chmod(0o755)
    tables = tmp_path / "tables"
    done = _run("spark", collector, tables, cwd=folder.path, env=os.environ | {"PYSPARK_PYTHON": str(slow)})
    assert not folder.executed
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "python.started").exists()
    assert json.loads(done.stdout)["readings"] == 7
    from tests.tables.ingesting import audited

    assert sorted(audited(tables, collector).values()) == [3, 4]
