"""Worlds with budgets and windows: none is exceeded, nothing urgent waits behind readings, and the ledger balances."""

from __future__ import annotations

import pytest

from tests.examples import parameters
from tests.sim.metered import run_metered
from tests.sim.metered_mutants import METERED_MUTANTS
from tests.sim.mutants import Mutant
from tests.sim.template import template

_SEEDS = 60
"""Within so many seeds each mistake must show."""


_ONCE_BROKEN = (10, 24, 40, 170, 173, 403, 480, 712, 1023, 1042, 2061, 2203)
"""A window was shorter than a retry time that had grown; readings went where an order did not fit; the envelopes of a
connection used up what it was expected to cost. Deliveries that the device had not seen on the wire yet did not count;
a power cut hid messages of one turn; a restart took a clock that had been set before for days that had passed; copies
of a message expired while a device passed over its windows. The gate once took a clock that was set back for days that
had passed, and an alarm that waited for an answer for one that waited for readings."""


@pytest.mark.parametrize("seed", parameters((1, 0, *_ONCE_BROKEN, *range(2, 6)), plain=3))
def test_a_metered_world_keeps_its_rules(seed: int) -> None:
    run_metered(seed)


@pytest.mark.proof
@pytest.mark.parametrize("mutant", METERED_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_is_caught(mutant: Mutant) -> None:
    template()  # made without the mistake
    mutant.must_show(run_metered, _SEEDS)
