"""Changes of memory that a transaction decided, applied after its commit.

A machine that frees a row, begins a key or raises a counter changes its memory at the moment the store has committed,
and not at all if the transaction is rolled back. So nothing has to be undone (ADR 4).
"""

from __future__ import annotations

from collections.abc import Callable

AfterCommit = Callable[[Callable[[], None]], None]
"""Makes a change once the open transaction is committed; forgets it where that is rolled back."""
