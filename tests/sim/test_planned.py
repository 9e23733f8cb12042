"""Worlds with plans, splits and merges: each order is obeyed once, waves stop, no member is lost."""

from __future__ import annotations

import pytest

from tests.examples import parameters
from tests.sim.mutants import Mutant
from tests.sim.open_seeds import OPEN_SEEDS
from tests.sim.planned import run_planned
from tests.sim.planned_mutants import PLANNED_MUTANTS

_SEEDS = 80
"""Within so many seeds each mistake must show."""

_ONCE_BROKEN = (
    *(44, 64, 1065, 2007, 2023, 2066, 2080, 3018, 5003, 5073, 5329, 5381, 5458, 5480, 5550),
    *(20489, 30475, 40116, 40352, 41976, 52119, 53020, 53589, 60192, 62641, 65628, 67378, 71523),
    *(72313, 75320),
)
"""The one device of a first wave had left its group before it reported, and the next wave began. The gate once waited
for what waits for a device that is listed in a group and will not come. The laptop died when it had invited a moving
device, which asked nobody else; and when it had added one that had been in the new group before, which nobody else
added. A device was ordered back before it had heard that it was out, and stayed in two groups. One that the operator
had let in again refused to go back, as it had not noticed that it had left. Results that waited for an operator's
device were withdrawn when their device was removed. One that was ordered back before it obeyed never moved, and was not
taken out of the new group. One that was ordered back while its first move was still open was taken out of the group
that it was to return to, by the end of that move. What a removed device asked a member back for waited for a month, as
that member had yet to be told of another parting; and so did what it answered. A device that restarted after it had
left a group reported only to the author of an order. The laptop ordered something that nobody else had heard of when
the phone moved a device: the judge wrongly expected that the device obeys. A device was removed from its old group when
it had moved, though a merge of two operators' manifests had removed it from the new one. The phone held an announcement
of a release, with its plan or without, and not the order of its first wave, and gave a first wave of its own; and its
abort did not hold in the group whose order came later. A device that had moved on from the new group, to a third one,
owed the old group a report for the dead laptop, which was in the third one, too. A release was shown as finished while
its last device was between two groups; and when its only device had left. The laptop died with an order that nobody
else had heard of in one group: the judge wrongly expected that its device obeys; and that a device which had heard of
such an order, obeyed and left is shown as one that did. A world ended before the operator's device had heard of
all orders that other members held; and before the members of a group agreed on who is in it. The phone ordered a device
into a group that it was leaving by an order of the laptop, and nobody added it there again. The power went when the
phone took over a move, and nobody had it do so again. Nobody had the phone announce a release in a group that knew
nothing of it, as the laptop had died before."""

_WORLDS = [*_ONCE_BROKEN, *(each for each in (*range(1, 8), *range(100, 130)) if each not in OPEN_SEEDS["planned"])]


@pytest.mark.slow
@pytest.mark.parametrize("seed", parameters(_WORLDS, quick=0, plain=8))
def test_a_planned_world_keeps_its_rules(seed: int) -> None:
    run_planned(seed)


@pytest.mark.proof
@pytest.mark.parametrize("mutant", PLANNED_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_is_caught(mutant: Mutant) -> None:
    mutant.must_show(run_planned, _SEEDS)
