"""A cluster that has no executor for an ingest: it ends and says so, and can be started again; Spark waits on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")
pytest.importorskip("obstore", reason="the cloud extra is not installed")

from tests.failing_s3 import FailingS3
from tests.meta.source_tree import ROOT
from tests.spark.fleet import Author, Collector
from tests.waiting import GUARD_S

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.processes]

_PROGRAM = """
import sys
from pathlib import Path
from covey.errors import TransientError
from covey_ingest.spark.session import spark_session
from covey_ingest.options import SourceOptions
from covey_ingest.spark import spark_engine

spark_engine.UNSERVED_S_MAX = 2.0
source, tables = SourceOptions(sys.argv[1], Path(sys.argv[2])), sys.argv[3]
with_no_room = {"spark.master": "local-cluster[1,1,1024]", "spark.executor.cores": "2"}
session = spark_session("no room", **with_no_room)
for into in (tables, "s3://bucket/tables"):
    try:
        spark_engine.run_on_spark(source, into, spark=session)
    except TransientError as error:
        print(error)
"""


def test_an_ingest_without_executors_ends(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    collector.land(Author(collector, 1).measure(4))
    with FailingS3().running() as store:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(collector.vault), str(collector.key_file), str(tmp_path / "tables")],
            cwd=tmp_path,
            env=os.environ | store.environment | {"PYTHONPATH": str(ROOT), "SPARK_WORKER_DIR": str(tmp_path / "work")},
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.count("no executor took a task") == 2, (done.stdout, done.stderr[-5000:])
