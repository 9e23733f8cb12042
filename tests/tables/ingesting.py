"""The local engine, run over all that a vault holds now, in this process; and its tables, audited from outside."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from covey.adapters.keys.vault_key_file import VaultKeyFile
from covey.core.now import Now
from covey_ingest.local_engine import run_here
from covey_ingest.options import SourceOptions
from covey_ingest.progress import Lag, Progress, Watcher
from tests.outside.audit import audit
from tests.outside.holdings import Holdings, Kind
from tests.outside.vault import Vault
from tests.spark.fleet import NOW_US, Collector


class Recorder(Watcher):
    """All that an engine tells."""

    def __init__(self) -> None:
        self.batches: list[Progress] = []
        self.lagging: list[Lag] = []

    def written(self, progress: Progress) -> None:
        """Note a micro-batch."""
        self.batches.append(progress)

    def lags(self, lag: Lag) -> None:
        """Note how much was still to come."""
        self.lagging.append(lag)


class StopAfter(Recorder):
    """Asks an engine to stop after some micro-batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.stop = threading.Event()
        self._batches = batches

    def written(self, progress: Progress) -> None:
        """Note a micro-batch."""
        super().written(progress)
        if len(self.batches) >= self._batches:
            self.stop.set()


def ingest(
    vault: Path,
    tables: Path | str,
    key_file: Path | None = None,
    *,
    recorder: Recorder | None = None,
    stop: threading.Event | None = None,
    **options: Any,
) -> list[Progress]:
    """Take in what is there and return what was told of each micro-batch, all of which `recorder` has, too.

    The key file lies below the vault unless it is named; further options are `SourceOptions`.
    """
    recorder = recorder or Recorder()
    source = SourceOptions(str(vault), key_file or vault / "vault.key", **options)
    run_here(source, str(tables), trigger_seconds=None, watcher=recorder, stop=stop, workers=2)
    return recorder.batches


def rows_of(tables: Path | str, name: str, *order: str) -> list[dict[str, Any]]:
    """Return a table's rows as its log has them."""
    rows = table_of(tables, name)
    found: list[dict[str, Any]] = (rows.sort_by([(each, "ascending") for each in order]) if order else rows).to_pylist()
    return found


def table_of(tables: Path | str, name: str) -> pa.Table:
    """Return a table as its log has it."""
    return DeltaTable(f"{tables}/{name}").to_pyarrow_table()


def audited(tables: Path | str, collector: Collector, *expected: Kind) -> dict[str, int]:
    """Return how many readings of each author the tables hold: each once, and all that the vault holds.

    Of findings those of an expected kind alone are let pass.
    """
    holdings = Holdings(None)
    holdings.take(Vault(str(collector.vault), collector.key_file))
    found = audit(holdings, [tables])
    assert {each.kind for each in found.findings} <= {*expected}, found.findings
    return dict(found.rows[str(tables)])


def copied(collector: Collector, path: Path) -> Path:
    """Do what `covey vault export-key` does."""
    VaultKeyFile(path).write(VaultKeyFile(collector.key_file).read().copy())
    return path


def rotated(collector: Collector) -> None:
    """Do what a collector does before it lands anything after a removal."""
    now = Now(0, NOW_US)
    collector.key = collector.keys().rotate([], now).newest
    collector.keys().prepare([], now)
