"""What lets a Spark that lives for a minute start soon rather than run at its best.

1. The JVM's first compiler alone works: optimising costs more than it brings. A third off each start.
2. Python workers load PySpark from where it is installed. Spark gives them an archive of its sources, which each of
   them would compile anew: half of a worker's start, and five start with a session, one with each stream.
3. Where the machine has no Java, the one that the ingest brings serves also sessions that nobody prepares.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from covey_ingest.spark.java import java_home

_JAVA = "JDK_JAVA_OPTIONS"
_WORKER = Path(__file__).with_name("worker_python")


def quick_spark() -> dict[str, str]:
    """Return what the environment says of Java and of the workers' Python: as it is, or quick where it says nothing."""
    java = os.environ.get(_JAVA, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    python = os.environ.get("PYSPARK_PYTHON", str(_WORKER))
    home = java_home()
    where = {} if home is None else {"JAVA_HOME": str(home)}
    return {_JAVA: java, "PYSPARK_PYTHON": python, "COVEY_WORKER_PYTHON": sys.executable, **where}
