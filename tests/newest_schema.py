"""`python -m tests.newest_schema` writes what a new file's tables are, as the numbered scripts make them.

`tests/unit/adapters/sqlite/test_migrations.py` tells when that is due.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from covey.adapters.sqlite.migrations import NEWEST_TABLES

_HEADER = "-- The tables of a new file. Not written by hand: python -m tests.newest_schema\n\n"


def tables_of_all_scripts() -> str:
    """Return one script for what all the numbered ones come to."""
    with closing(sqlite3.connect(":memory:")) as database:
        for script in sorted(NEWEST_TABLES.parent.glob("[0-9]*.sql")):
            database.executescript(script.read_text())
        return _HEADER + ";\n\n".join(statements(database)) + ";\n"


def statements(database: sqlite3.Connection) -> list[str]:
    """Return what makes a database's tables and indexes, as SQLite keeps it, in the order of their making."""
    kept = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name <> 'sqlite_sequence' ORDER BY rowid"
    return [sql for (sql,) in database.execute(kept)]


if __name__ == "__main__":
    NEWEST_TABLES.write_text(tables_of_all_scripts())
