"""A moment that has passed, for a device whose clock begins at 1970 with each start.

1. While a time service has the clock in hand, the agent notes the time each hour. At the next start no earlier time can
   be right.
2. Without a time service the agent notes since when the certificate of a relay is valid: an authority that the device
   trusts has signed it. An attacker who could forge it could take over the relay, too.
3. No member's time counts, in messages, manifests or acknowledgements: one of the next century, by malice or by a bad
   clock, would make every certificate look expired for as long as no time service answers.
4. A clock that a time service has in hand is right, also when an earlier one was ahead of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.clock import PROGRAM_S

if TYPE_CHECKING:
    from covey.adapters.mqtt.settings import CertifiedTime
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

    def __init__(self, clock: Clock, store: SqliteStore, certified: CertifiedTime) -> None:
        self._clock = clock
        self._store = store
        self._certified = certified
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:  # noqa: ARG002 - as every role
        """Note it where it is due; return when to look again."""
        if now.monotonic_us < self._look_at_us:
            return self._look_at_us
        if self._clock.synchronised():
            self._look_at_us = now.monotonic_us + _LOOK_US
            self._note(now.wall_us, now)
        else:
            self._look_at_us = now.monotonic_us + _LOOK_US // 60
            begins_us = int(self._certified.begins_s * 1e6)
            if begins_us > earliest_us(self._store):
                self._note(begins_us, now)
        return self._look_at_us

    def _note(self, passed_us: int, now: Now) -> None:
        with self._store.transaction():
            self._store.conditions.set(_CONDITION, str(passed_us), now.wall_us)

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
