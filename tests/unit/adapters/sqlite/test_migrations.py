"""A state of before loses nothing, migrated or salvaged: of schema 13, when places were link sequences; of 44.

One of a newer Covey is read where that one has left it so. A new file has the tables that the scripts come to.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from covey.adapters.sqlite.inspection import verify
from covey.adapters.sqlite.migrations import NEWEST_TABLES, newest_schema, oldest_reader
from covey.adapters.sqlite.salvage import finish, salvage
from covey.adapters.sqlite.state_file import StateFile
from covey.adapters.sqlite.store import SqliteStore
from covey.core.actions.results import CommandState, OrderResult
from covey.core.ids import Incarnation, OperationId, Place
from covey.core.wire.message import read_message
from covey.errors import ConfigurationError
from covey.limits.storage import OUTBOX_BYTES
from tests.durable import DurableDevice
from tests.fleet import carry, found, identity, open_store
from tests.newest_schema import statements, tables_of_all_scripts

_BEFORE = 13
_ROWS = (
    "SELECT id, place, seq, class, message FROM outbox",
    "SELECT signing_public, base, next_place FROM peer",
    "SELECT author, incarnation, link_seq, message, recipient, place FROM landing",
)


_IS_NOW = {
    ("outbox", "link_seq"): "place",
    ("peer", "next_link_seq"): "next_place",
    ("landing", "link_seq"): "coalesce(place, link_seq)",
    ("revocation", "noted_at"): "aged",
}

State = tuple[Path, list[list[tuple[object, ...]]]]
"""The folder of a device of then, and the rows that its state has now."""


def _scripts(last: int) -> list[str]:
    """Return the scripts of the schema up to a number."""
    folder = resources.files("covey.adapters.sqlite.schema")
    scripts = sorted((each for each in folder.iterdir() if each.name[0].isdigit()), key=lambda each: each.name)
    return [script.read_text() for script in scripts[:last]]


def _as_before(path: Path) -> None:
    """Write a state once more as Covey wrote it with schema 13."""
    former = path.with_name("former")
    with closing(sqlite3.connect(former, isolation_level=None)) as database:
        for script in _scripts(_BEFORE):
            database.executescript(script)
        database.execute("ATTACH ? AS now", (str(path),))
        for (table,) in database.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'").fetchall():
            names = [row[1] for row in database.execute(f"PRAGMA main.table_info({table})")]
            chosen = ", ".join(_IS_NOW.get((table, name), name) for name in names)
            database.execute(f"DELETE FROM main.{table}")
            database.execute(f"INSERT INTO main.{table} ({', '.join(names)}) SELECT {chosen} FROM now.{table}")
        database.execute("DETACH now")
        database.executescript(f"PRAGMA user_version = {_BEFORE}; PRAGMA journal_mode = WAL;")
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(former.read_bytes())  # the same inode: it is no copy
    former.unlink()


def _rows(store: SqliteStore) -> list[list[tuple[object, ...]]]:
    return [store.connection.execute(query).fetchall() for query in _ROWS]


@pytest.fixture
def ann(tmp_path: Path) -> State:
    """A state of schema 13 in which blobs wait in two incarnations, and both ways lead to the vault; its rows now."""
    ann, ben = DurableDevice("ann", tmp_path, collects=True), DurableDevice("ben", tmp_path)
    group_id = found(ben, ann)
    carry(ann, ben)
    ann.blob(group_id, b"one")
    with ann.store.transaction():
        ann.store.incarnations.renew(Incarnation(b"another1"))
    ann.blob(group_id, b"two")
    ben.batch(group_id, b"readings")
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    (place, raw), *_ = ann.store.outbox.queued(ben.key, Place(0), 1, 10_000)
    with ann.store.transaction():
        assert ann.store.landing.land_queued(ben.key, place, read_message(raw), 5)
    rows = _rows(ann.store)
    assert [len(table) for table in rows] == [2, 1, 2]
    ann.stop()
    ben.stop()
    _as_before(tmp_path / "ann")
    with closing(sqlite3.connect(tmp_path / "ann")) as database:
        assert database.execute("SELECT min(link_seq) FROM outbox").fetchone() == (place,)
        assert database.execute("SELECT next_link_seq FROM peer").fetchone() == (place + 2,)
    return tmp_path, rows


@pytest.mark.slow
def test_a_state_of_before_opens_without_loss(ann: State) -> None:
    folder, rows = ann
    assert verify(folder / "ann") == []
    second = DurableDevice("ann", folder, collects=True)
    assert second.reports == []
    assert _rows(second.store) == rows
    second.stop()
    assert verify(folder / "ann") == []
    _deliver(folder)


@pytest.mark.slow
def test_a_damaged_state_of_before_is_saved_without_loss(ann: State) -> None:
    folder, rows = ann
    StateFile(folder / "ann").note_damage()
    second = DurableDevice("ann", folder, collects=True)
    [report] = second.reports
    assert report.lost == {"outbox": 0}
    queue, landing = (second.store.connection.execute(_ROWS[table]).fetchall() for table in (0, 2))
    assert [queue, landing] == [rows[0], rows[2]]
    second.stop()
    _deliver(folder)


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A state of schema 44, which had no secret arguments: one command waits, and one is reported."""
    path = tmp_path / "state"
    path.touch(0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for script in _scripts(44):
            database.executescript(script)
        database.execute("INSERT INTO device (one, incarnation) VALUES (1, ?)", (bytes(8),))
        result = OrderResult(_REPORTED, CommandState.DONE, 1, 2, 1, exit=0).to_wire()
        database.executemany(
            "INSERT INTO command (operation, group_id, once, author, action, arguments, sealed, state, taken_at, "
            "synchronised, tries, body, reported) VALUES (?, ?, ?, ?, 'dim', ?, 0, ?, 1, 1, 0, ?, ?)",
            [
                (_WAITS, _WAITS, bytes(16), _WAITS, '{"to": "3"}', 0, None, 0),
                (_REPORTED, _WAITS, bytes(15) + b"1", _WAITS, None, 2, result, 1),
            ],
        )
        database.execute("PRAGMA user_version = 44")
    return path


_WAITS, _REPORTED = OperationId(bytes(32)), OperationId(bytes([1]) * 32)


def _check_commands(path: Path) -> None:
    with closing(SqliteStore(path, Incarnation(bytes(8)), OUTBOX_BYTES)) as store:
        [waits] = [store.commands.record(each) for each in store.commands.waiting()]
        assert waits is not None
        assert (waits.command.operation, waits.command.arguments, waits.command.sealed) == (_WAITS, {"to": "3"}, None)
        reported = store.commands.record(_REPORTED)
        assert reported is not None
        assert reported.state is CommandState.DONE
        assert store.commands.next_unreported() is None


def test_commands_of_before_wait_on(commands: Path) -> None:
    _check_commands(commands)


def test_commands_of_before_in_a_damaged_state_wait_on(commands: Path) -> None:
    report = salvage(commands, identity("ann"), Incarnation(bytes(8)), OUTBOX_BYTES, 1)
    finish(commands)
    assert "command" not in report.lost
    _check_commands(commands)


def test_no_two_migrations_share_a_number() -> None:
    scripts = resources.files("covey.adapters.sqlite") / "schema"
    names = sorted(entry.name for entry in scripts.iterdir() if entry.name[0].isdigit())
    assert [int(name.split("_")[0]) for name in names] == list(range(1, len(names) + 1))


def _deliver(folder: Path) -> None:
    """What waited comes, once and in order; and the numbers go on."""
    ann, ben = DurableDevice("ann", folder, collects=True), DurableDevice("ben", folder)
    [group] = ann.node.groups.joined()
    ann.blob(group.group_id, b"three")
    carry(ann, ben)
    assert ben.inbox() == [b"one", b"two", b"three"]
    assert ann.store.outbox.totals()[0] == 0
    ann.stop()
    ben.stop()


def _of_newer(path: Path, reader: int) -> None:
    """Leave a state as a newer Covey does, with which those from one on go on."""
    with closing(open_store(path, Incarnation(bytes(8)))) as store:
        store.database.connection.execute("CREATE TABLE newer (one INTEGER)")
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {newest_schema() + 2}")
        database.execute(f"PRAGMA application_id = {reader}")


def test_an_update_can_be_taken_back_where_what_it_left_says_so(tmp_path: Path) -> None:
    path = tmp_path / "state"
    _of_newer(path, newest_schema())
    with closing(open_store(path, Incarnation(bytes(8)))) as store, store.transaction():
        store.counters.count("opened")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (newest_schema() + 2,), (
            "it is the newer one's still"
        )


@pytest.mark.parametrize("reader", [0, newest_schema() + 1])
def test_what_a_newer_covey_left_for_newer_ones_alone_is_refused(tmp_path: Path, reader: int) -> None:
    path = tmp_path / "state"
    _of_newer(path, reader)
    with pytest.raises(ConfigurationError, match="newer Covey"):
        open_store(path, Incarnation(bytes(8)))


def test_a_state_says_how_far_back_it_can_be_read(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "state", Incarnation(bytes(8)))) as store:
        assert store.database.connection.execute("PRAGMA application_id").fetchone() == (oldest_reader(),)
    assert 45 <= oldest_reader() <= newest_schema()


def _words(script: str) -> list[str]:
    """Return what a script says, however a version of SQLite sets it."""
    return script.replace('"', "").split()


def test_a_new_file_has_what_all_scripts_come_to(tmp_path: Path) -> None:
    assert _words(NEWEST_TABLES.read_text()) == _words(tables_of_all_scripts()), "run python -m tests.newest_schema"
    with closing(open_store(tmp_path / "state", Incarnation(bytes(8)))) as store:
        new = statements(store.database.connection)
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(NEWEST_TABLES.read_text())
        assert new == statements(database)
