"""The durable state of one device in one SQLite file. The only importer of sqlite3.

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

from agent.adapters.sqlite_boards import BoardTables
from agent.adapters.sqlite_groups import GroupTables
from agent.core.ids import INCARNATION_BYTES
from agent.core.limits import (
    INBOX_BYTES,
    LANDING_BYTES,
    MESSAGE_OVERHEAD_BYTES,
    OUTBOX_BYTES,
    OUTBOX_DROP_SHARE,
    QUARANTINED_MESSAGES,
)
from agent.core.message import Message
from agent.core.records import LandedMessage, LandingPlan, MessageClass, QueueSummary
from agent.core.sequences import Range, SequenceSet
from agent.errors import ConfigurationError, DiskFullError, OutboxFullError, StorageError

_BUSY_MS = 10_000
_PAGE_CACHE_KIB = 512


class SqliteStore(GroupTables, BoardTables):
    """Implements `core.records.Records`; its calls belong inside `transaction()`, except the ones that only look.

    Raises (all methods):
        DiskFullError: no room; the transaction is rolled back.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: Path, new_incarnation: bytes, outbox_bytes: int = OUTBOX_BYTES) -> None:
        assert len(new_incarnation) == INCARNATION_BYTES
        self._outbox_bytes = outbox_bytes
        # Only where there is no file: closing one would drop the locks that this process holds on it (POSIX).
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with _translated():
            self._db = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MS / 1000, cached_statements=64)
            self._enter_wal()
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
            self._migrate(new_incarnation)
        self._seen_version = self._data_version()

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
        scripts = sorted(
            (int(entry.name.split("_")[0]), entry)
            for entry in resources.files("agent.adapters.schema").iterdir()
            if entry.name.endswith(".sql")
        )
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
            for number, script in scripts[version:]:
                for statement in _statements(script.read_text()):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {number}")
            if version == 0:
                self._db.execute("INSERT INTO device (one, incarnation) VALUES (1, ?)", (new_incarnation,))

    def _schema_version(self) -> int:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        return int(version)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a write transaction; commit durably at the end, roll back on any exception."""
        with _translated():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

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

    # -- outbox -------------------------------------------------------------------------------------------------------

    def incarnation(self) -> bytes:
        """Return the 8 bytes drawn when this state was new."""
        return bytes(self._one("SELECT incarnation FROM device"))

    def allocate(self, recipient: bytes) -> tuple[int, int]:
        """Return the next (seq, link_seq) for a recipient."""
        seq = self._one("UPDATE device SET next_seq = next_seq + 1 RETURNING next_seq - 1")
        link_seq = self._one(
            "INSERT INTO peer (signing_public, next_link_seq) VALUES (?, 2) "
            "ON CONFLICT DO UPDATE SET next_link_seq = next_link_seq + 1 RETURNING next_link_seq - 1",
            recipient,
        )
        return seq, link_seq

    def queue(self, recipient: bytes, seq: int, link_seq: int, kind: MessageClass, message: bytes, now_us: int) -> None:
        """Append a signed message to the outbox.

        Raises:
            OutboxFullError: the outbox has reached its bound; control messages may exceed it.
        """
        size = len(message)
        total = self._one(
            "UPDATE device SET queued_messages = queued_messages + 1, queued_bytes = queued_bytes + ? "
            "RETURNING queued_bytes",
            size,
        )
        if total > self._outbox_bytes and kind is not MessageClass.CONTROL:
            raise OutboxFullError(
                f"the outbox holds {total - size} of {self._outbox_bytes} bytes",
                hint="'covey status' shows for whom messages wait; raise outbox.maximum_bytes if there is room",
            )
        peer = self._one(
            "UPDATE peer SET queued_messages = queued_messages + 1 WHERE signing_public = ? RETURNING id", recipient
        )
        self._run("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", (peer, link_seq, seq, kind, size, now_us, message))

    def queued(self, recipient: bytes, after_link_seq: int, limit: int, size: int) -> list[tuple[int, bytes]]:
        """Return (link_seq, message) of a recipient in link order: up to `limit`, until their bytes reach `size`."""
        rows: list[tuple[int, bytes]] = []
        with _translated():
            for link_seq, message in self._db.execute(
                "SELECT link_seq, message FROM outbox WHERE peer = (SELECT id FROM peer WHERE signing_public = ?) "
                "AND link_seq > ? ORDER BY link_seq LIMIT ?",
                (recipient, after_link_seq, limit),
            ):
                rows.append((link_seq, message))
                size -= len(message)
                if size <= 0:
                    break
        return rows

    def make_room(self, recipient: bytes, size: int) -> list[Range]:
        """Where `size` more bytes would not fit, forget the recipient's oldest telemetry; return the link sequences."""
        queued = self._one("SELECT queued_bytes FROM device")
        missing = queued + size - self._outbox_bytes
        if missing <= 0:
            return []
        wanted = max(missing, self._outbox_bytes // OUTBOX_DROP_SHARE)
        ranges: list[Range] = []
        freed = rows = 0
        with _translated():
            for link_seq, row_size in self._db.execute(
                "SELECT link_seq, size FROM outbox WHERE peer = (SELECT id FROM peer WHERE signing_public = ?) "
                "AND class = ? ORDER BY link_seq",
                (recipient, MessageClass.TELEMETRY),
            ):
                if ranges and ranges[-1][1] == link_seq - 1:
                    ranges[-1] = (ranges[-1][0], link_seq)
                else:
                    ranges.append((link_seq, link_seq))
                freed += row_size
                rows += 1
                if freed - len(ranges) * MESSAGE_OVERHEAD_BYTES >= wanted:
                    break
        if freed - len(ranges) * MESSAGE_OVERHEAD_BYTES < missing:
            return []
        for first, last in ranges:
            self._forget(recipient, first, last)
        self._forgotten(recipient, rows, freed)
        self.count("dropped_outbox_full", rows)
        return ranges

    def withdraw(self, recipient: bytes, link_seq: int, code: str, now_us: int) -> bool:
        """Move a message from the outbox to quarantine; False where it is gone already."""
        found = self.queued(recipient, link_seq - 1, 1, 1)
        if not found or found[0][0] != link_seq:
            return False
        message = found[0][1]
        self.quarantine(code, message, now_us)
        self._forget(recipient, link_seq, link_seq)
        self._forgotten(recipient, 1, len(message))
        return True

    def _forget(self, recipient: bytes, first: int, last: int) -> None:
        self._run(
            "DELETE FROM outbox WHERE peer = (SELECT id FROM peer WHERE signing_public = ?) "
            "AND link_seq BETWEEN ? AND ?",
            (recipient, first, last),
        )

    def _forgotten(self, recipient: bytes, rows: int, size: int) -> None:
        """Take messages out of the totals."""
        self._run("UPDATE peer SET queued_messages = queued_messages - ? WHERE signing_public = ?", (rows, recipient))
        self._run(
            "UPDATE device SET queued_messages = queued_messages - ?, queued_bytes = queued_bytes - ?", (rows, size)
        )

    def recipients_waiting(self) -> list[bytes]:
        """Return the recipients that the outbox holds messages for."""
        return [row[0] for row in self._run("SELECT signing_public FROM peer WHERE queued_messages > 0")]

    def free(self, recipient: bytes, received: SequenceSet) -> int:
        """Forget messages that the recipient holds; return how many."""
        peer = self._first("SELECT id FROM peer WHERE signing_public = ?", (recipient,))
        if peer is None:
            return 0
        freed = size = 0
        for first, last in ((0, received.upto), *received.ranges):
            bounds = (peer[0], first, last)
            [(count, total)] = self._run(
                "SELECT count(*), coalesce(sum(size), 0) FROM outbox WHERE peer = ? AND link_seq BETWEEN ? AND ?",
                bounds,
            )
            if count:
                self._run("DELETE FROM outbox WHERE peer = ? AND link_seq BETWEEN ? AND ?", bounds)
                freed += count
                size += total
        if freed:
            self._run(
                "UPDATE peer SET queued_messages = queued_messages - ?, acknowledged = acknowledged + ? WHERE id = ?",
                (freed, freed, peer[0]),
            )
            self._run(
                "UPDATE device SET queued_messages = queued_messages - ?, queued_bytes = queued_bytes - ?",
                (freed, size),
            )
        return freed

    def let_go(self, recipient: bytes, received: SequenceSet) -> list[Range]:
        """Return the link sequences before what the outbox still holds that the recipient lacks."""
        peer = self._first("SELECT id, next_link_seq FROM peer WHERE signing_public = ?", (recipient,))
        if peer is None:
            return []
        query = "SELECT link_seq FROM outbox WHERE peer = ? AND link_seq > ? ORDER BY link_seq LIMIT 1"
        gone: list[Range] = []
        for first, last in (*received.holes(), (received.highest() + 1, peer[1] - 1)):
            held = self._first(query, (peer[0], first - 1))
            if first <= last and (held is None or held[0] > first):
                gone.append((first, last if held is None else min(last, held[0] - 1)))
        return gone

    def queues(self) -> list[QueueSummary]:
        """Return what waits for each recipient, and since when."""
        return [
            QueueSummary(*row)
            for row in self._run(
                "SELECT signing_public, queued_messages, acknowledged, "
                "(SELECT queued_at FROM outbox WHERE peer = peer.id ORDER BY link_seq LIMIT 1) FROM peer ORDER BY id"
            )
        ]

    def waiting(self, recipient: bytes, limit: int) -> list[tuple[int, int, int, int]]:
        """Return the oldest (link_seq, class, bytes, queued_at_us) of a recipient."""
        return self._run(
            "SELECT link_seq, class, size, queued_at FROM outbox "
            "WHERE peer = (SELECT id FROM peer WHERE signing_public = ?) ORDER BY link_seq LIMIT ?",
            (recipient, limit),
        )

    def totals(self) -> tuple[int, int]:
        """Return (messages, bytes) of the outbox."""
        [(messages, size)] = self._run("SELECT queued_messages, queued_bytes FROM device")
        return messages, size

    # -- inbox and links ----------------------------------------------------------------------------------------------

    def received(self, author: bytes, incarnation: bytes) -> SequenceSet:
        """Return what has come over a link."""
        row = self._first(
            "SELECT upto, ranges FROM received WHERE author = ? AND incarnation = ?", (author, incarnation)
        )
        return SequenceSet(row[0], tuple(map(tuple, json.loads(row[1])))) if row else SequenceSet()

    def set_received(self, author: bytes, incarnation: bytes, received: SequenceSet) -> None:
        """Remember what has come over a link."""
        self._run(
            "INSERT OR REPLACE INTO received VALUES (?, ?, ?, ?)",
            (author, incarnation, received.upto, json.dumps(received.ranges)),
        )

    def deliver(self, message: Message, now_us: int) -> bool:
        """Put a message into the application's inbox; False where the inbox is full."""
        if not self._take_room("inbox_bytes", len(message.body), INBOX_BYTES):
            return False
        self._run(
            "INSERT INTO inbox (group_id, author, seq, sent_at, received_at, body) VALUES (?, ?, ?, ?, ?, ?)",
            (message.group_id, message.author, message.seq, message.sent_at_us, now_us, message.body),
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
        return self._run(
            "SELECT id, group_id, author, sent_at, received_at, body FROM inbox WHERE id > ? ORDER BY id LIMIT ?",
            (after, limit),
        )

    def consume(self, identifier: int) -> None:
        """Forget a blob that the application has taken; another process may have done so."""
        for (size,) in self._run("DELETE FROM inbox WHERE id = ? RETURNING length(body)", (identifier,)):
            self._run("UPDATE device SET inbox_bytes = inbox_bytes - ?", (size,))

    # -- landing ------------------------------------------------------------------------------------------------------

    def land(self, message: Message, now_us: int) -> bool:
        """Keep a message for the collector; False where too much waits for the vault."""
        size = len(message.raw)
        if not self._take_room("landing_bytes", size, LANDING_BYTES):
            return False
        self._run(
            "INSERT INTO landing (author, incarnation, link_seq, received_at, size, message) VALUES (?, ?, ?, ?, ?, ?)",
            (message.author, message.incarnation, message.link_seq, now_us, size, message.raw),
        )
        return True

    def unlanded(self, author: bytes, incarnation: bytes) -> set[int]:
        """Return the link sequences of a link that wait for the vault."""
        return {
            row[0]
            for row in self._run(
                "SELECT link_seq FROM landing WHERE author = ? AND incarnation = ?", (author, incarnation)
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

    def landing_waiting(self, maximum_bytes: int, maximum_records: int) -> tuple[int, int] | None:
        """Return (last id, bytes) of what fits the next segment, or None where nothing waits."""
        last = total = 0
        rows = self._run("SELECT id, size FROM landing ORDER BY id LIMIT ?", (maximum_records,))
        for identifier, size in rows:
            if total and total + size > maximum_bytes:
                break
            total += size
            last = identifier
        return (last, total) if rows else None

    def landing_until(self, last_id: int) -> list[LandedMessage]:
        """Return the messages of a plan, in order of arrival."""
        return [
            LandedMessage(*row)
            for row in self._run(
                "SELECT author, incarnation, link_seq, received_at, message FROM landing WHERE id <= ? ORDER BY id",
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
        self._run("UPDATE device SET landing_bytes = landing_bytes - ?, manifest_floor = ?", (size, manifest_seq))
        self._run("DELETE FROM landing_plan")

    # -- what people ask ----------------------------------------------------------------------------------------------

    def quarantine(self, code: str, message: bytes, now_us: int) -> None:
        """Keep an authentic message that could not be used; the oldest go when there are too many."""
        self._run("INSERT INTO quarantine (code, stored_at, message) VALUES (?, ?, ?)", (code, now_us, message))
        self._run("DELETE FROM quarantine WHERE id <= (SELECT max(id) FROM quarantine) - ?", (QUARANTINED_MESSAGES,))

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
        except sqlite3.Error as error:
            raise _translation(error) from error

    def _first(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        rows = self._run(statement, parameters)
        return rows[0] if rows else None

    def _one(self, statement: str, *parameters: object) -> int:
        row = self._first(statement, parameters)
        if row is None:
            raise StorageError("the state database lacks a row that it must have")
        return row[0]  # type: ignore[no-any-return] # STRICT tables give what the caller's column says


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
    except sqlite3.Error as error:
        raise _translation(error) from error


def _translation(error: sqlite3.Error) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_FULL:
        return DiskFullError("no room on the disk that holds the state", hint="free some space; what was queued stays")
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return StorageError("the state is locked by another process", hint="is a backup or another covey running?")
    return StorageError(f"the state database: {error}")
