"""`./dev versus` runs: Covey and its peers under a few faults, at a small size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.versus.disk import lacking
from bench.versus.ledger import SIZE, Ledger, content
from tests import warm_covey
from tests.proof import begins
from tests.waiting import GUARD_S

_ROOT = Path(__file__).parents[2]


@pytest.mark.proof
def test_covey_loses_nothing_and_its_peers_are_counted() -> None:
    begins()
    command = [sys.executable, "-m", "bench.versus", "--short", "--json"]
    warm_covey.share()
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert {"covey", "mosquitto", "nats"} <= document["versions"].keys(), done.stderr
    for row in document["rows"]:
        assert bool(row["skipped"]) == (row["fault"] == "edge-cut-queue" and lacking() is not None)
        for run in row["runs"]:
            assert run["acknowledged"]
            if row["system"] == "covey":
                assert (run["duplicates"], run["changed"]) == (0, 0)
                assert run["recovery_s"] is not None
                assert row["fault"] == "flipped-bit" or not run["undelivered"]


def test_the_ledger_counts_losses_duplicates_and_changes() -> None:
    ledger = Ledger()
    for number in range(4):
        assert len(content(number)) == SIZE
        ledger.acknowledge(number)
    ledger.arrive(1, content(0))
    ledger.arrive(1, content(0))  # the same place: the hub has said it again
    ledger.arrive(2, content(0))
    ledger.arrive(3, content(1)[:-1])
    ledger.arrive(None, content(1))
    ledger.arrive(None, content(1))
    ledger.arrive(None, b"99 and something else")
    assert ledger.balance().recovery_s is None
    ledger.end_fault(3)
    assert not ledger.delivers_new
    ledger.arrive(None, content(3))
    balance = ledger.balance()
    assert (balance.acknowledged, balance.undelivered, balance.lost) == (4, 1, 1)
    assert (balance.duplicates, balance.changed) == (2, 2)
    assert balance.recovery_s is not None
