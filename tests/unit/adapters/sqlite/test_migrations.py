"""Places of queues were called link sequences up to schema 13: a state of then loses nothing, migrated or salvaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from covey.adapters.sqlite.inspection import verify
from covey.adapters.sqlite.state_file import StateFile
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import Incarnation, Place
from covey.core.wire.message import read_message
from tests.durable import DurableDevice
from tests.fleet import carry, found

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


def _as_before(path: Path) -> None:
    """Write a state once more as Covey wrote it with schema 13."""
    former = path.with_name("former")
    with closing(sqlite3.connect(former, isolation_level=None)) as database:
        scripts = sorted(
            (each for each in resources.files("covey.adapters.sqlite.schema").iterdir() if each.name.endswith(".sql")),
            key=lambda each: each.name,
        )
        for script in scripts[:_BEFORE]:
            database.executescript(script.read_text())
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


def test_a_state_of_before_opens_without_loss(ann: State) -> None:
    folder, rows = ann
    assert verify(folder / "ann") == []
    second = DurableDevice("ann", folder, collects=True)
    assert second.reports == []
    assert _rows(second.store) == rows
    second.stop()
    assert verify(folder / "ann") == []
    _deliver(folder)


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


def test_no_two_migrations_share_a_number() -> None:
    scripts = resources.files("covey.adapters.sqlite") / "schema"
    names = sorted(entry.name for entry in scripts.iterdir() if entry.name.endswith(".sql"))
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
