"""The local engine within what a small machine has: 1 GiB for all its processes, which load what they need once."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from deltalake import DeltaTable

from tests.meta.source_tree import ROOT
from tests.spark.fleet import Author, Collector
from tests.spark.processes import below

pytestmark = [pytest.mark.slow, pytest.mark.processes]

_BYTES = 1024**3
_SEGMENTS = 12


def _resident(pid: int) -> tuple[int, bool]:
    """Return how much memory a process and those below it have, and whether one has loaded too much.

    That is pandas or Spark, or everything once more, as a server of workers would.
    """
    total, found = 0, below(pid)
    heavy = any("forkserver" in process.command for process in found.values())
    for each in found:
        try:
            rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
            maps = Path(f"/proc/{each}/maps").read_text()
        except OSError:
            continue  # it has ended
        total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
        heavy = heavy or "/pandas/" in maps or "/pyspark/" in maps
    return total, heavy


def test_the_local_engine_needs_less_than_a_small_machine_has(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    fleet = [Author(collector, seed) for seed in range(4)]
    for _ in range(_SEGMENTS):
        collector.land(*(device.measure(1000) for device in fleet))
    command = [sys.executable, "-m", "covey_ingest", "run", str(collector.vault), str(tmp_path / "tables")]
    command += ["--available-now", "--key-file", str(collector.key_file), "--engine", "local"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as engine:
        most, heavy, looking = 0, False, threading.Event()
        while engine.poll() is None:
            total, found = _resident(engine.pid)
            most, heavy = max(most, total), heavy or found
            looking.wait(0.2)
    assert engine.returncode == 0
    assert 0 < most < _BYTES, f"{most / 2**20:.0f} MiB"
    assert not heavy
    assert (
        DeltaTable(tmp_path / "tables" / "readings").to_pyarrow_table(columns=["seq"]).num_rows == _SEGMENTS * 4 * 1000
    )
