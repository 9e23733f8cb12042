"""The table of what waits, and which incarnation each part of it belongs to. Part of `SqliteStore`.

A place in a recipient's queue is counted on through all incarnations (`incarnations.py`); `outbox.link_seq` is a place.
A row's key joins recipient and place in one number, so that a queue is one range of keys.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from covey.core.link.incarnations import Gone, IncarnationSpan
from covey.core.records import MessageClass, QueueSummary
from covey.core.wire.message import LossReason
from covey.core.wire.sequences import Range, SequenceSet
from covey.errors import DamagedStateError, DiskFullError, OutboxFullError
from covey.limits import (
    DOUBT_US,
    EXPIRED_AT_ONCE,
    MAINTENANCE_US,
    MAXIMUM_LOSS_RANGES,
    MESSAGE_OVERHEAD_BYTES,
    OUTBOX_BYTES,
    OUTBOX_DROP_SHARE,
)

_DIGEST_BYTES = 8
"""Against chance, not against people: who can write here has the keys, too."""

_TOLD_AT_ONCE = 16 * MAXIMUM_LOSS_RANGES
"""Runs of places that are told at a time; the others with the next occasion."""

_PEER = "(SELECT id FROM peer WHERE signing_public = ?)"

PLACE_BITS = 40

BYTES_OF_CLASS = {
    MessageClass.CONTROL: "control_bytes",
    MessageClass.DATA: "data_bytes",
    MessageClass.TELEMETRY: "telemetry_bytes",
}
"""The device row's total of each class."""

_QUEUED = {
    kind: f"UPDATE device SET queued_messages = queued_messages + 1, queued_bytes = queued_bytes + ?1, "  # noqa: S608
    f"{column} = {column} + ?1 RETURNING queued_bytes"
    for kind, column in BYTES_OF_CLASS.items()
}
_OF_CLASSES = "coalesce(sum(size) FILTER (WHERE class = {}), 0)"
_COUNTED = (
    "SELECT count(*), coalesce(sum(size), 0), "  # noqa: S608 - our names
    + ", ".join(_OF_CLASSES.format(int(kind)) for kind in BYTES_OF_CLASS)
    + " FROM outbox WHERE id BETWEEN ? AND ?"
)
"""Messages, bytes, and the bytes of each class."""

_FORGOTTEN = "UPDATE device SET queued_messages = queued_messages - ?, queued_bytes = queued_bytes - ?, " + ", ".join(  # noqa: S608
    f"{column} = {column} - ?" for column in BYTES_OF_CLASS.values()
)

LAST_PLACE = (1 << PLACE_BITS) - 1
OF_PEER = f"outbox.id BETWEEN peer.id << {PLACE_BITS} AND peer.id << {PLACE_BITS} | {LAST_PLACE}"
"""Joins a recipient's row to its queue."""

