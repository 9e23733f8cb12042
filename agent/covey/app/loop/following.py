"""Streams of the local API: wait for new commits or messages, until their time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


_LOOK_S = 0.1
_KEEPALIVE_S = 15.0
"""Between two signs of life, so that a client and its agent notice each other's end."""


class Following:
    """One stream that goes on for some seconds."""

    def __init__(self, store: SqliteStore, follow_s: float, news: Callable[[], bool] = lambda: False) -> None:
        """Begin; `news` says that there is something which is committed nowhere."""
        self._store = store
        self._news = news
        self._deadline = time.monotonic() + follow_s
        self.spoke()

    def spoke(self) -> None:
        """Note that something was said: the next sign of life has time."""
        self._silent_until = time.monotonic() + _KEEPALIVE_S

    @property
    def over(self) -> bool:
        """Say whether its time has passed."""
        return time.monotonic() >= self._deadline

    def wait(self) -> bool:
        """Wait until there is something new, or its time has passed; return whether a sign of life is due."""
        while not (self._store.changed_elsewhere() or self._news()):
            now = time.monotonic()
            if now >= min(self._deadline, self._silent_until):
                break
            time.sleep(_LOOK_S)
        due = time.monotonic() >= self._silent_until
        if due:
            self.spoke()
        return due
