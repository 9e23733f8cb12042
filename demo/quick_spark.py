"""What lets a Spark that lives for a minute start soon rather than run at its best.

1. The JVM's first compiler alone works: optimising costs more than it brings. A third off each start.
2. Python workers load PySpark from where it is installed. Spark gives them an archive of its sources, which each of
   them would compile anew: half of a worker's start, and five start with a session, one with each stream.
3. Where the machine has no Java, the one that the ingest brings serves also sessions that nobody prepares.
4. Java 17 maps Spark's 14,000 classes from a file in which they are loaded and verified (class data sharing), in place
   of 280 archives: 10 s of processor time for a session become 6. The tests of Spark make the file, `classes_file`,
   once for each PySpark, in 40 s. Without it, or if it does not fit, the JVM loads the classes as usual: it compares
   sizes and times of the archives with those that the file was made of. No file of a later Java fits: it names each
   archive once, and the class path of Spark names one twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from covey_ingest.spark.java import java_home

_JAVA = "JDK_JAVA_OPTIONS"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_WORKER = Path(__file__).with_name("worker_python")
_CLASSES = Path(__file__).parents[1] / ".cache" / "spark-classes"
_MAKING_S_MAX = 500
_SESSION = """
import sys
from covey_ingest.spark.session import spark_session
spark = spark_session("classes", **{"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"})
frame = spark.range(9).selectExpr("id", "cast(id as string) as name", "array(id) as list")
frame.groupBy("name").count().collect()
frame.write.parquet(f"{sys.argv[1]}/written")
read = spark.readStream.schema(frame.schema).parquet(f"{sys.argv[1]}/written").writeStream
read = read.foreachBatch(lambda rows, _: rows.collect()).option("checkpointLocation", f"{sys.argv[1]}/checkpoint")
read.trigger(availableNow=True).start().awaitTermination()
print(spark._jvm.java.lang.System.getProperty("java.class.path"))
"""


def quick_spark() -> dict[str, str]:
    """Return what the environment says of Java and of the workers' Python: as it is, or quick where it says nothing."""
    home = java_home()
    java = os.environ.get(_JAVA, _QUICK if home is None else f"{_QUICK} {_mapped(classes_file(home))}".rstrip())
    python = os.environ.get("PYSPARK_PYTHON", str(_WORKER))
    where = {} if home is None else {"JAVA_HOME": str(home)}
    return {_JAVA: java, "PYSPARK_PYTHON": python, "COVEY_WORKER_PYTHON": sys.executable, **where}


def _mapped(classes: Path) -> str:
    """Return options that take classes from a file. Of Spark's launcher, which has other classes, no word is shown."""
    return f"-XX:SharedArchiveFile={classes} -Xlog:disable" if classes.exists() and " " not in str(classes) else ""


@cache
def classes_file(home: Path) -> Path:
    """Return where the file of this Java and this PySpark is, if there is one."""
    made_of = f"{home.resolve()} {Path(sys.prefix).resolve()} {version('pyspark')} {_release(home)}"
    return _CLASSES / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"


def _release(home: Path) -> str:
    return (home / "release").read_text() if (home / "release").exists() else ""


def make_classes() -> None:
    """Make the file unless it is there or another process makes it, for which this one waits; a failure leaves none."""
    home = java_home()
    if home is None or 'JAVA_VERSION="17.' not in _release(home):
        return
    _CLASSES.mkdir(parents=True, exist_ok=True)
    with (_CLASSES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not classes_file(home).exists():
            with suppress(OSError, LookupError, subprocess.SubprocessError):
                _make(home)


def _make(home: Path) -> None:
    """Note which classes a session loads, and have a JVM write these to the file."""
    with TemporaryDirectory(dir=_CLASSES) as name:
        folder = Path(name)
        listing = {_JAVA: f"{_QUICK} -XX:DumpLoadedClassList={folder}/list.%p -Xlog:disable"}
        session = [sys.executable, "-c", _SESSION, name]
        environment = os.environ | quick_spark() | listing
        classpath = _printed(session, cwd=name, env=environment).split()[-1]
        lists = sorted(folder.glob("list.*"), key=lambda each: each.stat().st_size)  # one is the launcher's
        dump = [str(home / "bin/java"), *_QUICK.split(), "-Xmx1g", "-Xshare:dump", "-Xlog:disable"]
        dump += [f"-XX:SharedClassListFile={lists[-1]}", f"-XX:SharedArchiveFile={folder}/classes"]
        _printed([*dump, "-cp", classpath])
        for old in _CLASSES.glob("*.jsa"):
            old.unlink()
        (folder / "classes").rename(classes_file(home))


def _printed(command: list[str], **how: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_MAKING_S_MAX, **how)
    return str(done.stdout)
