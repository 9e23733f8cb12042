"""A short, seeded run of the kill harness; `python -m tests.spark.harness` runs one for a night."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from tests.spark.failing_store import Fault
from tests.spark.harness import Where, running
from tests.spark.processes import working_in
from tests.waiting import Patience

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow]

SEED = 1
STRIKES = ("Python worker (tables-spark)", Fault.FAILING, "driver (tables-spark)", Fault.READ_ONLY, "collector")


def test_each_reading_once_whatever_fails(tmp_path: Path) -> None:
    said: list[str] = []
    with running(tmp_path, SEED, said.append, sinks=[Where.SPARK]) as harness:
        for name in STRIKES:
            harness.strike(name)
        assert harness.audit() > 0, said
        assert harness.ingests[0].starts > 1, said
    patience = Patience(120)
    while left := working_in(tmp_path):  # the JVM of a killed driver finds that out
        assert patience.left, left
        time.sleep(0.05)
