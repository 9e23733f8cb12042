"""The file of Spark's classes: a session uses it, and one that does not fit hinders nobody."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covey_ingest.spark.java import java_home
from demo.quick_spark import classes_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_session_takes_its_classes_from_the_file(spark: SparkSession) -> None:
    home, gateway = java_home(), spark.sparkContext._gateway
    assert home is not None
    assert gateway is not None
    number = gateway.jvm.java.lang.ProcessHandle.current().pid()
    assert not classes_file(home).exists() or str(classes_file(home)) in Path(f"/proc/{number}/maps").read_text()


def test_a_file_that_does_not_fit_hinders_nobody(tmp_path: Path) -> None:
    home = java_home()
    assert home is not None
    wrong = tmp_path / "classes"
    wrong.write_bytes(b"\0" * 100_000)
    done = subprocess.run(
        [home / "bin" / "java", "-version"],
        env=os.environ | {"JDK_JAVA_OPTIONS": f"-XX:SharedArchiveFile={wrong} -Xlog:disable"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout
