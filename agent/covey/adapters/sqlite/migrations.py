"""The numbered scripts of `schema/`, and bringing an older file up to the newest.

A script that begins with `_ADDITIVE` leaves a file with which the version before it goes on. How far back that holds
stands in the file (`PRAGMA application_id`), so that an update can be taken back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from covey.adapters.sqlite.database import Database
from covey.core.ids import Incarnation
from covey.errors import ConfigurationError

_ADDITIVE = "-- An earlier Covey goes on with it."


def migrate(database: Database, new_incarnation: Incarnation) -> None:
    """Apply the numbered scripts that this file has not seen, in one transaction; a new file gets its incarnation.

    Raises:
        ConfigurationError: a newer Covey wrote the file, and it cannot be read here; nothing was changed.
    """
    scripts, newest = _scripts(), newest_schema()
    if schema_version(database) == newest:
        return
    with database.transaction():  # another process may have been quicker: look again under the lock
        version = schema_version(database)
        if version > newest:
            (oldest,) = database.connection.execute("PRAGMA application_id").fetchone()
            if 0 < oldest <= newest:
                return
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
        database.connection.execute(f"PRAGMA application_id = {oldest_reader()}")
        if version == 0:
            database.connection.execute("INSERT INTO device (one, incarnation) VALUES (1, ?)", (new_incarnation,))


def schema_version(database: Database) -> int:
    """Return the number of the last script that a file has seen."""
    (version,) = database.connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def newest_schema() -> int:
    """Return the number of the last script."""
    return _scripts()[-1][0]


def oldest_reader() -> int:
    """Return the number of the last script of the oldest version that goes on with what this one leaves."""
    return max(number for number, script in _scripts() if not script.read_text().startswith(_ADDITIVE))


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
