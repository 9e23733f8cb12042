"""The scripts of `schema/`: the tables of a new file, and bringing an older one up to them.

A new file gets the tables at once as `newest.sql` has them, an older one by the numbered scripts that it has not seen.
Both end at the same tables: whoever adds a script writes `newest.sql` anew by `python -m tests.newest_schema`.

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
_FOLDER = Path(__file__).parent / "schema"

NEWEST_TABLES = _FOLDER / "newest.sql"
"""What all the numbered scripts come to."""


def migrate(database: Database, new_incarnation: Incarnation) -> None:
    """Bring a file up to the newest tables in one transaction; a new file gets them, and its incarnation.

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
        for script in [NEWEST_TABLES] if version == 0 else [script for number, script in scripts if number > version]:
            for statement in _statements(script.read_text()):
                database.connection.execute(statement)
        database.connection.execute(f"PRAGMA user_version = {newest}")
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
    return next(number for number, script in reversed(_scripts()) if not script.read_text().startswith(_ADDITIVE))


@cache
def _scripts() -> list[tuple[int, Path]]:
    """Return the numbered migrations, first to last."""
    return sorted((int(script.name.split("_")[0]), script) for script in _FOLDER.glob("[0-9]*.sql"))


def _statements(script: str) -> Iterator[str]:
    """Split a script: `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
