"""Whoever holds the same operations finds the same operators and orders, in whatever order they came.

Hypothesis writes a history of additions, removals, orders and approvals, by anybody, following anything.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.sqlite.store import empty_history
from covey.core.crypto import Identity
from covey.core.history.bodies import Note
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation
from covey.core.history.orders import Approval
from covey.core.ids import GroupId, OperationId
from covey.core.orders.authority import Pins, WeighedOrders, weigh_orders
from covey.core.orders.nodes import OrderNode
from tests.examples import examples
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY
from tests.vectors.makers.orders import adds, as_they_may_come, order, removes, said

_PEOPLE = (ALICE, BOB, CAROL, MALLORY)
_MEMBERS = frozenset(each.signing_public for each in _PEOPLE)


@dataclass(frozen=True, slots=True)
class _Draft:
    """One operation: by whom, about whom or what, following which of those before it."""

    author: int
    kind: int
    about: int
    follows: tuple[int, ...]


_DRAFTS = st.lists(
    st.builds(
        _Draft,
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 3),
        st.lists(st.integers(1, 4), max_size=3).map(tuple),
    ),
    max_size=20,
)
_PINS = st.builds(
    Pins, st.sets(st.sampled_from([each.signing_public for each in _PEOPLE[:3]])).map(frozenset), st.integers(1, 2)
)


def _written(drafts: list[_Draft], *, silent: Identity | None = None) -> list[Operation]:
    """Return the operations; whoever is `silent` writes notes alone."""
    written: list[Operation] = []
    for place, draft in enumerate(drafts):
        parents = {written[-back].id: written[-back] for back in draft.follows if back <= len(written)}
        body: OperationBody = order(draft.about)
        if draft.kind < 2:
            body = (adds, removes)[draft.kind](_PEOPLE[draft.about])
        elif draft.kind == 2 and draft.about < len(written):
            body = Approval(written[-1 - draft.about].id)
        if _PEOPLE[draft.author] == silent:
            body = Note("text/plain", b"")
        written.append(said(_PEOPLE[draft.author], body, *parents.values(), log=str(place)))
    return written


def _found(operations: list[Operation], pins: Pins, void: Collection[OperationId] = ()) -> WeighedOrders:
    with empty_history() as tables:
        for operation in as_they_may_come(operations):
            tables.add(operation, 1, 0)
        return weigh_orders(tables, GROUP_ID, pins, _MEMBERS, void, kind=OperationKind.COMMAND)


class _Everything:
    """All operations with all that they follow: what judging from scratch reads."""

    def __init__(self, operations: list[Operation]) -> None:
        self._raws = {each.id: each.raw for each in operations}
        in_order = sorted(operations, key=lambda each: (each.height, each.id))
        arrivals = {each.id: arrival for arrival, each in enumerate(in_order)}
        self._nodes = [
            OrderNode(
                arrivals[each.id],
                each.height,
                each.id,
                each.log,
                each.number,
                each.kind,
                Approval.from_wire(each.body).order if each.kind == OperationKind.APPROVAL else None,
                tuple(arrivals[parent] for parent in each.parents),
            )
            for each in in_order
        ]

    def nodes(self, _group_id: GroupId) -> Iterator[OrderNode]:
        return iter(self._nodes)

    judged_nodes = nodes

    def raw(self, _group_id: GroupId, operation_id: OperationId) -> bytes | None:
        return self._raws[operation_id]


@examples(100)
@given(_DRAFTS, _PINS, st.integers(0, 2**32))
def test_incremental_orders_equal_a_full_reading(drafts: list[_Draft], pins: Pins, seed: int) -> None:
    """Whatever lies between, whenever what came, and whatever turns out to be void later."""
    chance = random.Random(seed)
    silent = chance.choice((None, *_PEOPLE))
    written = _written(drafts, silent=silent)
    void = {each.id for each in written if chance.random() < 0.1}
    from_scratch = weigh_orders(_Everything(written), GROUP_ID, pins, _MEMBERS, void, kind=OperationKind.COMMAND)
    assert _found(chance.sample(written, len(written)), pins, void) == from_scratch


@examples(100)
@given(_DRAFTS, _PINS, st.integers(0, 2**32))
def test_the_order_in_which_operations_come_changes_nothing(drafts: list[_Draft], pins: Pins, seed: int) -> None:
    written = _written(drafts)
    assert _found(written, pins) == _found(random.Random(seed).sample(written, len(written)), pins)


@examples(60)
@given(_DRAFTS, _PINS)
def test_nobody_makes_itself_an_operator(drafts: list[_Draft], pins: Pins) -> None:
    """What a stranger writes, whom no operator has added, is as good as notes."""
    found, without = (_found(_written(drafts, silent=each), pins) for each in (None, MALLORY))
    if not any(_PEOPLE[draft.about] is MALLORY and _PEOPLE[draft.author] is not MALLORY for draft in drafts):
        assert found.operators == without.operators
        assert [(each.author, each.signers) for each in found.orders] == [
            (each.author, each.signers) for each in without.orders
        ]


@examples(60)
@given(_DRAFTS, _PINS)
def test_an_order_that_counts_has_enough_signatures_of_members(drafts: list[_Draft], pins: Pins) -> None:
    for each in _found(_written(drafts), pins).orders:
        assert each.signers <= _MEMBERS
        assert each.counts == (each.author in each.signers and len(each.signers) >= pins.threshold)
