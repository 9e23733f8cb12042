"""Virtual time: what happens when. Everything that the world does is an entry here."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

SECOND = 1_000_000
MINUTE = 60 * SECOND
YEAR = 365 * 86_400 * SECOND


class Agenda:
    """A heap of (time, action); equal times run in the order in which they were entered."""

    def __init__(self) -> None:
        self.now_us = 0
        self._entries: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Enter an action."""
        heapq.heappush(self._entries, (self.now_us + max(0, delay_us), next(self._order), action))

    def run(self, until_us: int) -> None:
        """Do everything that is due until then."""
        while self._entries and self._entries[0][0] <= until_us:
            self.now_us, _, action = heapq.heappop(self._entries)
            action()
        self.now_us = until_us
