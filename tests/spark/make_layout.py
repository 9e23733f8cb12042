"""How `layouts/*.tar.gz` were made: `python -m tests.spark.make_layout tests/spark/layouts/NAME.tar.gz`.

Run it before a change of what tables or checkpoint are, and commit what it makes: later code must read all of them.
Within are a vault of three segments, tables that hold the first two, in one micro-batch, and their checkpoint.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from covey_ingest.job import TableFolder, run
from covey_ingest.source import SourceOptions
from tests.spark.fleet import Author, Collector

READINGS = 10
SEEDS = (1, 2)


def main(target: Path) -> None:
    """Make one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "layout"
        folder.mkdir()
        collector, tables = Collector(folder / "vault"), folder / "tables"
        fleet = [Author(collector, seed) for seed in SEEDS]
        for _ in range(2):
            collector.land(*(device.measure(READINGS) for device in fleet))
        source = SourceOptions(str(collector.vault), collector.key_file)
        run(source, TableFolder(tables, tables / ".checkpoint"), trigger_seconds=None)
        collector.land(*(device.measure(READINGS) for device in fleet))
        target.parent.mkdir(exist_ok=True)
        with tarfile.open(target, "w:gz") as archive:
            archive.add(folder, "layout", filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(Path(sys.argv[1]))
