"""Which topics a connection reads, as callers of any thread ask for them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class Subscriptions:
    """The topic that is ours, others that we read for a while, and what we refused to take from them."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.oversize_dropped = 0
        self._others: frozenset[str] = frozenset()
        self._retired: set[str] = set()
        self._lock = threading.Lock()

    def listen(self, topics: Collection[str]) -> None:
        """Read these topics, too, and no others."""
        with self._lock:
            self._retired |= self._others
            self._others = frozenset(topics)
            self._retired -= self._others

    def overheard(self, topic: str) -> None:
        """Note a topic that the session still holds for an earlier process: the next renewal ends it."""
        with self._lock:
            if topic and topic not in self.topics():
                self._retired.add(topic)

    def topics(self) -> list[str]:
        """Return what we read, our own topic first."""
        return [self.topic, *sorted(self._others)]

    def retired(self) -> list[str]:
        """Return the topics whose subscription must end."""
        with self._lock:
            return sorted(self._retired)

    def forget(self, topics: list[str]) -> None:
        """Note that the server has ended these."""
        with self._lock:
            self._retired.difference_update(topics)
