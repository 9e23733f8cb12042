"""Whoever holds the same operations makes the same checkpoint, in whatever order they came and whatever else came.

Hypothesis writes a history of changes of operators, settings, approvals and profiles, by anybody, following anything.
"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.sqlite.store import empty_history
from covey.core.checkpoints.covered import covered_by
from covey.core.checkpoints.state import CheckpointState, state_of
from covey.core.history.bodies import GroupProfile, Merge, Note
from covey.core.history.body import OperationBody
from covey.core.history.operation import Operation
from covey.core.history.orders import Approval, SettingOrder
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from tests.examples import examples
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY
from tests.vectors.makers.orders import adds, as_they_may_come, removes, said

_PEOPLE = (ALICE, BOB, CAROL, MALLORY)
_MEMBERS = frozenset(each.signing_public for each in _PEOPLE)
_PUMPS = Selector(SelectorKind.LABEL, name="Pumpe 3")


def _written(chance: random.Random, count: int) -> list[Operation]:
    written: list[Operation] = []
    for number in range(count):
        parents = chance.sample(written[-5:], min(len(written), chance.randint(0, 3)))
        bodies: list[OperationBody] = [
            adds(chance.choice(_PEOPLE)),
            removes(chance.choice(_PEOPLE)),
            SettingOrder(chance.choice((EVERYBODY, _PUMPS)), f"app.{number % 3}", number),
            SettingOrder(EVERYBODY, "app.token", sealed=b"\x01"),
            GroupProfile(str(number)),
            Note("text/plain", b""),
            Approval(chance.choice(written).id) if written else Merge(),
        ]
        written.append(said(chance.choice(_PEOPLE), chance.choice(bodies), *parents, log=str(number)))
    return written


def _state(operations: list[Operation], merge: Operation, pins: Pins) -> CheckpointState:
    with empty_history() as tables:
        for operation in as_they_may_come(operations):
            tables.add(operation, 1, 0)
        covered = covered_by(tables.nodes(GROUP_ID), tables.frontier(GROUP_ID, merge.id))
        return state_of(tables, GROUP_ID, covered, merge.id, pins, _MEMBERS)


def _followed(merge: Operation, operations: list[Operation]) -> list[Operation]:
    by_id = {each.id: each for each in operations}
    row, found = [merge], {merge.id: merge}
    while row:
        row = [by_id[parent] for each in row for parent in each.parents if parent not in found]
        found.update({each.id: each for each in row})
    return list(found.values())


@examples(60)
@given(st.integers(0, 2**32), st.integers(1, 24), st.integers(1, 2))
def test_a_state_depends_on_what_it_covers_alone(seed: int, count: int, threshold: int) -> None:
    chance = random.Random(seed)
    pins = Pins(frozenset(each.signing_public for each in chance.sample(_PEOPLE[:3], 2)), threshold)
    written = _written(chance, count)
    merge = said(ALICE, Merge(), *chance.sample(written, min(len(written), 3)))
    whole = [*written, merge]
    state = _state(chance.sample(whole, len(whole)), merge, pins)
    assert state.to_wire() == _state(_followed(merge, written), merge, pins).to_wire()
    assert CheckpointState.from_wire(state.to_wire()) == state
