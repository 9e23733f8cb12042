"""Whether releases go on, by what operators have said of them, whatever came first."""

from __future__ import annotations

import random

import pytest

from covey.adapters.sqlite.store import empty_history
from covey.core.crypto import Identity
from covey.core.history.operation import Operation
from covey.core.history.releases import ReleaseChange, ReleaseState
from covey.core.ids import DeviceKey
from covey.core.orders.authority import Pins
from covey.core.orders.release_standing import ReleaseStanding, release_standings
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY
from tests.vectors.makers.orders import as_they_may_come, said

_ONCE = bytes(16)
_BOTH = Pins(frozenset({ALICE.signing_public, BOB.signing_public}), threshold=2)
_MEMBERS = frozenset(each.signing_public for each in (ALICE, BOB, CAROL, MALLORY))


def _says(who: Identity, state: ReleaseState, *after: Operation, why: str = "", **more: object) -> Operation:
    return said(who, ReleaseChange(_ONCE, state, why, **more), *after)  # type: ignore[arg-type]


def _found(*operations: Operation) -> ReleaseStanding:
    shuffled = random.Random(len(operations)).sample(operations, len(operations))
    with empty_history() as tables:
        for operation in as_they_may_come(shuffled):
            tables.add(operation, 1, 0)
        return release_standings(tables, GROUP_ID, _BOTH, _MEMBERS).get(_ONCE, ReleaseStanding())


def test_one_operator_is_enough_and_a_stranger_is_not() -> None:
    assert _found().state is ReleaseState.GOING
    assert _found(_says(ALICE, ReleaseState.PAUSED)).state is ReleaseState.PAUSED
    assert _found(_says(MALLORY, ReleaseState.ABORTED)).state is ReleaseState.GOING


def test_a_pause_holds_until_somebody_who_knew_of_it_says_otherwise() -> None:
    pause = _says(ALICE, ReleaseState.PAUSED)
    first = said(BOB, ReleaseChange(bytes([1]) * 16, ReleaseState.PAUSED))
    beside = _says(BOB, ReleaseState.GOING, first, why="higher than the pause, and it did not know")
    assert _found(pause, first, beside).state is ReleaseState.PAUSED
    assert _found(pause, first, beside, _says(BOB, ReleaseState.GOING, pause)).state is ReleaseState.GOING


def test_an_abort_is_never_taken_back() -> None:
    abort = _says(ALICE, ReleaseState.ABORTED)
    assert _found(abort, _says(ALICE, ReleaseState.GOING, abort)).state is ReleaseState.ABORTED


def test_accepted_failures_add_up_and_the_last_bound_holds() -> None:
    one, two = DeviceKey(bytes([1]) * 32), DeviceKey(bytes([2]) * 32)
    first = _says(ALICE, ReleaseState.GOING, accepted=(one,), stop_percent=50)
    second = _says(BOB, ReleaseState.GOING, first, accepted=(two,))
    found = _found(first, second)
    assert (found.accepted, found.stop_percent, len(found.said)) == ({one, two}, 50, 2)


@pytest.mark.parametrize("state", [ReleaseState.PAUSED, ReleaseState.ABORTED])
def test_releases_do_not_stop_each_other(state: ReleaseState) -> None:
    assert _found(said(ALICE, ReleaseChange(b"another release.", state))).state is ReleaseState.GOING
