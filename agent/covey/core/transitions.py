"""Transition tables: `{state: {event: next state}}`, one for each state machine, as data.

    1. A state is a class with the fields that are known in it, so no field is unexpectedly None.
    2. An event is a message, a call or a clock after all checks.
    3. A machine changes its state only by `follow`. So what its table lacks cannot happen: a message that would need it
       is refused, and a clock that would need it does not run.
    4. An event that a state knows and ignores leads back to the same state.

`./dev diagrams` draws the diagrams in docs/internals/state-machines.md from the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from covey.errors import LocalError

State = TypeVar("State")
Event = TypeVar("Event", bound=Enum)

Transitions = Mapping[type[Any], Mapping[Event, type[Any]]]


def first_over(
    table: Transitions[Event], state: object, clocks: Iterable[tuple[Event, int]], now_us: int
) -> Event | None:
    """Return the event of the first of some clocks, (event, when it is over), that runs in a state and is over."""
    return next((event for event, at_us in clocks if event in table[type(state)] and now_us >= at_us), None)


def follow(table: Transitions[Event], old: State, event: Event, new: State) -> State:
    """Return the new state, which has to be the one that the table names.

    Raises:
        LocalError: the state does not know the event, or leads elsewhere.
    """
    if table[type(old)].get(event) is not type(new):
        raise LocalError(f"{event.value!r} does not lead from {type(old).__name__} to {type(new).__name__}")
    return new
