"""The table of blobs that the application has not taken yet."""

from __future__ import annotations

from collections.abc import Container

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.link.received import Received
from covey.adapters.sqlite.rows import check_digest, digest, take_room
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.receiver import ready_in_order
from covey.core.wire.message import Message
from covey.limits.storage import INBOX_BYTES, INBOX_SHARE_BYTES, SMALLEST_MESSAGE_BYTES


class Inbox:
    """Received messages for the application, bounded in bytes.

    Once it is half full, an author may add only what fits its guaranteed share, or one message: so unread messages of
    one author exclude no other author.
    """

    def __init__(self, database: Database, received: Received) -> None:
        self._database = database
        self._received = received

    def deliver(self, message: Message, now_us: int) -> bool:
        if self._database.lean or not self._take_room(message):
            return False
        self._database.run(
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

    def _take_room(self, message: Message) -> bool:
        size = len(message.body)
        if take_room(self._database, "inbox_bytes", size, INBOX_BYTES // 2):
            return True
        return self._is_within_share(message) and take_room(self._database, "inbox_bytes", size, INBOX_BYTES)

    def _is_within_share(self, message: Message) -> bool:
        held = self._database.one(
            "SELECT coalesce(sum(length), 0) FROM (SELECT length(body) AS length FROM inbox WHERE author = ? LIMIT ?)",
            *(message.author, INBOX_SHARE_BYTES // SMALLEST_MESSAGE_BYTES),
        )
        return held == 0 or held + len(message.body) <= INBOX_SHARE_BYTES

    def arrived(self, limit: int, after: int = 0) -> list[tuple[int, GroupId, DeviceKey, int, int, bytes]]:
        """Return the oldest (id, group_id, author, sent_at_us, received_at_us, body) of the inbox, after an id."""
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
        entries = self._database.run("SELECT id, author, seq, incarnation, link_seq FROM inbox")
        links = {(author, incarnation) for _, author, _, incarnation, _ in entries}
        complete = {link: self._received.of(*link).upto for link in links}
        ready = [identifier for identifier in ready_in_order(entries, complete) if identifier not in but]
        found = [row for identifier in ready[:limit] for row in self.arrived(1, identifier - 1) if row[0] == identifier]
        return found or (self.arrived_in_order(limit, but) if ready else [])  # another process has taken them

    def forget(self, group_id: GroupId) -> None:
        """Forget what nobody has read of a group: it was destroyed or left, and is erased."""
        rows = self._database.run("DELETE FROM inbox WHERE group_id = ? RETURNING length(body)", (group_id,))
        if rows:
            self._database.run("UPDATE device SET inbox_bytes = inbox_bytes - ?", (sum(size for (size,) in rows),))

    def consume(self, identifier: int) -> int:
        """Forget a blob that the application has taken; return how many that were: another process may have done so."""
        with self._database.leaving_no_copies():
            rows = self._database.run("DELETE FROM inbox WHERE id = ? RETURNING length(body)", (identifier,))
        for (size,) in rows:
            self._database.run("UPDATE device SET inbox_bytes = inbox_bytes - ?", (size,))
        return len(rows)
