"""`pytest tests/sim --seeds 5000` runs more; `pytest tests/sim --seed 42` replays one."""

from __future__ import annotations

import pytest

SEEDS = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--seeds", type=int, default=SEEDS, help="seeds of the simulation to run")
    parser.addoption("--seed", type=int, default=None, help="the one seed to run")


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    """Return the seeds to run."""
    one = request.config.getoption("--seed", None)
    return range(one, one + 1) if one is not None else range(request.config.getoption("--seeds", SEEDS))
