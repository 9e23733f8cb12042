"""Noticing the first operator, in an agent that has obeyed nobody so far and holds nothing for it (the daemon)."""

from __future__ import annotations

from collections.abc import Callable

from covey.core.node import Node
from covey.core.now import Now

_LOOK_US = 10_000_000
"""Between two looks, each of which reads one row."""


class FirstOperator:
    """Has the agent begin anew once a person has accepted an operator in another process."""

    def __init__(self, somebody_is_pinned: Callable[[], bool], restart: Callable[[], None]) -> None:
        self._somebody_is_pinned = somebody_is_pinned
        self._restart = restart
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:  # noqa: ARG002 - as every role
        """Look now and then; return when to be called next, in monotonic microseconds."""
        if now.monotonic_us >= self._look_at_us:
            self._look_at_us = now.monotonic_us + _LOOK_US
            if self._somebody_is_pinned():
                self._restart()
        return self._look_at_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
