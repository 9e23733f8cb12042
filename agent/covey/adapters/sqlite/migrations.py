"""The numbered scripts of `schema/`, and bringing an older file up to the newest."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from covey.adapters.sqlite.database import Database
from covey.core.ids import Incarnation
from covey.errors import ConfigurationError


def migrate(database: Database, new_incarnation: Incarnation) -> None:
    """Apply the numbered scripts that this file has not seen, in one transaction; a new file gets its incarnation.

    Raises:
        ConfigurationError: a newer Covey wrote the file; nothing was changed.
    """
    scripts = _scripts()
    newest = scripts[-1][0]
    if schema_version(database) == newest:
        return
    with database.transaction():  # another process may have been quicker: look again under the lock
        version = schema_version(database)
        if version > newest:
            raise ConfigurationError(
                f"the state was written by a newer Covey (schema {version}, this one knows {newest})",
                hint="upgrade Covey, or start with another --state folder",
            )
        for number, script in scripts:
            if number <= version:
                continue
            for statement in _statements(script.read_text()):
                database.connection.execute(statement)
            database.connection.execute(f"PRAGMA user_version = {number}")
        if version == 0:
            database.connection.execute("INSERT INTO device (one, incarnation) VALUES (1, ?)", (new_incarnation,))


def schema_version(database: Database) -> int:
    """Return the number of the last script that a file has seen."""
    (version,) = database.connection.execute("PRAGMA user_version").fetchone()
    return int(version)


@cache
def _scripts() -> list[tuple[int, Path]]:
    """Return the numbered migrations, first to last."""
    return sorted((int(entry.name.split("_")[0]), entry) for entry in (Path(__file__).parent / "schema").glob("*.sql"))


def _statements(script: str) -> Iterator[str]:
    """Split a script: `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
