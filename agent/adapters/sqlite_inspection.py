"""Looking at a state database without changing it: neither migrated nor repaired."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from agent.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

_COMPLAINTS = 10

DAMAGED_HINT = "stop the agent and restore a backup of this very device"


def quick_check(path: Path) -> list[str]:
    """Return what SQLite finds wrong with the file; nothing where it is sound.

    Raises:
        StorageError: it cannot be read at all.
    """
    try:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            rows = database.execute(f"PRAGMA quick_check({_COMPLAINTS})").fetchall()
        finally:
            database.close()
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be read: {error}", hint=DAMAGED_HINT) from error
    return [str(line) for (line,) in rows if line != "ok"]


def library_version() -> str:
    """Return SQLite's version."""
    return sqlite3.sqlite_version
