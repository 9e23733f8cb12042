"""The durable state of one device in one SQLite file: opening it, its inbox, its landing.

Power-safe by WAL with synchronous=FULL: a commit is one write and one sync, and nothing committed is lost
(measured over simulated power cuts: WAL NORMAL loses rows, DELETE FULL the last commit). Callers group
what they can into one transaction. Several processes may share the file; a transaction takes the write lock at
its start, so that what it read still holds when it commits.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from covey.adapters.files import synchronise
from covey.adapters.sqlite.boards import BoardTables
from covey.adapters.sqlite.collectors import CollectingTables
from covey.adapters.sqlite.groups import GroupTables
from covey.adapters.sqlite.link_keys import LinkKeyTables
from covey.adapters.sqlite.outbox import check_digest, digest
from covey.adapters.sqlite.pairing import PairingTables
from covey.adapters.sqlite.presence import PresenceTables
from covey.adapters.sqlite.progress import moving
from covey.adapters.sqlite.received import ReceivedTables
from covey.adapters.sqlite.reserved_space import ReservedSpace
from covey.core.ids import INCARNATION_BYTES
from covey.core.link.receiver import ready_in_order
from covey.core.records import LandedMessage, LandingPlan, Quarantined
from covey.core.wire.message import Message
from covey.errors import ConfigurationError, DamagedStateError, DiskFullError, StorageError
from covey.limits import (
    INBOX_BYTES,
    LANDING_BYTES,
    LOG_BYTES,
    OUTBOX_BYTES,
    QUARANTINED_MESSAGES,
)

_BUSY_MS = 10_000
_PAGE_CACHE_KIB = 512

PAGE_BYTES = 1_024
"""Of a new file. Each commit writes some pages whole of which it changes a few bytes (measured, docs/adr/0020)."""

_LEANED_ON = (
    "SELECT count(incarnation), count(next_link_seq) FROM peer LEFT JOIN earlier ON earlier.peer = peer.id",
    "SELECT count(digest) FROM received",
    "SELECT count(length(raw)) FROM group_manifest WHERE state <> 2",
    "SELECT count(length(secret)) FROM epoch_secret",
)
"""The small tables, as far as they are not history; reading them takes less than opening the file."""


class SqliteStore(
    CollectingTables, GroupTables, PairingTables, BoardTables, PresenceTables, ReceivedTables, LinkKeyTables
):
    """Implements `core.records.Records`; its calls belong inside `transaction()`, except the ones that only look.

    Raises (all methods):
        DiskFullError: no room; the transaction is rolled back.
        DamagedStateError: the file is not what was written; `adapters/sqlite/salvage.py` saves what can be read.
        StorageError: the file cannot be read or written.
    """

    def __init__(
        self,
        path: Path,
        new_incarnation: bytes,
        outbox_bytes: int = OUTBOX_BYTES,
        reserved: ReservedSpace | None = None,
        moves: Callable[[], None] | None = None,
    ) -> None:
        assert len(new_incarnation) == INCARNATION_BYTES
        super().__init__()
        self._outbox_bytes = outbox_bytes
        self._reserved = reserved
        self._lock: int | None = None
        # Only where there is no file: closing one would drop the locks that this process holds on it (POSIX).
        new = not path.exists()
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with _translated():
            self._db = self._connect(path)
            self._enter_wal()
            self._db.execute("PRAGMA synchronous = FULL")
            self.frames_read: int = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
            self._db.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
            self._db.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // self._one('PRAGMA page_size')}")
            self._db.execute("PRAGMA secure_delete = FAST")  # else each freed message is written once more, as zeros
            with moving(self._db, moves):
                self._migrate(new_incarnation)
            if new:  # a journal of its first moment, come back after a power cut, would undo everything
                synchronise(path.parent)
            self._look_through()
        self._seen_version = self._data_version()

    def _connect(self, path: Path) -> sqlite3.Connection:
        database = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MS / 1000, cached_statements=64)
        database.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # an older file keeps its own
        return database

    def _enter_wal(self) -> None:
        """Use a write-ahead log. SQLite does not wait for another process that is just doing the same: we do."""
        deadline = time.monotonic() + _BUSY_MS / 1000
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _migrate(self, new_incarnation: bytes) -> None:
        """Apply the numbered scripts that this file has not seen, in one transaction; a new file gets its incarnation.

        Raises:
            ConfigurationError: a newer Covey wrote the file; nothing was changed.
        """
        scripts = _scripts()
        newest = scripts[-1][0]
        if self._schema_version() == newest:
            return
        with self.transaction():  # another process may have been quicker: look again under the lock
            version = self._schema_version()
            if version > newest:
                raise ConfigurationError(
                    f"the state was written by a newer Covey (schema {version}, this one knows {newest})",
                    hint="upgrade Covey, or start with another --state folder",
                )
            for number, script in scripts:
                if number <= version:
                    continue
                for statement in _statements(script.read_text()):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {number}")
            if version == 0:
                self._db.execute("INSERT INTO device (one, incarnation) VALUES (1, ?)", (new_incarnation,))

    def _schema_version(self) -> int:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        return int(version)

    def _look_through(self) -> None:
        """Read what everything else leans on: damage there shows at once, and not in the middle of something."""
        self._one("SELECT next_seq FROM device")
        for statement in _LEANED_ON:
            self._run(statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a write transaction; commit durably at the end, roll back on any exception."""
        try:
            with _translated():
                self._lean = self._reserved is not None and not self._reserved.there()
                self._db.execute("BEGIN IMMEDIATE")
                self._noted.clear()
                self._kept.clear()
                self.begin_links()
                try:
                    yield
                    self.write_links()
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
                finally:
                    self.end_links()
        except DiskFullError:
            if self._reserved is not None and self._reserved.drop():
                with suppress(StorageError):
                    self.fold()
            raise

    def fold(self) -> None:
        """Fold the write-ahead log into the file. Closing does, too, but says nothing where there is no room for it."""
        with _translated():
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def changed_elsewhere(self) -> bool:
        """Say whether another process has committed since the last call."""
        version = self._data_version()
        changed = version != self._seen_version
        self._seen_version = version
        return changed

    def _data_version(self) -> int:
        return self._one("PRAGMA data_version")

    def close(self) -> None:
        """Close the file; the last process folds the write-ahead log back into it."""
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def keep(self, lock: int) -> None:
        """Hold a lock's file until this one is closed."""
        self._lock = lock

    @property
    def connection(self) -> sqlite3.Connection:
        """The database itself, for what takes rows over from another one."""
        return self._db

    # -- inbox and links ----------------------------------------------------------------------------------------------

    def deliver(self, message: Message, now_us: int) -> bool:
        """Put a message into the application's inbox; False where the inbox is full."""
        if self._lean or not self._take_room("inbox_bytes", len(message.body), INBOX_BYTES):
            return False
        self._run(
            "INSERT INTO inbox (group_id, author, incarnation, link_seq, seq, sent_at, received_at, body, digest) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                message.group_id,
                message.author,
                message.incarnation,
                message.link_seq,
                message.seq,
                message.sent_at_us,
                now_us,
                message.body,
                digest(message.group_id, message.author, message.body),
            ),
        )
        return True

    def _take_room(self, column: str, size: int, maximum: int) -> bool:
        """Add to one of the device row's totals unless that would exceed its bound."""
        row = self._first(
            f"UPDATE device SET {column} = {column} + ? WHERE {column} + ? <= ? RETURNING 1",  # noqa: S608 - our names
            (size, size, maximum),
        )
        return row is not None

    def arrived(self, limit: int, after: int = 0) -> list[tuple[int, bytes, bytes, int, int, bytes]]:
        """Return the oldest (id, group_id, author, sent_at_us, received_at_us, body) of the inbox, after an id."""
        rows = self._run(
            "SELECT id, group_id, author, sent_at, received_at, body, digest FROM inbox WHERE id > ? "
            "ORDER BY id LIMIT ?",
            (after, limit),
        )
        for row in rows:
            check_digest(row[6], row[1], row[2], row[5])
        return [row[:6] for row in rows]

    def arrived_in_order(self, limit: int, but: Container[int] = ()) -> list[tuple[int, bytes, bytes, int, int, bytes]]:
        """Return as `arrived` does, with the blobs of each author in the order of sending; `but` leaves some out.

        A blob is held back until all that its author sent before it on the same link has come, or never will.
        """
        entries = self._run("SELECT id, author, seq, incarnation, link_seq FROM inbox")
        links = {(author, incarnation) for _, author, _, incarnation, _ in entries if incarnation is not None}
        complete = {link: self.received(*link).upto for link in links}
        ready = [identifier for identifier in ready_in_order(entries, complete) if identifier not in but]
        found = [row for identifier in ready[:limit] for row in self.arrived(1, identifier - 1) if row[0] == identifier]
        return found or (self.arrived_in_order(limit, but) if ready else [])  # another process has taken them

    def consume(self, identifier: int) -> None:
        """Forget a blob that the application has taken; another process may have done so."""
        for (size,) in self._run("DELETE FROM inbox WHERE id = ? RETURNING length(body)", (identifier,)):
            self._run("UPDATE device SET inbox_bytes = inbox_bytes - ?", (size,))

    # -- landing ------------------------------------------------------------------------------------------------------

    def land(self, message: Message, now_us: int) -> bool:
        """Keep a message for the collector; False where too much waits for the vault."""
        return self._land((message.author, message.incarnation, message.link_seq), message.raw, now_us)

    def land_queued(self, recipient: bytes, place: int, message: Message, now_us: int) -> bool:
        """Keep a copy of what waits for a recipient, for this device's own node; False as for `land`."""
        if self._first("SELECT 1 FROM landing WHERE recipient = ? AND link_seq = ?", (recipient, place)):
            return True
        return self._land((message.author, message.incarnation, place), message.raw, now_us, recipient)

    def _land(self, where: tuple[bytes, bytes, int], raw: bytes, now_us: int, recipient: bytes | None = None) -> bool:
        if self._lean or not self._take_room("landing_bytes", len(raw), LANDING_BYTES):
            return False
        self._run(
            "INSERT INTO landing (author, incarnation, link_seq, received_at, size, message, recipient, digest) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*where, now_us, len(raw), raw, recipient, digest(*where, raw)),
        )
        return True

    def unlanded(self, author: bytes, incarnation: bytes) -> set[int]:
        """Return the link sequences of a link that wait for the vault."""
        return {
            row[0]
            for row in self._run(
                "SELECT link_seq FROM landing WHERE author = ? AND incarnation = ? AND recipient IS NULL",
                (author, incarnation),
            )
        }

    def landing_plan(self) -> LandingPlan | None:
        """Return the segment that is being written."""
        row = self._first("SELECT number, incarnation, last_id, created_at, nonce FROM landing_plan")
        return LandingPlan(*row) if row else None

    def plan_landing(self, plan: LandingPlan) -> None:
        """Fix what the next segment holds, before any of it is written."""
        self._run(
            "INSERT INTO landing_plan VALUES (1, ?, ?, ?, ?, ?)",
            (plan.number, plan.incarnation, plan.last_id, plan.created_at_us, plan.nonce),
        )

    def landing_bytes(self) -> int:
        """Return how much waits for the vault."""
        return self._one("SELECT landing_bytes FROM device")

    def landing_waiting(self, maximum_bytes: int, maximum_records: int) -> tuple[int, int, int] | None:
        """Return (last id, bytes, newest arrival) of what fits the next segment, or None where nothing waits."""
        last = total = newest = 0
        rows = self._run("SELECT id, size, received_at FROM landing ORDER BY id LIMIT ?", (maximum_records,))
        for identifier, size, received_at in rows:
            if total and total + size > maximum_bytes:
                break
            total += size
            last, newest = identifier, max(newest, received_at)
        return (last, total, newest) if rows else None

    def landing_until(self, last_id: int) -> list[LandedMessage]:
        """Return the messages of a plan, in order of arrival."""
        return [
            LandedMessage(*row)
            for row in self._run(
                "SELECT author, incarnation, link_seq, received_at, message, recipient FROM landing "
                "WHERE id <= ? ORDER BY id",
                (last_id,),
            )
        ]

    def manifest_floor(self) -> int:
        """Return the highest `manifest_seq` that this device has published."""
        return self._one("SELECT manifest_floor FROM device")

    def finish_landing(self, plan: LandingPlan, manifest_seq: int) -> None:
        """Forget a plan and its messages: they are in the vault, listed by that manifest."""
        size = self._one("SELECT coalesce(sum(size), 0) FROM landing WHERE id <= ?", plan.last_id)
        self._run("DELETE FROM landing WHERE id <= ?", (plan.last_id,))
        self._run("UPDATE device SET landing_bytes = landing_bytes - ?", (size,))
        self.note_manifest(manifest_seq)
        self._run("DELETE FROM landing_plan WHERE number = ?", (plan.number,))

    def note_manifest(self, manifest_seq: int) -> None:
        """Remember that a vault manifest was published."""
        self._run("UPDATE device SET manifest_floor = max(manifest_floor, ?)", (manifest_seq,))

    # -- what people ask ----------------------------------------------------------------------------------------------

    def quarantine(self, code: str, message: bytes, now_us: int, recipient: bytes | None = None) -> None:
        """Keep a message that could not be used, or sent to a recipient; the oldest go when there are too many."""
        self._run(
            "INSERT INTO quarantine (code, stored_at, message, recipient) VALUES (?, ?, ?, ?)",
            (code, now_us, message, recipient),
        )
        self._run("DELETE FROM quarantine WHERE id <= (SELECT max(id) FROM quarantine) - ?", (QUARANTINED_MESSAGES,))

    def quarantined(self) -> list[Quarantined]:
        """Return what is in quarantine, oldest first."""
        return [
            Quarantined(*row)
            for row in self._run("SELECT id, code, stored_at, recipient, message FROM quarantine ORDER BY id")
        ]

    def end_quarantine(self, identifier: int) -> bool:
        """Forget a message in quarantine; False where there is none of that number."""
        return bool(self._run("DELETE FROM quarantine WHERE id = ? RETURNING id", (identifier,)))

    def salvages(self) -> list[tuple[int, dict[str, Any]]]:
        """Return (when, report) of the times that this state was saved from a damaged file, oldest first."""
        rows = self._run("SELECT salvaged_at, report FROM salvage ORDER BY id")
        return [(row[0], json.loads(row[1])) for row in rows]

    def mark(self) -> bytes | None:
        """Return what stands beside the file, too, unless one of both was restored (`state_file.py`)."""
        row = self._first("SELECT mark FROM device")
        return None if row is None or row[0] is None else bytes(row[0])

    def set_mark(self, mark: bytes) -> None:
        """Remember it."""
        self._run("UPDATE device SET mark = ?", (mark,))

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter."""
        self._run(
            "INSERT INTO counter VALUES (?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
            (counter, amount),
        )

    def counters(self) -> dict[str, int]:
        """Return every counter by name."""
        return dict(self._run("SELECT name, value FROM counter ORDER BY name"))

    def set_condition(self, name: str, value: str, now_us: int) -> None:
        """Note what the running agent knows of the world."""
        self._run("INSERT OR REPLACE INTO condition VALUES (?, ?, ?)", (name, value, now_us))

    def conditions(self) -> dict[str, tuple[str, int]]:
        """Return every condition: name to (value, since when in microseconds)."""
        return {row[0]: (row[1], row[2]) for row in self._run("SELECT name, value, changed_at FROM condition")}

    def _run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Run a statement, inside a transaction or not, and return its rows."""
        try:
            return self._db.execute(statement, parameters).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _translation(error) from error

    def _each(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Any]:
        """Run a statement and yield its rows, as far as they are wanted."""
        try:
            yield from self._db.execute(statement, parameters)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _translation(error) from error

    def _first(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        rows = self._run(statement, parameters)
        return rows[0] if rows else None

    def _one(self, statement: str, *parameters: object) -> int:
        row = self._first(statement, parameters)
        if row is None:
            raise DamagedStateError("the state database lacks a row that it must have")
        return row[0]  # type: ignore[no-any-return] # STRICT tables give what the caller's column says


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


@contextmanager
def _translated() -> Iterator[None]:
    """Turn sqlite3's errors into the project's."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _translation(error) from error


def _translation(error: sqlite3.Error | UnicodeDecodeError) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0)
    unreadable = isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode")
    if unreadable or code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return DamagedStateError(f"the state database is damaged: {error}")
    if code == sqlite3.SQLITE_FULL:
        return DiskFullError("no room on the disk that holds the state", hint="free some space; what was queued stays")
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return StorageError("the state is locked by another process", hint="is a backup or another covey running?")
    if code & 0xFF in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}:
        return StorageError(f"the state database: {error}", hint="is its disk full, read-only or broken? see dmesg")
    return StorageError(f"the state database: {error}")
