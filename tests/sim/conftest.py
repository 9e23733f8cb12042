"""`pytest tests/sim --seeds 5000` runs more; `pytest tests/sim --seed 42` replays one."""

from __future__ import annotations

import pytest

SEEDS = 30
QUICK_SEEDS = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--seeds", type=int, default=None, help="how many seeds of the simulation to run")
    parser.addoption("--seed", type=int, default=None, help="the one seed to run")


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    """Return the seeds to run."""
    one, many = request.config.getoption("--seed", None), request.config.getoption("--seeds", None)
    usual = QUICK_SEEDS if request.config.getoption("--quick") else SEEDS
    return range(one, one + 1) if one is not None else range(usual if many is None else many)
