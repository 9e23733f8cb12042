"""Whether a long piece of work on a database moves: SQLite's own count of its steps tells."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STEPS = 10_000
"""Of SQLite's virtual machine: about a millisecond, or some hundred rows."""


@contextmanager
def moving(database: sqlite3.Connection, moves: Callable[[], None] | None) -> Iterator[None]:
    """Call `moves` again and again while the database works."""

    if moves is None:
        yield
        return

    def step() -> int:
        moves()
        return 0  # go on

    database.set_progress_handler(step, _STEPS)
    try:
        yield
    finally:
        database.set_progress_handler(None, _STEPS)
