"""How a state file gets its tables: a new one all of them, an older one the steps that it lacks.

There is no older schema yet: the older ones here, and the steps after them, are invented.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.migrations import ADDITIVE, migrate, newest_schema, oldest_reader, schema_version
from covey.core.ids import Incarnation
from covey.errors import ConfigurationError, StorageError
from tests.fleet import open_store

_FIRST = """
CREATE TABLE device (one INTEGER PRIMARY KEY, incarnation BLOB NOT NULL) STRICT;
CREATE TABLE queue (peer BLOB NOT NULL, link_seq INTEGER NOT NULL, message BLOB) STRICT;
"""
_RENAMES = """
-- The place in a queue is no link sequence; who sent nothing is dropped.
ALTER TABLE queue RENAME COLUMN link_seq TO place;
DELETE FROM queue WHERE message IS NULL;
CREATE TRIGGER queue_full BEFORE INSERT ON queue WHEN new.place > 9 BEGIN
    SELECT raise(ABORT, 'full');
END;
"""
_ADDS = f"{ADDITIVE}\nALTER TABLE queue ADD COLUMN class INTEGER NOT NULL DEFAULT 1;\n"
_BORN, _LATER = Incarnation(b"its-born"), Incarnation(b"a-second")


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """A folder of scripts: the first schema, a step that earlier versions cannot read, and one that they can."""
    folder = tmp_path / "schema"
    folder.mkdir()
    for name, script in {"001_start.sql": _FIRST, "002_places.sql": _RENAMES, "003_classes.sql": _ADDS}.items():
        (folder / name).write_text(script)
    return folder


def _of(schema: Path, last: int) -> Path:
    """Return the scripts as they were when the last one had this number."""
    older = schema.with_name(f"schema-{last}")
    older.mkdir(exist_ok=True)
    for script in sorted(schema.iterdir())[:last]:
        (older / script.name).write_bytes(script.read_bytes())
    return older


def _open(path: Path) -> Database:
    return Database(sqlite3.connect(path, isolation_level=None))


def _migrate(path: Path, schema: Path, incarnation: Incarnation = _LATER) -> int:
    database = _open(path)
    with closing(database.connection):
        migrate(database, incarnation, schema)
        return schema_version(database)


@pytest.fixture
def old(tmp_path: Path, schema: Path) -> Path:
    """A state of the first schema with three rows."""
    path = tmp_path / "state"
    assert _migrate(path, _of(schema, 1), _BORN) == 1
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany(
            "INSERT INTO queue VALUES (?, ?, ?)", [(b"ann", 1, b"a"), (b"ann", 2, None), (b"ben", 1, b"b")]
        )
    return path


def test_an_older_file_runs_the_steps_that_it_lacks_and_keeps_its_data(old: Path, schema: Path) -> None:
    assert _migrate(old, schema) == 3
    with closing(sqlite3.connect(old)) as database:
        rows = database.execute("SELECT peer, place, class, message FROM queue ORDER BY peer").fetchall()
        assert rows == [(b"ann", 1, 1, b"a"), (b"ben", 1, 1, b"b")]
        assert database.execute("SELECT incarnation FROM device").fetchall() == [(_BORN,)]
        with pytest.raises(sqlite3.IntegrityError, match="full"):  # a statement with semicolons inside
            database.execute("INSERT INTO queue VALUES (x'00', 10, x'00', 1)")
    assert _migrate(old, schema) == 3, "nothing runs twice"


def test_a_new_file_has_the_same_tables_as_a_migrated_one(tmp_path: Path, old: Path, schema: Path) -> None:
    assert _migrate(tmp_path / "new", schema, _BORN) == _migrate(old, schema)
    tables = []
    for path in (tmp_path / "new", old):
        with closing(sqlite3.connect(path)) as database:
            tables.append(database.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall())
            assert database.execute("SELECT incarnation FROM device").fetchall() == [(_BORN,)]
    assert tables[0] == tables[1]


def test_a_step_that_fails_leaves_the_file_as_it_was(old: Path, schema: Path) -> None:
    before = old.read_bytes()
    (schema / "003_classes.sql").write_text("CREATE TABLE half (one INTEGER);\nNONSENSE;\n")
    with pytest.raises(StorageError):
        _migrate(old, schema)
    with closing(sqlite3.connect(old)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert database.execute("SELECT link_seq FROM queue").fetchall() == [(1,), (2,), (1,)]
    assert old.read_bytes() == before


def test_an_update_can_be_taken_back_as_far_as_its_steps_only_add(old: Path, schema: Path) -> None:
    assert oldest_reader(schema) == 2
    assert _migrate(old, schema) == 3
    assert _migrate(old, _of(schema, 2)) == 3, "the older one goes on, and leaves the number"
    with pytest.raises(ConfigurationError, match="newer Covey"):
        _migrate(old, _of(schema, 1))


def _of_newer(path: Path, reader: int) -> None:
    """Leave a state as a newer Covey does, for versions from `reader` on."""
    with closing(open_store(path, _BORN)) as store:
        store.database.connection.execute("CREATE TABLE newer (one INTEGER)")
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {newest_schema() + 2}")
        database.execute(f"PRAGMA application_id = {reader}")


def test_the_state_of_a_newer_covey_is_used_where_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "state"
    _of_newer(path, newest_schema())
    with closing(open_store(path, _BORN)) as store, store.transaction():
        store.counters.count("opened")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (newest_schema() + 2,)


@pytest.mark.parametrize("reader", [0, newest_schema() + 1])
def test_the_state_of_a_newer_covey_is_refused_otherwise(tmp_path: Path, reader: int) -> None:
    path = tmp_path / "state"
    _of_newer(path, reader)
    with pytest.raises(ConfigurationError, match="newer Covey"):
        open_store(path, _BORN)


def test_a_state_says_how_far_back_it_can_be_read(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "state", _BORN)) as store:
        assert store.database.connection.execute("PRAGMA application_id").fetchone() == (oldest_reader(),)
        assert schema_version(store.database) == newest_schema()
    assert 1 <= oldest_reader() <= newest_schema()


def test_scripts_are_numbered_without_a_gap() -> None:
    scripts = resources.files("covey.adapters.sqlite") / "schema"
    names = sorted(entry.name for entry in scripts.iterdir() if entry.name.endswith(".sql"))
    assert [int(name.split("_")[0]) for name in names] == list(range(1, len(names) + 1))
