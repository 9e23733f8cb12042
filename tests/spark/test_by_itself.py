"""Processes of their own: `format("covey")` in a session that nobody has told of it, and Python that starts slowly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_no_engine_and_no_worker_imports_from_the_working_directory(tmp_path: Path, engine: str) -> None:
    collector, folder = Collector(tmp_path / "vault"), TrappedFolder(tmp_path / "here")
    collector.land(Author(collector, 1).measure(4), Author(collector, 2).measure(3))
    words = [str(collector.vault), str(tmp_path / "tables"), "--key-file", str(collector.key_file), "--available-now"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "covey.cli.main", "tables", "run", "--engine", engine, *words, "--json"],
        cwd=folder.path,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
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


def test_python_that_starts_too_slowly_for_spark_is_waited_for(tmp_path: Path) -> None:
    """Spark gives it 10 s; a busy machine once took longer, and the ingest ended."""
    collector = Collector(tmp_path / "vault")
    collector.land(Author(collector, 1).measure(4), Author(collector, 2).measure(3))
    slow = tmp_path / "python"
    slow.write_text(_SLOW)
    slow.chmod(0o755)
    words = [str(collector.vault), str(tmp_path / "tables"), "--key-file", str(collector.key_file), "--available-now"]
    words += ["--engine", "spark"]
    done = subprocess.run(
        [sys.executable, "-m", "covey_ingest", *words, "--json"],
        cwd=ROOT,
        env=os.environ | {"PYSPARK_PYTHON": str(slow)},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "python.started").exists()
    assert json.loads(done.stdout)["readings"] == 7
