"""The table of what waits, and which incarnation each part of it belongs to. Part of `SqliteStore`.

A place in a recipient's queue is counted on through all incarnations (`core/eras.py`); `outbox.link_seq` is a place.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from agent.core.eras import Era
from agent.core.limits import DOUBT_US, MESSAGE_OVERHEAD_BYTES, OUTBOX_BYTES, OUTBOX_DROP_SHARE
from agent.core.records import MessageClass, QueueSummary
from agent.core.sequences import Range, SequenceSet
from agent.errors import DamagedStateError, DiskFullError, OutboxFullError

_DIGEST_BYTES = 8
"""Against chance, not against people: who can write here has the keys, too."""

_PEER = "(SELECT id FROM peer WHERE signing_public = ?)"


def digest(*parts: object) -> bytes:
    """Return what shows that a row is as it was written: SQLite does not, and a worn card lies."""
    hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        hashed.update(part if isinstance(part, bytes) else repr(part).encode())
    return hashed.digest()


def check_digest(stored: bytes | None, *parts: object) -> None:
    """Compare; rows of an earlier Covey have none.

    Raises:
        DamagedStateError: the row is not what was written.
    """
    if stored is not None and stored != digest(*parts):
        raise DamagedStateError("a row of the state database is not what was written")


class OutboxTables(ABC):
    """What `core.records.Records` asks about messages that wait."""

    _outbox_bytes: int = OUTBOX_BYTES
    _lean = False
    """Whether the ballast is gone: what waits may leave, and nothing but control messages comes in."""

    @abstractmethod
    def _run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Execute a statement and return its rows."""

    @abstractmethod
    def _each(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Any]:
        """Execute a statement and yield its rows, as far as they are wanted."""

    @abstractmethod
    def _first(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        """Execute a statement and return its first row."""

    @abstractmethod
    def _one(self, statement: str, *parameters: object) -> int:
        """Execute a statement and return the first column of its first row, which must be there."""

    @abstractmethod
    def quarantine(self, code: str, message: bytes, now_us: int, recipient: bytes | None = None) -> None:
        """Keep a message for a person to look at."""

    @abstractmethod
    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter."""

    # -- incarnations -------------------------------------------------------------------------------------------------

    def incarnation(self) -> bytes:
        """Return the 8 bytes of this device's present life."""
        return bytes(self._one("SELECT incarnation FROM device"))

    def eras(self, recipient: bytes) -> list[Era]:
        """Return the incarnations of a recipient's queue, oldest first; none where nothing was ever queued."""
        peer = self._first("SELECT id, base, next_link_seq - 1, anew FROM peer WHERE signing_public = ?", (recipient,))
        if peer is None:
            return []
        rows = self._run("SELECT incarnation, base, last, anew FROM earlier WHERE peer = ? ORDER BY base", (peer[0],))
        return [*(Era(*row) for row in rows), Era(self.incarnation(), *peer[1:])]

    def renew(self, incarnation: bytes) -> None:
        """Begin another incarnation; what waits keeps its own."""
        self._run(
            "INSERT INTO earlier SELECT id, (SELECT incarnation FROM device), base, next_link_seq - 1, anew FROM peer "
            "WHERE EXISTS (SELECT 1 FROM outbox WHERE peer = peer.id AND link_seq > peer.base)"
        )
        self._run(
            "DELETE FROM earlier WHERE NOT EXISTS (SELECT 1 FROM outbox "
            "WHERE outbox.peer = earlier.peer AND link_seq BETWEEN base + 1 AND last)"
        )
        self._run("UPDATE peer SET base = next_link_seq - 1, anew = 0")
        self._run("UPDATE device SET incarnation = ?", (incarnation,))
        self.count("incarnations")

    def doubt(self, recipient: bytes, incarnation: bytes, now_us: int) -> bool:
        """Begin another incarnation because a recipient has shown that the present one had another life.

        What waits in it is signed anew. False where the same recipient has said so a short time ago: nothing changes.
        """
        doubted = self._first(
            "UPDATE peer SET doubted_at = ?1 WHERE signing_public = ?2 "
            "AND ?1 NOT BETWEEN doubted_at AND doubted_at + ?3 RETURNING 1",
            (now_us, recipient, DOUBT_US),
        )
        if doubted is None:
            return False
        self._run(
            "UPDATE peer SET anew = next_link_seq - 1, base = coalesce("
            "(SELECT min(link_seq) FROM outbox WHERE peer = peer.id AND link_seq > peer.base), next_link_seq) - 1"
        )
        self._run("UPDATE device SET incarnation = ?", (incarnation,))
        self.count("incarnations")
        return True

    def untold_losses(self) -> list[tuple[bytes, bytes, int, int]]:
        """Return (recipient, incarnation, first, last) of what a damaged disk lost and no record tells yet."""
        return self._run("SELECT recipient, incarnation, first, last FROM untold_loss")

    def losses_told(self) -> None:
        """Forget them: signed records are queued."""
        self._run("DELETE FROM untold_loss")

    # -- into it ------------------------------------------------------------------------------------------------------

    def allocate(self, recipient: bytes) -> tuple[int, int]:
        """Return the next (seq, link_seq) for a recipient, as they go on the wire."""
        seq = self._one("UPDATE device SET next_seq = next_seq + 1 RETURNING next_seq - 1")
        link_seq = self._one(
            "INSERT INTO peer (signing_public, next_link_seq) VALUES (?, 2) "
            "ON CONFLICT DO UPDATE SET next_link_seq = next_link_seq + 1 RETURNING next_link_seq - 1 - base",
            recipient,
        )
        return seq, link_seq

    def queue(self, recipient: bytes, seq: int, link_seq: int, kind: MessageClass, message: bytes, now_us: int) -> None:
        """Append a signed message to the outbox.

        Raises:
            DiskFullError: the disk is full, or was a moment ago; control messages are tried.
            OutboxFullError: the outbox has reached its bound; control messages may exceed it.
        """
        if self._lean and kind is not MessageClass.CONTROL:
            raise DiskFullError(
                "no room on the disk that holds the state", hint="free some space; what was queued stays"
            )
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
        peer, base = self._first(
            "UPDATE peer SET queued_messages = queued_messages + 1 WHERE signing_public = ? RETURNING id, base",
            (recipient,),
        )
        place = base + link_seq
        self._run(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (peer, place, seq, kind, size, now_us, message, digest(place, seq, int(kind), message)),
        )

    # -- out of it ----------------------------------------------------------------------------------------------------

    def queued(self, recipient: bytes, after_link_seq: int, limit: int, size: int) -> list[tuple[int, bytes]]:
        """Return (place, message) of a recipient in order: up to `limit`, until their bytes reach `size`."""
        rows: list[tuple[int, bytes]] = []
        for link_seq, seq, kind, message, stored in self._each(
            f"SELECT link_seq, seq, class, message, digest FROM outbox WHERE peer = {_PEER} "  # noqa: S608 - our names
            "AND link_seq > ? ORDER BY link_seq LIMIT ?",
            (recipient, after_link_seq, limit),
        ):
            check_digest(stored, link_seq, seq, kind, message)
            rows.append((link_seq, message))
            size -= len(message)
            if size <= 0:
                break
        return rows

    def make_room(self, recipient: bytes, size: int) -> list[Range]:
        """Where `size` more bytes would not fit, forget the recipient's oldest telemetry; return the places."""
        queued = self._one("SELECT queued_bytes FROM device")
        missing = queued + size - self._outbox_bytes
        if missing <= 0:
            return []
        wanted = max(missing, self._outbox_bytes // OUTBOX_DROP_SHARE)
        ranges: list[Range] = []
        freed = rows = 0
        for link_seq, row_size in self._each(
            f"SELECT link_seq, size FROM outbox WHERE peer = {_PEER} AND class = ? ORDER BY link_seq",  # noqa: S608
            (recipient, MessageClass.TELEMETRY),
        ):
            _extend(ranges, link_seq)
            freed += row_size
            rows += 1
            if freed - len(ranges) * MESSAGE_OVERHEAD_BYTES >= wanted:
                break
        if freed - len(ranges) * MESSAGE_OVERHEAD_BYTES < missing:
            return []
        self.drop(recipient, ranges)
        self.count("dropped_outbox_full", rows)
        return ranges

    def drop(self, recipient: bytes, places: Sequence[Range]) -> None:
        """Forget what stands at some places."""
        for first, last in places:
            rows = self._run(
                f"DELETE FROM outbox WHERE peer = {_PEER} AND link_seq BETWEEN ? AND ? RETURNING size",  # noqa: S608
                (recipient, first, last),
            )
            self._forgotten(recipient, len(rows), sum(row[0] for row in rows))

    def withdraw(self, recipient: bytes, link_seq: int, code: str, now_us: int) -> bool:
        """Move the message of a place from the outbox to quarantine; False where it is gone already."""
        found = self.queued(recipient, link_seq - 1, 1, 1)
        if not found or found[0][0] != link_seq:
            return False
        self.quarantine(code, found[0][1], now_us, recipient)
        self.drop(recipient, [(link_seq, link_seq)])
        return True

    def withdraw_all(self, recipient: bytes) -> list[Range]:
        """Forget what waits for a recipient, control messages apart; return its places."""
        rows = self._run(
            f"DELETE FROM outbox WHERE peer = {_PEER} AND class <> ? RETURNING link_seq, size",  # noqa: S608
            (recipient, MessageClass.CONTROL),
        )
        self._forgotten(recipient, len(rows), sum(size for _, size in rows))
        ranges: list[Range] = []
        for link_seq in sorted(link_seq for link_seq, _ in rows):
            _extend(ranges, link_seq)
        return ranges

    def forget_queue(self, recipient: bytes) -> int:
        """Forget whatever waits for a recipient; return how many messages that was."""
        rows = self._run(f"DELETE FROM outbox WHERE peer = {_PEER} RETURNING size", (recipient,))  # noqa: S608
        self._forgotten(recipient, len(rows), sum(row[0] for row in rows))
        return len(rows)

    def _forgotten(self, recipient: bytes, rows: int, size: int) -> None:
        """Take messages out of the totals."""
        self._run("UPDATE peer SET queued_messages = queued_messages - ? WHERE signing_public = ?", (rows, recipient))
        self._run(
            "UPDATE device SET queued_messages = queued_messages - ?, queued_bytes = queued_bytes - ?", (rows, size)
        )

    def free(self, recipient: bytes, received: SequenceSet) -> int:
        """Forget the places that the recipient holds; return how many messages that were."""
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

    def let_go(self, recipient: bytes, era: Era, received: SequenceSet) -> list[Range]:
        """Return the link sequences of an era that its recipient lacks and the outbox does not hold."""
        query = f"SELECT link_seq FROM outbox WHERE peer = {_PEER} AND link_seq > ? ORDER BY link_seq LIMIT 1"  # noqa: S608
        gone: list[Range] = []
        for first, last in (*received.holes(), (received.highest() + 1, era.last - era.base)):
            held = self._first(query, (recipient, era.base + first - 1))
            if first <= last and (held is None or held[0] - era.base > first):
                gone.append((first, last if held is None else min(last, held[0] - era.base - 1)))
        return gone

    # -- what people ask ----------------------------------------------------------------------------------------------

    def recipients_waiting(self) -> list[bytes]:
        """Return the recipients that the outbox holds messages for."""
        return [row[0] for row in self._run("SELECT signing_public FROM peer WHERE queued_messages > 0")]

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
        """Return the oldest (place, class, bytes, queued_at_us) of a recipient."""
        return self._run(
            f"SELECT link_seq, class, size, queued_at FROM outbox WHERE peer = {_PEER} ORDER BY link_seq LIMIT ?",  # noqa: S608
            (recipient, limit),
        )

    def totals(self) -> tuple[int, int]:
        """Return (messages, bytes) of the outbox."""
        [(messages, size)] = self._run("SELECT queued_messages, queued_bytes FROM device")
        return messages, size


def _extend(ranges: list[Range], place: int) -> None:
    """Add a place to ascending ranges."""
    if ranges and ranges[-1][1] == place - 1:
        ranges[-1] = (ranges[-1][0], place)
    else:
        ranges.append((place, place))
