"""A short, seeded run of the kill harness; `python -m tests.spark.harness` runs one for a night."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from tests.spark.harness import running

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow]

SEED = 68  # a Python worker, a driver, failing puts, the collector, a read-only store
SECONDS = 10.0


def test_each_reading_once_in_both_tables_whatever_fails(tmp_path: Path) -> None:
    said: list[str] = []
    with running(tmp_path, SEED, None, said.append) as harness:
        harness.strike_for(SECONDS)
        assert len(harness.struck) >= 3, said
        assert harness.audit() > 0
