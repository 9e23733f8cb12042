"""Read completion candidates from a state without locks or changes, quickly or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_WAIT_S = 0.2
_ROWS = 200
"""The newest ones: more than anybody looks through by TAB."""


def order_ids(state: Path, kinds: tuple[int, ...]) -> list[bytes]:
    """Return the ids of the newest operations of some kinds, of all groups."""
    marks = ", ".join("?" * len(kinds))
    statement = f"SELECT hash FROM operation WHERE kind IN ({marks}) ORDER BY arrival DESC LIMIT ?"  # noqa: S608 - marks
    return [row[0] for row in _rows(state, statement, *kinds, _ROWS)]


def newest_operations(state: Path, kind: int) -> list[bytes]:
    """Return the newest operations of a kind, of all groups."""
    return [
        row[0]
        for row in _rows(state, "SELECT raw FROM operation WHERE kind = ? ORDER BY arrival DESC LIMIT ?", kind, _ROWS)
    ]


def newest_manifests(state: Path) -> list[bytes]:
    """Return an accepted manifest of each group, the newest."""
    statement = "SELECT raw, max(version) FROM group_manifest WHERE state <> 1 GROUP BY group_id LIMIT ?"
    return [row[0] for row in _rows(state, statement, _ROWS)]


def _rows(state: Path, statement: str, *values: int) -> list[tuple[bytes, ...]]:
    try:
        with _opened(state) as connection:
            return connection.execute(statement, values).fetchall()
    except sqlite3.Error:  # none here, another version's, damaged, or somebody writes for too long
        return []


@contextmanager
def _opened(state: Path) -> Iterator[sqlite3.Connection]:
    address = f"{(state / 'state.sqlite').absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=_WAIT_S)) as connection:
        yield connection
