"""A moment that has passed, for a device whose clock begins at 1970 with each start.

1. While a time service has the clock in hand, the agent notes the time each hour. At the next start no earlier time can
   be right. Nobody else's time counts: a member could have signed one of the next century.
2. A clock that a time service has in hand is right, also when an earlier one was ahead of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.clock import PROGRAM_S

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.node import Node
    from covey.core.now import Now
    from covey.ports import Clock

_CONDITION = "known time"
_LOOK_US = 3_600_000_000


def earliest_us(store: SqliteStore) -> int:
    """Return a moment that has passed, in microseconds of the wall clock."""
    noted, _ = store.conditions.values().get(_CONDITION, ("", 0))
    return max(PROGRAM_S * 1_000_000, int(noted) if noted.isdecimal() else 0)


class KnownTime:
    """Notes the time while it is known."""

    def __init__(self, clock: Clock, store: SqliteStore) -> None:
        self._clock = clock
        self._store = store
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:  # noqa: ARG002 - as every role
        """Note it where it is due; return when to look again."""
        if now.monotonic_us < self._look_at_us:
            return self._look_at_us
        if self._clock.synchronised():
            self._look_at_us = now.monotonic_us + _LOOK_US
            with self._store.transaction():
                self._store.conditions.set(_CONDITION, str(now.wall_us), now.wall_us)
        else:
            self._look_at_us = now.monotonic_us + _LOOK_US // 60
        return self._look_at_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
