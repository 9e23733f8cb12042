"""The table of blobs that the application has not taken yet."""

from __future__ import annotations

from collections.abc import Container

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.link.received import Received
from covey.adapters.sqlite.rows import check_digest, digest
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.receiver import ready_in_order
from covey.core.wire.message import Message
from covey.limits.storage import INBOX_BYTES, INBOX_SHARE_BYTES, SMALLEST_MESSAGE_BYTES

_INSERT = (
    "INSERT INTO inbox (group_id, author, incarnation, link_seq, seq, sent_at, received_at, body, digest) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Inbox:
    """Received messages for the application, bounded in bytes; those of a transaction are written at its end.

    Once it is half full, an author may add only what fits its guaranteed share, or one message: so unread messages of
    one author exclude no other author.
    """

    def __init__(self, database: Database, received: Received) -> None:
        self._database = database
        self._received = received
        self._unwritten: list[tuple[object, ...]] = []
        self._bytes: int | None = None
        """All there are, unwritten ones included, as far as the open transaction has asked."""
        database.remember(self._forget, self._flush)

    def _forget(self) -> None:
        self._unwritten.clear()
        self._bytes = None

    def _flush(self) -> None:
        if self._unwritten:
            self._database.run_each(_INSERT, self._unwritten)
            self._database.run("UPDATE device SET inbox_bytes = ?", (self._bytes,))
        self._forget()

    def deliver(self, message: Message, now_us: int) -> bool:
        if self._database.lean or not self._take_room(message):
            return False
        self._unwritten.append(
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
            )
        )
        if not self._database.within:
            self._flush()
        return True

    def _take_room(self, message: Message) -> bool:
        """Add to the inbox's bytes unless that would exceed its bound; return whether they were added."""
        held = self._database.one("SELECT inbox_bytes FROM device") if self._bytes is None else self._bytes
        wanted = held + len(message.body)
        if wanted > INBOX_BYTES or (wanted > INBOX_BYTES // 2 and not self._is_within_share(message)):
            return False
        self._bytes = wanted
        return True

    def _is_within_share(self, message: Message) -> bool:
        self._flush()
        held = self._database.one(
            "SELECT coalesce(sum(length), 0) FROM (SELECT length(body) AS length FROM inbox WHERE author = ? LIMIT ?)",
            *(message.author, INBOX_SHARE_BYTES // SMALLEST_MESSAGE_BYTES),
        )
        return held == 0 or held + len(message.body) <= INBOX_SHARE_BYTES

    def arrived(self, limit: int, after: int = 0) -> list[tuple[int, GroupId, DeviceKey, int, int, bytes]]:
        """Return the oldest (id, group_id, author, sent_at_us, received_at_us, body) of the inbox, after an id."""
        self._flush()
        rows = self._database.run(
            "SELECT id, group_id, author, sent_at, received_at, body, digest FROM inbox WHERE id > ? "
            "ORDER BY id LIMIT ?",
            (after, limit),
        )
        for row in rows:
            check_digest(row[6], row[1], row[2], row[5])
        return [row[:6] for row in rows]

    def arrived_in_order(
        self, limit: int, but: Container[int] = ()
    ) -> list[tuple[int, GroupId, DeviceKey, int, int, bytes]]:
        """Return as `arrived` does, with the blobs of each author in the order of sending; `but` leaves some out.

        A blob is held back until all that its author sent before it on the same link has come, or never will.
        """
        self._flush()
        entries = self._database.run("SELECT id, author, seq, incarnation, link_seq FROM inbox")
        links = {(author, incarnation) for _, author, _, incarnation, _ in entries}
        complete = {link: self._received.of(*link).upto for link in links}
        ready = [identifier for identifier in ready_in_order(entries, complete) if identifier not in but]
        found = [row for identifier in ready[:limit] for row in self.arrived(1, identifier - 1) if row[0] == identifier]
        return found or (self.arrived_in_order(limit, but) if ready else [])  # another process has taken them

    def forget(self, group_id: GroupId) -> None:
        """Forget what nobody has read of a group: it was destroyed or left, and is erased."""
        self._flush()
        rows = self._database.run("DELETE FROM inbox WHERE group_id = ? RETURNING length(body)", (group_id,))
        if rows:
            self._database.run("UPDATE device SET inbox_bytes = inbox_bytes - ?", (sum(size for (size,) in rows),))

    def consume(self, identifier: int) -> int:
        """Forget a blob that the application has taken; return how many that were: another process may have done so."""
        self._flush()
        with self._database.leaving_no_copies():
            rows = self._database.run("DELETE FROM inbox WHERE id = ? RETURNING length(body)", (identifier,))
        for (size,) in rows:
            self._database.run("UPDATE device SET inbox_bytes = inbox_bytes - ?", (size,))
        return len(rows)
