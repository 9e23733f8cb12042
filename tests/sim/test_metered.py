"""Worlds with budgets and windows: none is exceeded, nothing urgent waits behind readings, and the ledger balances."""

from __future__ import annotations

import pytest

from tests.examples import parameters
from tests.sim.metered import run_metered


@pytest.mark.parametrize("seed", parameters(tuple(range(12)), quick=2))
def test_a_metered_world_keeps_its_rules(seed: int) -> None:
    run_metered(seed)
