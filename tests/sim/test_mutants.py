"""A simulation is as good as the mistakes that it catches."""

from __future__ import annotations

import re

import pytest

from tests.proof import begins
from tests.sim.ledger import ViolationError
from tests.sim.mutants import MUTANTS, Mutant
from tests.sim.template import template
from tests.sim.world import run_seed

_SEEDS = 200
"""Within so many seeds each mistake must show."""


@pytest.mark.proof
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_is_caught(mutant: Mutant) -> None:
    begins()
    template()  # made without the mistake
    with mutant.applied():
        for seed in range(mutant.first_seed, mutant.first_seed + _SEEDS):
            try:
                run_seed(seed)
            except ViolationError as error:
                defect = re.search("AttributeError|TypeError", f"{error.__cause__!r} {error}")
                assert not defect, "the mutant no longer fits the code that it replaces"
                return
    pytest.fail(f"{_SEEDS} seeds did not notice: {mutant.name}")
