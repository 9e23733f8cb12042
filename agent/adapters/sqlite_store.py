"""The durable state of one device in one SQLite file. The only importer of sqlite3.

Power-safe by WAL with synchronous=FULL: a commit is one write and one sync, and nothing committed is lost
(measured over simulated power cuts: WAL NORMAL loses rows, DELETE FULL the last commit). Callers group
what they can into one transaction. Several processes may share the file; a transaction takes the write lock at
its start, so that what it read still holds when it commits.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from agent.core.crypto import DeviceKeys
from agent.core.ids import INCARNATION_BYTES
from agent.core.limits import INBOX_BYTES, LANDING_BYTES, OUTBOX_BYTES, QUARANTINED_MESSAGES
from agent.core.message import Message
from agent.core.records import LandedMessage, LandingPlan, MessageClass, OpenInvite, PendingJoin, QueueSummary
from agent.core.sequences import SequenceSet
from agent.errors import ConfigurationError, DiskFullError, OutboxFullError, StorageError

_BUSY_MS = 10_000
_PAGE_CACHE_KIB = 512


class SqliteStore:
    """Implements `core.records.Records`; its calls belong inside `transaction()`, except the ones that only look.

    Raises (all methods):
        DiskFullError: no room; the transaction is rolled back.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: Path, new_incarnation: bytes, outbox_bytes: int = OUTBOX_BYTES) -> None:
        assert len(new_incarnation) == INCARNATION_BYTES
        self._outbox_bytes = outbox_bytes
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with _translated():
            self._db = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MS / 1000, cached_statements=64)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
            self._migrate()
            self._db.execute("INSERT OR IGNORE INTO device (one, incarnation) VALUES (1, ?)", (new_incarnation,))
        self._seen_version = self._data_version()

    def _migrate(self) -> None:
        """Apply the numbered scripts that this file has not seen, each in its own transaction."""
        scripts = sorted(
            (int(entry.name.split("_")[0]), entry)
            for entry in resources.files("agent.adapters.schema").iterdir()
            if entry.name.endswith(".sql")
        )
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > scripts[-1][0]:
            raise ConfigurationError(
                f"the state was written by a newer Covey (schema {version}, this one knows {scripts[-1][0]})",
                hint="upgrade Covey, or start with another --state folder",
            )
        for number, script in scripts:
            if number > version:
                statements = script.read_text()
                self._db.executescript(f"BEGIN IMMEDIATE;\n{statements}\nPRAGMA user_version = {number};\nCOMMIT;")

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
        with _translated():
            (version,) = self._db.execute("PRAGMA data_version").fetchone()
        return int(version)

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
        self._db.execute(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", (peer, link_seq, seq, kind, size, now_us, message)
        )

    def queued(self, recipient: bytes, after_link_seq: int, limit: int, size: int) -> list[tuple[int, bytes]]:
        """Return (link_seq, message) of a recipient in link order: up to `limit`, until their bytes reach `size`."""
        rows: list[tuple[int, bytes]] = []
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

    def recipients_waiting(self) -> list[bytes]:
        """Return the recipients that the outbox holds messages for."""
        return [row[0] for row in self._db.execute("SELECT signing_public FROM peer WHERE queued_messages > 0")]

    def free(self, recipient: bytes, received: SequenceSet) -> int:
        """Forget messages that the recipient holds; return how many."""
        peer = self._db.execute("SELECT id FROM peer WHERE signing_public = ?", (recipient,)).fetchone()
        if peer is None:
            return 0
        freed = size = 0
        for first, last in ((0, received.upto), *received.ranges):
            bounds = (peer[0], first, last)
            count, total = self._db.execute(
                "SELECT count(*), coalesce(sum(size), 0) FROM outbox WHERE peer = ? AND link_seq BETWEEN ? AND ?",
                bounds,
            ).fetchone()
            if count:
                self._db.execute("DELETE FROM outbox WHERE peer = ? AND link_seq BETWEEN ? AND ?", bounds)
                freed += count
                size += total
        if freed:
            self._db.execute(
                "UPDATE peer SET queued_messages = queued_messages - ?, acknowledged = acknowledged + ? WHERE id = ?",
                (freed, freed, peer[0]),
            )
            self._db.execute(
                "UPDATE device SET queued_messages = queued_messages - ?, queued_bytes = queued_bytes - ?",
                (freed, size),
            )
        return freed

    def queues(self) -> list[QueueSummary]:
        """Return what waits for each recipient, and since when."""
        return [
            QueueSummary(*row)
            for row in self._db.execute(
                "SELECT signing_public, queued_messages, acknowledged, "
                "(SELECT queued_at FROM outbox WHERE peer = peer.id ORDER BY link_seq LIMIT 1) FROM peer ORDER BY id"
            )
        ]

    def totals(self) -> tuple[int, int]:
        """Return (messages, bytes) of the outbox."""
        messages, size = self._db.execute("SELECT queued_messages, queued_bytes FROM device").fetchone()
        return messages, size

    # -- inbox and links ----------------------------------------------------------------------------------------------

    def received(self, author: bytes, incarnation: bytes) -> SequenceSet:
        """Return what has come over a link."""
        row = self._db.execute(
            "SELECT upto, ranges FROM received WHERE author = ? AND incarnation = ?", (author, incarnation)
        ).fetchone()
        return SequenceSet(row[0], tuple(map(tuple, json.loads(row[1])))) if row else SequenceSet()

    def set_received(self, author: bytes, incarnation: bytes, received: SequenceSet) -> None:
        """Remember what has come over a link."""
        self._db.execute(
            "INSERT OR REPLACE INTO received VALUES (?, ?, ?, ?)",
            (author, incarnation, received.upto, json.dumps(received.ranges)),
        )

    def deliver(self, message: Message, now_us: int) -> bool:
        """Put a message into the application's inbox; False where the inbox is full."""
        if not self._take_room("inbox_bytes", len(message.body), INBOX_BYTES):
            return False
        self._db.execute(
            "INSERT INTO inbox (group_id, author, seq, sent_at, received_at, body) VALUES (?, ?, ?, ?, ?, ?)",
            (message.group_id, message.author, message.seq, message.sent_at_us, now_us, message.body),
        )
        return True

    def _take_room(self, column: str, size: int, maximum: int) -> bool:
        """Add to one of the device row's totals unless that would exceed its bound."""
        row = self._db.execute(
            f"UPDATE device SET {column} = {column} + ? WHERE {column} + ? <= ? RETURNING 1",  # noqa: S608 - our names
            (size, size, maximum),
        ).fetchone()
        return row is not None

    def arrived(self, limit: int) -> list[tuple[int, bytes, bytes, int, int, bytes]]:
        """Return the oldest (id, group_id, author, sent_at_us, received_at_us, body) of the inbox."""
        return self._db.execute(
            "SELECT id, group_id, author, sent_at, received_at, body FROM inbox ORDER BY id LIMIT ?", (limit,)
        ).fetchall()

    def consume(self, identifier: int) -> None:
        """Forget a blob that the application has taken."""
        size = self._one("DELETE FROM inbox WHERE id = ? RETURNING length(body)", identifier)
        self._db.execute("UPDATE device SET inbox_bytes = inbox_bytes - ?", (size,))

    # -- landing ------------------------------------------------------------------------------------------------------

    def land(self, message: Message, now_us: int) -> bool:
        """Keep a message for the collector; False where too much waits for the vault."""
        size = len(message.raw)
        if not self._take_room("landing_bytes", size, LANDING_BYTES):
            return False
        self._db.execute(
            "INSERT INTO landing (author, incarnation, link_seq, received_at, size, message) VALUES (?, ?, ?, ?, ?, ?)",
            (message.author, message.incarnation, message.link_seq, now_us, size, message.raw),
        )
        return True

    def unlanded(self, author: bytes, incarnation: bytes) -> set[int]:
        """Return the link sequences of a link that wait for the vault."""
        return {
            row[0]
            for row in self._db.execute(
                "SELECT link_seq FROM landing WHERE author = ? AND incarnation = ?", (author, incarnation)
            )
        }

    def landing_plan(self) -> LandingPlan | None:
        """Return the segment that is being written."""
        row = self._db.execute("SELECT number, incarnation, last_id, created_at, nonce FROM landing_plan").fetchone()
        return LandingPlan(*row) if row else None

    def plan_landing(self, plan: LandingPlan) -> None:
        """Fix what the next segment holds, before any of it is written."""
        self._db.execute(
            "INSERT INTO landing_plan VALUES (1, ?, ?, ?, ?, ?)",
            (plan.number, plan.incarnation, plan.last_id, plan.created_at_us, plan.nonce),
        )

    def landing_bytes(self) -> int:
        """Return how much waits for the vault."""
        return self._one("SELECT landing_bytes FROM device")

    def landing_waiting(self, maximum_bytes: int, maximum_records: int) -> tuple[int, int] | None:
        """Return (last id, bytes) of what fits the next segment, or None where nothing waits."""
        last = total = 0
        rows = self._db.execute("SELECT id, size FROM landing ORDER BY id LIMIT ?", (maximum_records,)).fetchall()
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
            for row in self._db.execute(
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
        self._db.execute("DELETE FROM landing WHERE id <= ?", (plan.last_id,))
        self._db.execute(
            "UPDATE device SET landing_bytes = landing_bytes - ?, manifest_floor = ?", (size, manifest_seq)
        )
        self._db.execute("DELETE FROM landing_plan")

    # -- groups -------------------------------------------------------------------------------------------------------

    def manifests(self) -> list[bytes]:
        """Return the current group manifest of every group, as received."""
        return [
            row[0]
            for row in self._db.execute(
                "SELECT raw, max(version) FROM group_manifest WHERE held = 0 GROUP BY group_id ORDER BY group_id"
            )
        ]

    def manifest_chain(self, group_id: bytes) -> list[bytes]:
        """Return every manifest that this device has accepted of a group, oldest first."""
        return [
            row[0]
            for row in self._db.execute(
                "SELECT raw FROM group_manifest WHERE group_id = ? AND held = 0 ORDER BY version", (group_id,)
            )
        ]

    def save_manifest(self, group_id: bytes, version: int, raw: bytes, now_us: int) -> None:
        """Make a group manifest the current one of its group; keep the one before."""
        self._db.execute("INSERT INTO group_manifest VALUES (?, ?, 0, ?, ?)", (group_id, version, raw, now_us))
        self._db.execute(
            "DELETE FROM group_manifest WHERE group_id = ? AND held = 1 AND version <= ?", (group_id, version)
        )

    def hold_manifest(self, group_id: bytes, version: int, raw: bytes) -> None:
        """Keep a manifest that came before the one it follows; 64 for each group, the nearest ones."""
        self._db.execute("INSERT OR IGNORE INTO group_manifest VALUES (?, ?, 1, ?, 0)", (group_id, version, raw))
        self._db.execute(
            "DELETE FROM group_manifest WHERE group_id = ?1 AND held = 1 AND version > (SELECT max(version) FROM ("
            "SELECT version FROM group_manifest WHERE group_id = ?1 AND held = 1 ORDER BY version LIMIT 64))",
            (group_id,),
        )

    def held_manifests(self, group_id: bytes, version: int) -> list[bytes]:
        """Return the manifests kept for a version."""
        return [
            row[0]
            for row in self._db.execute(
                "SELECT raw FROM group_manifest WHERE group_id = ? AND held = 1 AND version = ?", (group_id, version)
            )
        ]

    def invites(self) -> list[OpenInvite]:
        """Return the invites of this device."""
        return [
            OpenInvite(row[0], row[1], row[2], tuple(json.loads(row[3])), row[4])
            for row in self._db.execute("SELECT secret_hash, group_id, expires_at, capabilities, used_by FROM invite")
        ]

    def open_invite(self, invite: OpenInvite) -> None:
        """Remember an invite, and forget those that nobody can use any more."""
        self._db.execute("DELETE FROM invite WHERE expires_at < ?", (invite.expires_at_us - _INVITE_MEMORY_US,))
        self._db.execute(
            "INSERT INTO invite VALUES (?, ?, ?, ?, NULL)",
            (invite.secret_hash, invite.group_id, invite.expires_at_us, json.dumps(invite.capabilities)),
        )

    def use_invite(self, secret_hash: bytes, joiner: bytes) -> None:
        """Mark an invite as used, for good."""
        self._db.execute("UPDATE invite SET used_by = ? WHERE secret_hash = ?", (joiner, secret_hash))

    def pending_joins(self) -> list[PendingJoin]:
        """Return the joins that wait for an answer."""
        return [
            PendingJoin(row[0], DeviceKeys(row[1], row[2]), row[3])
            for row in self._db.execute("SELECT * FROM pending_join ORDER BY expires_at")
        ]

    def begin_join(self, pending: PendingJoin) -> None:
        """Remember a join; a later invite to the same group replaces an earlier one."""
        inviter = pending.inviter
        self._db.execute(
            "INSERT OR REPLACE INTO pending_join VALUES (?, ?, ?, ?)",
            (pending.group_id, inviter.signing_public, inviter.noise_public, pending.expires_at_us),
        )

    def end_join(self, group_id: bytes) -> None:
        """Forget a pending join."""
        self._db.execute("DELETE FROM pending_join WHERE group_id = ?", (group_id,))

    # -- what people ask ----------------------------------------------------------------------------------------------

    def quarantine(self, code: str, message: bytes, now_us: int) -> None:
        """Keep an authentic message that could not be used; the oldest go when there are too many."""
        self._db.execute("INSERT INTO quarantine (code, stored_at, message) VALUES (?, ?, ?)", (code, now_us, message))
        self._db.execute(
            "DELETE FROM quarantine WHERE id <= (SELECT max(id) FROM quarantine) - ?", (QUARANTINED_MESSAGES,)
        )

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter."""
        self._db.execute(
            "INSERT INTO counter VALUES (?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
            (counter, amount),
        )

    def counters(self) -> dict[str, int]:
        """Return every counter by name."""
        return dict(self._db.execute("SELECT name, value FROM counter ORDER BY name"))

    def set_condition(self, name: str, value: str, now_us: int) -> None:
        """Note what the running agent knows of the world."""
        self._db.execute("INSERT OR REPLACE INTO condition VALUES (?, ?, ?)", (name, value, now_us))

    def conditions(self) -> dict[str, tuple[str, int]]:
        """Return every condition: name to (value, since when in microseconds)."""
        return {row[0]: (row[1], row[2]) for row in self._db.execute("SELECT name, value, changed_at FROM condition")}

    def _one(self, statement: str, *parameters: object) -> int:
        row = self._db.execute(statement, parameters).fetchone()
        if row is None:
            raise StorageError("the state database lacks a row that it must have")
        return row[0]  # type: ignore[no-any-return] # STRICT tables give what the caller's column says


_INVITE_MEMORY_US = 86_400_000_000
"""A used invite is remembered for a day, so that a joiner's repeated request is answered again."""


@contextmanager
def _translated() -> Iterator[None]:
    """Turn sqlite3's errors into the project's."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_FULL or (
            isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOSPC
        ):
            raise DiskFullError(
                "no room on the disk that holds the state", hint="free some space; what was queued stays"
            ) from error
        if code & 0xFF == sqlite3.SQLITE_BUSY:
            raise StorageError(
                "the state is locked by another process", hint="is a backup or another covey running?"
            ) from error
        raise StorageError(f"the state database: {error}") from error