OLDEST = f"SELECT queued_at FROM outbox WHERE {OF_PEER} ORDER BY outbox.id LIMIT 1"  # noqa: S608 - our names
"""When the first message of a recipient's queue was queued."""


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
    """Whether the reserved space is gone: what waits may leave, and nothing but control messages comes in."""

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

    def spans(self, recipient: bytes) -> list[IncarnationSpan]:
        """Return the incarnations of a recipient's queue, oldest first; none where nothing was ever queued."""
        peer = self._first("SELECT id, base, next_link_seq - 1, anew FROM peer WHERE signing_public = ?", (recipient,))
        if peer is None:
            return []
        rows = self._run("SELECT incarnation, base, last, anew FROM earlier WHERE peer = ? ORDER BY base", (peer[0],))
        return [*(IncarnationSpan(*row) for row in rows), IncarnationSpan(self.incarnation(), *peer[1:])]

    def renew(self, incarnation: bytes) -> None:
        """Begin another incarnation; what waits keeps its own."""
        self._run(
            "INSERT INTO earlier SELECT id, (SELECT incarnation FROM device), base, next_link_seq - 1, anew FROM peer "  # noqa: S608
            f"WHERE EXISTS (SELECT 1 FROM outbox WHERE {OF_PEER} AND outbox.id > peer.id << {PLACE_BITS} | base) "
            "OR EXISTS (SELECT 1 FROM untold_loss WHERE peer = peer.id AND last > peer.base)"
        )
        self._run(
            "DELETE FROM earlier WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.id "  # noqa: S608 - our names
            f"BETWEEN (earlier.peer << {PLACE_BITS}) + base + 1 AND (earlier.peer << {PLACE_BITS}) + earlier.last) "
            "AND NOT EXISTS (SELECT 1 FROM untold_loss "
            "WHERE untold_loss.peer = earlier.peer AND untold_loss.last > base AND first <= earlier.last)"
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
            "UPDATE peer SET anew = next_link_seq - 1, base = min("  # noqa: S608 - our names
            f"coalesce((SELECT link_seq FROM outbox WHERE {OF_PEER} AND outbox.id > peer.id << {PLACE_BITS} | base "
            "ORDER BY outbox.id LIMIT 1), next_link_seq), "
            "coalesce((SELECT min(max(first, base + 1)) FROM untold_loss WHERE peer = peer.id AND last > base), "
            "next_link_seq)) - 1"
        )
        self._run("UPDATE device SET incarnation = ?", (incarnation,))
        self.count("incarnations")
        return True

    # -- what is lost -------------------------------------------------------------------------------------------------

    def recipients_unreported(self) -> list[bytes]:
        """Return the recipients that have not been told of everything that is gone."""
        query = "SELECT signing_public FROM peer WHERE id IN (SELECT peer FROM untold_loss)"
        return [row[0] for row in self._run(query)]

    def losses_to_report(self, recipient: bytes) -> list[Gone]:
        """Return what is gone and no record tells yet; nothing as long as an earlier record waits for the recipient."""
        return [
            Gone(first, last, LossReason(reason), number)
            for first, last, reason, number in self._run(
                "SELECT first, last, reason, number FROM untold_loss JOIN peer ON peer.id = untold_loss.peer "  # noqa: S608
                f"WHERE signing_public = ? AND NOT EXISTS (SELECT 1 FROM outbox WHERE "
                f"outbox.id = peer.id << {PLACE_BITS} | told_place) ORDER BY first LIMIT ?",
                (recipient, _TOLD_AT_ONCE),
            )
        ]

    def losses_reported(self, recipient: bytes, last_place: int) -> None:
        """Forget what is gone up to a place: signed records are queued, and the last one is what waits now."""
        self._run(f"DELETE FROM untold_loss WHERE peer = {_PEER} AND last <= ?", (recipient, last_place))  # noqa: S608
        self._run("UPDATE peer SET told_place = next_link_seq - 1 WHERE signing_public = ?", (recipient,))

    def _note_gone(self, recipient: bytes, reason: LossReason, rows: Sequence[tuple[int, int | None]]) -> list[Range]:
        """Note (place, number) of what will never come, ascending; return the places' ranges."""
        runs: list[Gone] = []
        for place, number in rows:
            if runs and _continues(runs[-1], place, number):
                runs[-1] = replace(runs[-1], last=place)
            else:
                runs.append(Gone(place, place, reason, number))
        peer = self._one("SELECT id FROM peer WHERE signing_public = ?", recipient)
        for run in runs:
            query = "SELECT first, number FROM untold_loss WHERE peer = ? AND last = ? AND reason = ?"
            before = self._first(query, (peer, run.first - 1, reason))
            if before is not None:
                known = Gone(before[0], run.first - 1, reason, before[1])
                if _continues(known, run.first, run.number):
                    query = "UPDATE untold_loss SET last = ? WHERE peer = ? AND first = ?"
                    self._run(query, (run.last, peer, known.first))
                    continue
            self._run("INSERT INTO untold_loss VALUES (?, ?, ?, ?, ?)", (peer, run.first, run.last, reason, run.number))
        ranges: list[Range] = []
        for run in runs:
            _extend(ranges, run.first, run.last)
        return ranges

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

    def allocate_number(self) -> int:
        """Return the next telemetry number of this device."""
        return self._one("UPDATE device SET next_number = next_number + 1 RETURNING next_number - 1")

    def queue(
        self,
        recipient: bytes,
        seq: int,
        link_seq: int,
        kind: MessageClass,
        message: bytes,
        now_us: int,
        number: int | None = None,
        *,
        beyond: bool = False,
    ) -> None:
        """Append a signed message to the outbox; `number` is a telemetry batch's own.

        Raises:
            DiskFullError: the disk is full, or was a moment ago; control messages are tried.
            OutboxFullError: the outbox has reached its bound; control messages may exceed it, and what goes `beyond`.
        """
        if self._lean and kind is not MessageClass.CONTROL:
            raise DiskFullError(
                "no room on the disk that holds the state", hint="free some space; what was queued stays"
            )
        size = len(message)
        total = self._one(
            _QUEUED[kind],
            size,
        )
        if total > self._outbox_bytes and kind is not MessageClass.CONTROL and not beyond:
            raise OutboxFullError(
                f"the outbox holds {total - size} of {self._outbox_bytes} bytes",
                hint="'covey status' shows for whom messages wait; raise outbox.maximum_bytes if there is room",
            )
        peer, base = self._first(
            "UPDATE peer SET queued_messages = queued_messages + 1, holds_batches = holds_batches OR ? "
            "WHERE signing_public = ? RETURNING id, base",
            (kind is MessageClass.TELEMETRY, recipient),
        )
        place = base + link_seq
        self._run(
            "INSERT INTO outbox (id, seq, class, size, queued_at, number, digest, message) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                peer << PLACE_BITS | place,
                *(seq, kind, size, now_us, number),
                digest(place, seq, int(kind), message),
                message,
            ),
        )

    # -- out of it ----------------------------------------------------------------------------------------------------

    def queued(self, recipient: bytes, after_link_seq: int, limit: int, size: int) -> list[tuple[int, bytes]]:
        """Return (place, message) of a recipient in order: up to `limit`, until their bytes reach `size`."""
        rows: list[tuple[int, bytes]] = []
        for link_seq, seq, kind, message, stored in self._each(
            "SELECT link_seq, seq, class, message, digest FROM outbox WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
            (*self._places(recipient, after_link_seq + 1), limit),
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
        wanted = max(missing + MESSAGE_OVERHEAD_BYTES, self._outbox_bytes // OUTBOX_DROP_SHARE)  # with a record of it
        lost: list[tuple[int, int | None]] = []
        freed = 0
        for place, number, row_size in self._each(
            "SELECT link_seq, number, size FROM outbox WHERE id BETWEEN ? AND ? AND class = ? ORDER BY id",
            (*self._places(recipient), MessageClass.TELEMETRY),
        ):
            lost.append((place, number))
            freed += row_size
            if freed >= wanted:
                break
        if freed < missing:
            return []
        places = self._note_gone(recipient, LossReason.OUTBOX_FULL, lost)
        for first, last in places:
            self._drop(recipient, first, last)
        self.count("dropped_outbox_full", len(lost))
        return places

    # -- lifetimes ----------------------------------------------------------------------------------------------------

    def limit_life(self, recipient: bytes, link_seq: int, lifetime_us: int) -> None:
        """Let a message that was just queued expire when this state has aged by its lifetime, and not before.

        The age is told every `MAINTENANCE_US`; what it may lack now is added.
        """
        self._run(
            "UPDATE outbox SET expires = (SELECT aged FROM device) + ? "  # noqa: S608 - our names
            f"WHERE id = (SELECT id << {PLACE_BITS} | base + ? FROM peer WHERE signing_public = ?)",
            (lifetime_us + MAINTENANCE_US, link_seq, recipient),
        )

    def grow_older(self, elapsed_us: int) -> None:
        """Add to this state's age: the time that agents have run on it, which no clock can set."""
        self._run("UPDATE device SET aged = aged + ?", (elapsed_us,))

    def expire(self) -> list[tuple[bytes, list[Range]]]:
        """Forget what has outlived its lifetime, a bounded number; return whose places, which are to be told."""
        rows = self._run(
            "SELECT signing_public, link_seq, number FROM outbox JOIN peer ON peer.id = outbox.peer "
            "WHERE expires <= (SELECT aged FROM device) ORDER BY expires LIMIT ?",
            (EXPIRED_AT_ONCE,),
        )
        lost: dict[bytes, list[tuple[int, int | None]]] = {}
        for recipient, place, number in rows:
            lost.setdefault(recipient, []).append((place, number))
        expired: list[tuple[bytes, list[Range]]] = []
        for recipient, places in lost.items():
            ranges = self._note_gone(recipient, LossReason.EXPIRED, sorted(places))
            for first, last in ranges:
                self._drop(recipient, first, last)
            expired.append((recipient, ranges))
        if rows:
            self.count("expired_messages", len(rows))
        return expired

    def _drop(self, recipient: bytes, first: int = 0, last: int = LAST_PLACE) -> int:
        """Forget what stands at some places; return how many messages that was."""
        bounds = self._places(recipient, first, last)
        [(rows, size, *of_classes)] = self._run(_COUNTED, bounds)
        if rows:
            self._run("DELETE FROM outbox WHERE id BETWEEN ? AND ?", bounds)
            self._run(
                "UPDATE peer SET queued_messages = queued_messages - ? WHERE signing_public = ?", (rows, recipient)
            )
            self._run(_FORGOTTEN, (rows, size, *of_classes))
        return int(rows)

    def withdraw(
        self, recipient: bytes, link_seq: int, code: str, now_us: int, reason: LossReason | None = None
    ) -> bool:
        """Move the message of a place from the outbox to quarantine; False where it is gone already.

        With a reason, its recipient is to be told.
        """
        found = self.queued(recipient, link_seq - 1, 1, 1)
        if not found or found[0][0] != link_seq:
            return False
        self.quarantine(code, found[0][1], now_us, recipient)
        if reason is not None:
            place, _ = self._places(recipient, link_seq, link_seq)
            number = self._first("SELECT number FROM outbox WHERE id = ?", (place,))[0]
            self._note_gone(recipient, reason, [(link_seq, number)])
        self._drop(recipient, link_seq, link_seq)
        return True

    def withdraw_all(self, recipient: bytes) -> list[Range]:
        """Forget what waits for a recipient, control messages and batches apart; return its places, to be told."""
        lost = self._run(
            "SELECT link_seq, number FROM outbox WHERE id BETWEEN ? AND ? AND class <> ? AND number IS NULL "
            "ORDER BY id",
            (*self._places(recipient), MessageClass.CONTROL),
        )
        places = self._note_gone(recipient, LossReason.WITHDRAWN, lost) if lost else []
        for first, last in places:
            self._drop(recipient, first, last)
        return places

    def forget_queue(self, recipient: bytes, *, but_telemetry: bool = False) -> int:
        """Forget whatever waits for a recipient, or was to be told to it; return how many messages that was."""
        self._run(f"DELETE FROM untold_loss WHERE peer = {_PEER}", (recipient,))  # noqa: S608 - our names
        if not but_telemetry:
            return self._drop(recipient)
        ranges: list[Range] = []
        query = "SELECT link_seq FROM outbox WHERE id BETWEEN ? AND ? AND number IS NULL ORDER BY id"
        for (place,) in self._run(query, self._places(recipient)):
            _extend(ranges, place, place)
        return sum(self._drop(recipient, first, last) for first, last in ranges)

    def _places(self, recipient: bytes, first: int = 0, last: int = LAST_PLACE) -> tuple[int, int]:
        """Return the keys of a queue's places, both ends included; none are there where nothing was ever queued."""
        row = self._first("SELECT id FROM peer WHERE signing_public = ?", (recipient,))
        base = (row[0] if row else 0) << PLACE_BITS
        return base + max(0, first), base + min(last, LAST_PLACE)

    def free(self, recipient: bytes, received: SequenceSet) -> int:
        """Forget the places that the recipient holds; return how many messages that were."""
        freed = sum(self._drop(recipient, first, last) for first, last in ((0, received.upto), *received.ranges))
        if freed:
            self._run("UPDATE peer SET acknowledged = acknowledged + ? WHERE signing_public = ?", (freed, recipient))
        return freed

    def let_go(self, recipient: bytes, span: IncarnationSpan, received: SequenceSet) -> list[Range]:
        """Return the link sequences of an span that its recipient lacks and the outbox does not hold."""
        query = "SELECT link_seq FROM outbox WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1"
        gone: list[Range] = []
        for first, last in (*received.holes(), (received.highest() + 1, span.last - span.base)):
            held = self._first(query, self._places(recipient, span.base + first))
            if first <= last and (held is None or held[0] - span.base > first):
                gone.append((first, last if held is None else min(last, held[0] - span.base - 1)))
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
                f"SELECT signing_public, queued_messages, acknowledged, ({OLDEST}) FROM peer ORDER BY id"  # noqa: S608
            )
        ]

    def waiting(self, recipient: bytes, limit: int) -> list[tuple[int, int, int, int]]:
        """Return the oldest (place, class, bytes, queued_at_us) of a recipient."""
        return self._run(
            "SELECT link_seq, class, size, queued_at FROM outbox WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
            (*self._places(recipient), limit),
        )

    def totals(self) -> tuple[int, int]:
        """Return (messages, bytes) of the outbox."""
        [(messages, size)] = self._run("SELECT queued_messages, queued_bytes FROM device")
        return messages, size


def _continues(run: Gone, place: int, number: int | None) -> bool:
    """Say whether a place with its telemetry number goes on where a run ends."""
    following = None if run.number is None else run.number + place - run.first
    return place == run.last + 1 and number == following


def _extend(ranges: list[Range], first: int, last: int) -> None:
    """Add places to ascending ranges."""
    if ranges and ranges[-1][1] == first - 1:
        ranges[-1] = (ranges[-1][0], last)
    else:
        ranges.append((first, last))
