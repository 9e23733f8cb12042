"""The scripts of `schema/`: the tables of a new file, and the steps that bring an older file up to them.

A file runs each script that it has not seen, in the order of their numbers; `PRAGMA user_version` is the number of the
last one. A released script never changes: to change the tables, add a script with the next number.

A script whose first line is `ADDITIVE` leaves a file that the version before it can still read and write, so that an
update can be taken back. The file says how far back that holds (`PRAGMA application_id`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from covey.adapters.sqlite.database import Database
from covey.core.ids import Incarnation
from covey.errors import ConfigurationError

ADDITIVE = "-- Additive: the version before can go on with the file."
_SCHEMA = Path(__file__).parent / "schema"


def migrate(database: Database, new_incarnation: Incarnation, folder: Path = _SCHEMA) -> None:
    """Bring a file up to the newest tables in one transaction; a new file gets an incarnation.

    Raises:
        ConfigurationError: a newer Covey wrote the file, and it cannot be read here; nothing was changed.
    """
    newest = newest_schema(folder)
    if schema_version(database) == newest:
        return
    with database.transaction():  # another process may have been quicker: look again under the lock
        version = schema_version(database)
        if version > newest:
            (oldest,) = database.connection.execute("PRAGMA application_id").fetchone()
            if 0 < oldest <= newest:
                return
            raise ConfigurationError(
                f"a newer Covey wrote the state (schema {version}; this version knows {newest})",
                hint="upgrade Covey, or use another --state folder",
            )
        for number, script in _scripts(folder):
            if number > version:
                for statement in _statements(script.read_text()):
                    database.connection.execute(statement)
        database.connection.execute(f"PRAGMA user_version = {newest}")
        database.connection.execute(f"PRAGMA application_id = {oldest_reader(folder)}")
        if version == 0:
            database.connection.execute("INSERT INTO device (one, incarnation) VALUES (1, ?)", (new_incarnation,))


def schema_version(database: Database) -> int:
    """Return the number of the last script that a file has seen."""
    (version,) = database.connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def newest_schema(folder: Path = _SCHEMA) -> int:
    """Return the number of the last script."""
    return _scripts(folder)[-1][0]


def oldest_reader(folder: Path = _SCHEMA) -> int:
    """Return the number of the last script of the oldest version that can read this version's state."""
    return next(number for number, script in reversed(_scripts(folder)) if not script.read_text().startswith(ADDITIVE))


@cache
def _scripts(folder: Path) -> list[tuple[int, Path]]:
    return sorted((int(script.name.split("_")[0]), script) for script in folder.glob("[0-9]*.sql"))


def _statements(script: str) -> Iterator[str]:
    """Split a script: `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
