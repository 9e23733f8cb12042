"""The ingest from an object store, as a person starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from covey.adapters.objects.cloud import open_cloud_store
from covey.adapters.objects.folder import DirectoryStore
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES
from tests.integration.s3_server import S3Server, s3_server, s3_vault
from tests.spark.fleet import Author, Collector
from tests.tables.ingesting import rows_of
from tests.waiting import GUARD_S

__all__ = ["s3_server", "s3_vault"]

pytestmark = pytest.mark.processes


def test_a_vault_in_s3_becomes_tables(tmp_path: Path, s3_server: S3Server, s3_vault: str) -> None:
    collector = Collector(tmp_path / "vault")
    collector.land(Author(collector, 1).measure(4), Author(collector, 2).measure(3))
    local, remote = DirectoryStore(collector.vault), open_cloud_store(s3_vault)
    for key in local.keys("vaults/"):
        remote.put(key, local.get(key, MAXIMUM_SEGMENT_BYTES) or b"")
    tables = tmp_path / "tables"
    words = [s3_vault, str(tables), "--key-file", str(collector.key_file), "--available-now"]
    done = subprocess.run(
        [sys.executable, "-m", "covey_ingest", *words],
        env=os.environ | s3_server.environment,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(rows_of(tables, "readings")) == 7
    assert "not a secret" not in done.stdout + done.stderr
