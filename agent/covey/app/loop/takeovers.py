"""Whether another device signs in as this one: a copy of its card, or of its state, that runs elsewhere.

A relay lets one client in for each name, and cuts the earlier one off. Some say so (DISCONNECT 0x8E); mosquitto 2.0
says nothing, so that it looks like a bad line: a connection that is lost soon after it came up, again and again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from covey.adapters.sqlite.counters import Conditions


_CONDITION = "cut off"
_SOON_S = 300.0
_RECENT_S = 3_600
_OFTEN = 3


def note_connection(conditions: Conditions, up_s: float, now_us: int, *, taken_over: bool) -> None:
    """Count a connection that ended after so long, in a row of short ones. Writes, so inside a transaction."""
    if not up_s:
        return  # it never came up
    times, certain, _ = cuts(conditions)
    short = up_s < _SOON_S
    if short or times:
        said = "taken over" if short and (certain or taken_over) else "lost"
        conditions.set(_CONDITION, f"{times + 1 if short else 0} {said}", now_us)


class CopySign(Enum):
    """What speaks of a copy of this device that runs elsewhere."""

    NONE = "none"
    POSSIBLE = "possible"
    CERTAIN = "certain"


class SeenCuts(NamedTuple):
    """What the last hour's cuts speak of, how many there were in a row, and how long ago the last one was."""

    sign: CopySign
    times: int
    age_s: int


def seen_cuts(conditions: Conditions, now_us: int) -> SeenCuts:
    """Return what the connections that were cut off speak of: a relay that says so once, or a row of short ones."""
    times, certain, at_us = cuts(conditions)
    age_s = max(0, now_us - at_us) // 1_000_000
    sign = CopySign.NONE
    if age_s < _RECENT_S and times:
        sign = CopySign.CERTAIN if certain else CopySign.POSSIBLE if times >= _OFTEN else CopySign.NONE
    return SeenCuts(sign, times, age_s)


def cuts(conditions: Conditions) -> tuple[int, bool, int]:
    """Return how many connections in a row were short, whether the relay said why, and when the last one ended."""
    noted, at_us = conditions.values().get(_CONDITION, ("0 lost", 0))
    times, _, said = noted.partition(" ")
    return int(times), said == "taken over", at_us
