"""`format("covey")` in a session that nobody has told of it: PySpark finds `pyspark_covey` where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.source_tree import ROOT
from tests.spark.fleet import Author, Collector
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
