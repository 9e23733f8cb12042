"""What a transaction has decided about memory, kept until it is committed.

A machine that frees a row, begins a key or raises a counter changes its memory only here: where the commit fails, the
node is dropped with what waits here, and nothing has to be taken back (ADR 4).
"""

from __future__ import annotations

from collections.abc import Callable

from covey.core.now import Now


class AfterCommit:
    """The outcomes of the open transaction, in order."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[Now], None]] = []

    def do(self, change: Callable[[Now], None]) -> None:
        """Make a change once the open transaction is committed."""
        self._waiting.append(change)

    def forget(self) -> None:
        """Make none of the changes: the transaction was rolled back."""
        self._waiting.clear()

    def committed(self, now: Now) -> None:
        """Make the changes: they are durable now."""
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            change(now)
