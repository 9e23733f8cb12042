"""`covey.core.orders.attempts`: what is told of orders by those who have no say here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from covey.adapters.sqlite.store import empty_history
from covey.core.history.operation import Operation, sign_operation
from covey.core.history.orders import Approval
from covey.core.ids import OperationId
from covey.core.orders.attempts import NO_OPERATOR, REMOVED, TOO_FEW, attempts
from covey.core.orders.authority import Pins
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY
from tests.vectors.makers.orders import adds, as_they_may_come, order, removes, said

_BY_ALICE = Pins(frozenset({ALICE.signing_public}))


def _attempts(
    operations: Iterable[Operation], pins: Pins = _BY_ALICE, void: frozenset[OperationId] = frozenset()
) -> dict[tuple[bytes, str], int]:
    with empty_history() as tables:
        for operation in as_they_may_come(operations):
            tables.add(operation, 1, 0)
        return {each: len(made) for each, made in attempts(tables, GROUP_ID, pins, void).items()}


def test_an_author_without_authority_is_reported_once_with_a_count() -> None:
    tries = [said(MALLORY, order(number)) for number in range(300)]
    expected = {(MALLORY.signing_public, NO_OPERATOR): 302}
    assert (
        _attempts([said(ALICE, order()), *tries, said(MALLORY, adds(BOB)), said(MALLORY, removes(ALICE))]) == expected
    )
    assert _attempts(tries, Pins(frozenset())) == {}, "where nobody is pinned, nobody is obeyed"


def test_approvals_are_no_attempts_where_one_operator_suffices() -> None:
    first = said(ALICE, order())
    assert _attempts([first, said(MALLORY, Approval(first.id), first)]) == {}


def test_deleted_orders_are_no_longer_reported() -> None:
    first = said(MALLORY, order(1))
    second = replace(said(MALLORY, order(2), first), log=first.log, number=2, previous=first.id)
    with empty_history() as tables:
        for operation in (first, sign_operation(second, MALLORY)):
            tables.add(operation, 1, 0)
        tries = attempts(tables, GROUP_ID, _BY_ALICE, ())[MALLORY.signing_public, NO_OPERATOR]
        assert tables.forgotten.take([tries[0].arrival]) == 1
        assert attempts(tables, GROUP_ID, _BY_ALICE, ()) == {(MALLORY.signing_public, NO_OPERATOR): tries[1:]}


def test_an_author_that_has_become_an_operator_is_not_reported() -> None:
    early = said(BOB, order())
    assert _attempts([early]) == {(BOB.signing_public, NO_OPERATOR): 1}
    assert _attempts([early, said(ALICE, adds(BOB), early)]) == {}


def test_orders_concurrent_with_a_removal_are_reported_and_earlier_ones_are_not() -> None:
    bob = said(ALICE, adds(BOB))
    before = said(BOB, order(1), bob)
    removed = said(ALICE, removes(BOB), before)
    assert _attempts([bob, before, removed]) == {}
    assert _attempts([bob, before, removed, said(BOB, order(2), before)]) == {(BOB.signing_public, NO_OPERATOR): 1}


def test_void_orders_are_reported_as_void() -> None:
    by_alice = said(ALICE, order())
    assert _attempts([by_alice], void=frozenset({by_alice.id})) == {(ALICE.signing_public, REMOVED): 1}


def test_missing_and_unauthorised_approvals_are_reported() -> None:
    two = Pins(frozenset({ALICE.signing_public, BOB.signing_public}), 2)
    first = said(ALICE, order())
    by_mallory = said(MALLORY, Approval(first.id), first)
    assert _attempts([first, by_mallory], two) == {
        (ALICE.signing_public, TOO_FEW): 1,
        (MALLORY.signing_public, NO_OPERATOR): 1,
    }
    assert _attempts([first, said(BOB, Approval(first.id), first), said(CAROL, order(2))], two) == {
        (CAROL.signing_public, NO_OPERATOR): 1
    }
