"""Shared limits: each party has a guaranteed share, and the rest is first come, first served.

Half of the room is divided into equal shares, one for each party that may use it. Only its party uses a share, so no
number of parties can exclude another. The other half is common, for what parties hold beyond their shares. A share
returns when its party is no longer counted.
"""

from __future__ import annotations

from collections.abc import Callable

_GUARANTEED_PART = 2
"""The part of the room that is divided into shares: one half."""


def share_of(room: int, parties: int) -> int:
    """Return how much of some room each party is guaranteed."""
    return room // _GUARANTEED_PART // max(1, parties)


def has_room(room: int, parties: int, held: int, more: int, beyond_share: Callable[[int], int]) -> bool:
    """Say whether a party that holds so much may add `more`.

    `beyond_share(share)` returns how much all parties hold beyond a share each; it is asked only where that matters.
    """
    share = share_of(room, parties)
    if held + more <= share:
        return True
    added = held + more - max(held, share)
    return beyond_share(share) + added <= room - share * max(1, parties)
