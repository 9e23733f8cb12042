"""A person's devices come to the same groups and preferences in whatever order they hear of them.

Hypothesis has devices say anything, following anything; each device takes that in an order of its own. What it comes to
is found in another way, too: by the rules as docs/protocol/ ("A person's devices") has them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.sqlite.store import empty_history
from covey.core.history.bodies import Note, read_body
from covey.core.history.body import OperationBody
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.personal import Holding, OwnGroup, Preference
from covey.core.ids import GroupId, Incarnation, OperationId
from covey.core.own.state import PersonalState, personal_state
from tests.examples import examples
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID
from tests.vectors.makers.groups import WITH_CAROL

_DEVICES = (ALICE, BOB, CAROL)
_MEMBERS = frozenset(each.signing_public for each in _DEVICES[:2])
"""Carol's device was removed."""
_GROUPS = tuple(GroupId(bytes([number]) * 32) for number in range(5))
_MOST_GROUPS, _MOST_PREFERENCES = 3, 2
"""Fewer than the devices speak of."""

_Found = tuple[dict[GroupId, tuple[Holding, str]], dict[tuple[GroupId | None, str], str]]


def _body(chance: random.Random) -> OperationBody:
    group_id = chance.choice((*_GROUPS, GROUP_ID))
    return chance.choice(
        (
            OwnGroup(group_id, chance.choice(tuple(Holding)), str(chance.randrange(9))),
            OwnGroup(group_id, Holding.HELD, "held"),
            Preference(chance.choice((None, group_id)), chance.choice("ab"), chance.choice((None, "x", "y"))),
            Note("text/plain", b"else"),
        )
    )


def _history(chance: random.Random, count: int) -> list[Operation]:
    """Return so many operations, which follow some of the last five, each in a log of its own."""
    written: list[Operation] = []
    for number in range(count):
        parents = chance.sample(written[-5:], min(len(written), chance.randint(0, 2)))
        author, body = chance.choice(_DEVICES), _body(chance)
        ids, height = tuple(sorted(each.id for each in parents)), 1 + max((each.height for each in parents), default=0)
        log = Log(author.signing_public, Incarnation(number.to_bytes(8, "big")))
        place = (GROUP_ID, log, 1, None, ids, height, WITH_CAROL.hash, number)
        written.append(sign_operation(Operation(*place, int(body.kind), body.to_wire()), author))
    return written


def _arriving(chance: random.Random, operations: Iterable[Operation]) -> list[Operation]:
    """Return operations in another order, each behind all that it follows."""
    waiting, came = list(operations), list[Operation]()
    chance.shuffle(waiting)
    while waiting:
        known = {each.id for each in came}
        came.append(next(each for each in waiting if known.issuperset(each.parents)))
        waiting.remove(came[-1])
    return came


def _state(operations: Iterable[Operation], void: Collection[OperationId]) -> PersonalState:
    with empty_history() as tables:
        for each in operations:
            tables.add(each, 1, 0)
        return personal_state(tables, GROUP_ID, void, _MEMBERS)


def _by_the_rules(operations: Iterable[Operation], void: Collection[OperationId]) -> _Found:
    groups: dict[GroupId, tuple[Holding, str]] = {}
    preferences: dict[tuple[GroupId | None, str], str | None] = {}
    for each in sorted(operations, key=lambda each: (each.height, each.id)):
        body = read_body(each)
        if each.id in void:
            continue
        if isinstance(body, OwnGroup) and (body.holding is Holding.HELD or each.author in _MEMBERS):
            if body.group_id != GROUP_ID:
                groups[body.group_id] = (body.holding, body.title)
                groups = dict(list(groups.items())[:_MOST_GROUPS])
        elif isinstance(body, Preference):
            preferences[body.group_id, body.key] = body.value
            preferences = dict(list(preferences.items())[:_MOST_PREFERENCES])
    return groups, {place: value for place, value in preferences.items() if value is not None}


@examples(40)
@given(st.integers(0, 2**32), st.integers(0, 30))
def test_the_order_of_arrival_changes_nothing(seed: int, count: int) -> None:
    chance = random.Random(seed)
    history = _history(chance, count)
    void = {each.id for each in history if chance.random() < 0.1}
    with (
        mock.patch("covey.core.own.state.MAXIMUM_OWN_GROUPS", _MOST_GROUPS),
        mock.patch("covey.core.own.state.MAXIMUM_PREFERENCES", _MOST_PREFERENCES),
    ):
        first, second = (_state(_arriving(chance, history), void) for _ in range(2))
    assert first == second
    found = {group_id: (known.holding, known.title) for group_id, known in first.groups.items()}
    assert (found, first.preferences) == _by_the_rules(history, void)
