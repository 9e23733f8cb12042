"""The tables of mailboxes: inboxes that one keeps for others, and what a device knows of those that it uses.

Loaded only where a group names a mailbox. Implements `core/mailbox/records.MailboxRecords`.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.rows import LAST_PLACE, OF_PEER, PLACE_BITS
from covey.core.ids import DeviceKey, Place
from covey.core.link.shares import has_room
from covey.core.mailbox.messages import BlobEntry, BlobRefusal, Hook, InboxState, Kept, Push, WakeHook
from covey.core.wire.sequences import Range
from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.mailbox import (
    EXPIRED_BLOBS_AT_ONCE,
    INBOX_BLOBS,
    INBOX_BYTES_KEPT,
    WAKE_HOOKS,
)

_AROUND_ENTRY = 96
"""Bytes of a PULL_RESPONSE entry in addition to its payload, at most."""


@dataclass(frozen=True, slots=True)
class KeptInbox:
    """What a mailbox keeps for one device; `oldest_at_us` is when the first blob came, None where none waits."""

    device: DeviceKey
    blobs: int
    bytes: int
    max_cursor: int
    oldest_at_us: int | None


@dataclass(frozen=True, slots=True)
class PushedQueue:
    """Up to which place of a recipient's queue a mailbox has said that it keeps all, and since when."""

    recipient: DeviceKey
    mailbox: DeviceKey
    upto: Place
    pushed_at_us: int


class MailboxInboxes:
    """Implements `MailboxInboxRecords`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def relay_id(self) -> str:
        """Return the incarnation of this state, in hex: a restored one begins another."""
        return self._database.first("SELECT hex(incarnation) FROM device")[0].lower()  # type: ignore[no-any-return]

    def put(
        self,
        sender: DeviceKey,
        push: Push,
        ttl_us: int,
        now_us: int,
        maximum_bytes: int,
        senders: int = MAXIMUM_MEMBERS,
    ) -> Kept | BlobRefusal:
        run, size = self._database.run, len(push.payload)
        inbox = self._number("mailbox_inbox", "(device, next_cursor, blobs, bytes) VALUES (?, 1, 0, 0)", push.recipient)
        author = self._number("mailbox_sender", "(device, bytes) VALUES (?, 0)", sender)
        known = self._database.first(
            f"SELECT id & {LAST_PLACE} FROM mailbox_blob WHERE blob_id = ? AND sender = ? AND id >> {PLACE_BITS} = ?",  # noqa: S608
            (push.blob_id, author, inbox),
        )
        if known is not None:
            return Kept(known[0], is_new=False)
        refusal = self._refusal(inbox, author, size, maximum_bytes, senders)
        if refusal is not None:
            return refusal
        cursor = self._database.one(
            "UPDATE mailbox_inbox SET next_cursor = next_cursor + 1, blobs = blobs + 1, bytes = bytes + ? WHERE id = ? "
            "RETURNING next_cursor - 1",
            *(size, inbox),
        )
        run(
            "INSERT INTO mailbox_share VALUES (?, ?, 1, ?) ON CONFLICT DO UPDATE SET blobs = blobs + 1, "
            "bytes = bytes + excluded.bytes",
            (inbox, author, size),
        )
        run("UPDATE mailbox_sender SET bytes = bytes + ? WHERE id = ?", (size, author))
        run(
            "INSERT INTO mailbox_blob VALUES (?, ?, ?, (SELECT age FROM device) + ?, ?, ?, ?)",
            (inbox << PLACE_BITS | cursor, push.blob_id, author, ttl_us, now_us, size, push.payload),
        )
        return Kept(cursor, is_new=True)

    def _number(self, table: str, new: str, device: DeviceKey) -> int:
        row = self._database.first(f"SELECT id FROM {table} WHERE device = ?", (device,))  # noqa: S608 - our names
        return row[0] if row else self._database.one(f"INSERT INTO {table} {new} RETURNING id", device)

    def _refusal(self, inbox: int, sender: int, size: int, maximum_bytes: int, senders: int) -> BlobRefusal | None:
        one = self._database.one
        blobs, held = self._database.first(
            "SELECT blobs, bytes FROM mailbox_share WHERE inbox = ? AND sender = ?", (inbox, sender)
        ) or (0, 0)
        in_all = one("SELECT bytes FROM mailbox_sender WHERE id = ?", sender)
        beyond = "SELECT coalesce(sum(max(0, {} - ?)), 0) FROM mailbox_{}"
        of_inbox = f"{beyond} WHERE inbox = ?"

        def blobs_beyond(share: int) -> int:
            return one(of_inbox.format("blobs", "share"), share, inbox)

        def bytes_beyond(share: int) -> int:
            return one(of_inbox.format("bytes", "share"), share, inbox)

        if not has_room(INBOX_BLOBS, senders, blobs, 1, blobs_beyond):
            return BlobRefusal.INBOX_FULL
        if not has_room(INBOX_BYTES_KEPT, senders, held, size, bytes_beyond):
            return BlobRefusal.INBOX_FULL
        if not has_room(
            maximum_bytes, senders, in_all, size, lambda share: one(beyond.format("bytes", "sender"), share)
        ):
            return BlobRefusal.FULL
        return None

    def totals(self) -> tuple[int, int]:
        """Return (blobs, bytes) of all inboxes."""
        row = self._database.first("SELECT coalesce(sum(blobs), 0), coalesce(sum(bytes), 0) FROM mailbox_inbox")
        return int(row[0]), int(row[1])

    def state(self, device: DeviceKey) -> InboxState:
        row = self._database.first(
            "SELECT next_cursor - 1, blobs, bytes FROM mailbox_inbox WHERE device = ?", (device,)
        )
        return InboxState(*row) if row else InboxState()

    def after(self, device: DeviceKey, cursor: int, last: int, limit: int, size: int) -> tuple[list[BlobEntry], bool]:
        """Return what has a cursor above one and up to another, and whether that was cut short."""
        row = self._database.first("SELECT id FROM mailbox_inbox WHERE device = ?", (device,))
        if row is None:
            return [], False
        inbox, found = row[0] << PLACE_BITS, list[BlobEntry]()
        for key, blob_id, sender, payload, stored_at in self._database.each(
            "SELECT mailbox_blob.id, blob_id, device, payload, stored_at FROM mailbox_blob "
            "JOIN mailbox_sender ON mailbox_sender.id = sender WHERE mailbox_blob.id BETWEEN ? AND ? "
            "ORDER BY mailbox_blob.id LIMIT ?",
            (inbox + cursor + 1, inbox + min(last, LAST_PLACE), limit + 1),
        ):
            size -= len(payload) + _AROUND_ENTRY
            if len(found) >= limit or (found and size < 0):
                return found, True
            found.append(BlobEntry(blob_id, key & LAST_PLACE, DeviceKey(sender), payload, stored_at))
        return found, False

    def delete(self, device: DeviceKey, cursors: Range) -> int:
        row = self._database.first("SELECT id FROM mailbox_inbox WHERE device = ?", (device,))
        if row is None:
            return 0
        inbox = row[0] << PLACE_BITS
        bounds = inbox + cursors[0], inbox + min(cursors[1], LAST_PLACE)
        query = "SELECT id, sender, size FROM mailbox_blob WHERE id BETWEEN ? AND ?"
        return self._drop(self._database.run(query, bounds))

    def _drop(self, rows: list[tuple[int, int, int]]) -> int:
        counted: dict[tuple[int, int], tuple[int, int]] = {}
        for key, sender, size in rows:
            blobs, held = counted.get((key >> PLACE_BITS, sender), (0, 0))
            counted[key >> PLACE_BITS, sender] = blobs + 1, held + size
            self._database.run("DELETE FROM mailbox_blob WHERE id = ?", (key,))
        for (inbox, sender), (blobs, held) in counted.items():
            self._database.run("UPDATE mailbox_sender SET bytes = bytes - ? WHERE id = ?", (held, sender))
            self._database.run(
                "UPDATE mailbox_inbox SET blobs = blobs - ?, bytes = bytes - ? WHERE id = ?", (blobs, held, inbox)
            )
            self._database.run(
                "UPDATE mailbox_share SET blobs = blobs - ?, bytes = bytes - ? WHERE inbox = ? AND sender = ?",
                (blobs, held, inbox, sender),
            )
            self._database.run(
                "DELETE FROM mailbox_share WHERE inbox = ? AND sender = ? AND blobs <= 0", (inbox, sender)
            )
        return len(rows)

    def empty(self, device: DeviceKey) -> int:
        """Delete all blobs for a device, keeping its cursors; return their number."""
        return self.delete(device, (1, LAST_PLACE))

    def forget(self, device: DeviceKey) -> None:
        self.empty(device)
        self._database.run("DELETE FROM mailbox_inbox WHERE device = ?", (device,))
        self._database.run("DELETE FROM mailbox_hook WHERE device = ?", (device,))

    def forget_sender(self, device: DeviceKey) -> int:
        row = self._database.first("SELECT id FROM mailbox_sender WHERE device = ?", (device,))
        if row is None:
            return 0
        gone, query = 0, "SELECT id, sender, size FROM mailbox_blob WHERE id BETWEEN ? AND ? AND sender = ? LIMIT ?"
        for (inbox,) in self._database.run("SELECT inbox FROM mailbox_share WHERE sender = ?", row):
            bounds = inbox << PLACE_BITS, inbox << PLACE_BITS | LAST_PLACE
            gone += self._drop(self._database.run(query, (*bounds, row[0], EXPIRED_BLOBS_AT_ONCE - gone)))
            if gone >= EXPIRED_BLOBS_AT_ONCE:
                return gone
        self._database.run("DELETE FROM mailbox_sender WHERE id = ?", row)
        return gone

    def senders(self) -> list[DeviceKey]:
        return [DeviceKey(row[0]) for row in self._database.run("SELECT device FROM mailbox_sender")]

    def devices(self) -> list[DeviceKey]:
        return [DeviceKey(row[0]) for row in self._database.run("SELECT device FROM mailbox_inbox")]

    def all(self) -> list[KeptInbox]:
        """Return what is kept for each device."""
        oldest = (
            "SELECT stored_at FROM mailbox_blob "  # noqa: S608 - our names
            f"WHERE mailbox_blob.id BETWEEN mailbox_inbox.id << {PLACE_BITS} "
            f"AND mailbox_inbox.id << {PLACE_BITS} | {LAST_PLACE} ORDER BY mailbox_blob.id LIMIT 1"
        )
        query = f"SELECT device, blobs, bytes, next_cursor - 1, ({oldest}) FROM mailbox_inbox ORDER BY id"  # noqa: S608
        return [KeptInbox(*row) for row in self._database.run(query)]

    def expire(self) -> int:
        """Delete some expired blobs; return their number."""
        query = "SELECT id, sender, size FROM mailbox_blob WHERE expires <= (SELECT age FROM device) LIMIT ?"
        return self._drop(self._database.run(query, (EXPIRED_BLOBS_AT_ONCE,)))

    def recount(self) -> None:
        """Count what is there, after a salvage."""
        run = self._database.run
        held = f"FROM mailbox_blob WHERE mailbox_blob.id >> {PLACE_BITS} = mailbox_inbox.id"
        run(
            f"UPDATE mailbox_inbox SET blobs = (SELECT count(*) {held}), "  # noqa: S608 - our names
            f"bytes = (SELECT coalesce(sum(size), 0) {held}), next_cursor = max(next_cursor, "
            f"1 + coalesce((SELECT max(mailbox_blob.id & {LAST_PLACE}) {held}), 0))"
        )
        run(
            "UPDATE mailbox_sender SET bytes = "
            "(SELECT coalesce(sum(size), 0) FROM mailbox_blob WHERE sender = mailbox_sender.id)"
        )
        run("DELETE FROM mailbox_share")
        run(
            f"INSERT INTO mailbox_share SELECT id >> {PLACE_BITS}, sender, count(*), sum(size) "  # noqa: S608
            "FROM mailbox_blob GROUP BY 1, 2"
        )

    # -- wake hooks ---------------------------------------------------------------------------------------------------

    def add_hook(self, device: DeviceKey, hook: WakeHook) -> bool:
        if hook in self.hooks(device):
            return True
        if len(self.hooks(device)) >= WAKE_HOOKS:
            return False
        self._database.run("INSERT INTO mailbox_hook VALUES (?, ?, ?)", (device, int(hook.kind), hook.target))
        return True

    def remove_hook(self, device: DeviceKey, hook: WakeHook) -> None:
        self._database.run(
            "DELETE FROM mailbox_hook WHERE device = ? AND kind = ? AND target = ?",
            (device, int(hook.kind), hook.target),
        )

    def hook_count(self) -> int:
        """Return how many hooks devices have, in all."""
        return self._database.one("SELECT count(*) FROM mailbox_hook")

    def hooks(self, device: DeviceKey) -> list[WakeHook]:
        rows = self._database.run("SELECT kind, target FROM mailbox_hook WHERE device = ?", (device,))
        return [WakeHook(Hook(kind), target) for kind, target in rows]


class MailboxTables(MailboxInboxes):
    """Implements `MailboxRecords`: what a device knows of the mailboxes that it uses, and the inboxes, too."""

    def position(self, mailbox: DeviceKey) -> tuple[str, int]:
        row = self._database.first("SELECT relay_id, cursor FROM mailbox_position WHERE mailbox = ?", (mailbox,))
        return (row[0], row[1]) if row else ("", 0)

    def set_position(self, mailbox: DeviceKey, relay_id: str, cursor: int) -> None:
        self._database.run(
            "INSERT INTO mailbox_position VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET relay_id = excluded.relay_id, cursor = excluded.cursor",
            (mailbox, relay_id, cursor),
        )

    def pushed_upto(self, recipient: DeviceKey, mailbox: DeviceKey) -> tuple[Place, int]:
        query = "SELECT upto, pushed_at FROM mailbox_pushed WHERE recipient = ? AND mailbox = ?"
        row = self._database.first(query, (recipient, mailbox))
        return (Place(row[0]), row[1]) if row else (Place(0), 0)

    def set_pushed(self, recipient: DeviceKey, mailbox: DeviceKey, upto: Place, since_us: int) -> None:
        self._database.run(
            "INSERT INTO mailbox_pushed VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET upto = excluded.upto, pushed_at = excluded.pushed_at",
            (recipient, mailbox, upto, since_us),
        )

    def forget_pushed(self, mailbox: DeviceKey) -> None:
        self._database.run("DELETE FROM mailbox_pushed WHERE mailbox = ?", (mailbox,))

    def holds_some(self, recipient: DeviceKey, upto: Place) -> bool:
        """Say whether something up to a place of a queue waits still."""
        query = f"SELECT 1 FROM peer JOIN outbox ON {OF_PEER} WHERE signing_public = ? AND place <= ? LIMIT 1"  # noqa: S608
        return self._database.first(query, (recipient, upto)) is not None

    def lifetime_left_us(self, recipient: DeviceKey, place: Place) -> int | None:
        row = self._database.first(
            f"SELECT expires - (SELECT age FROM device) FROM peer JOIN outbox ON {OF_PEER} "  # noqa: S608 - our names
            "WHERE signing_public = ? AND place = ?",
            (recipient, place),
        )
        return None if row is None or row[0] is None else max(0, row[0])

    def pushed(self) -> list[PushedQueue]:
        """Return what mailboxes have said that they keep."""
        rows = self._database.run("SELECT recipient, mailbox, upto, pushed_at FROM mailbox_pushed")
        return [PushedQueue(*row) for row in rows]

    def hand_over(self, recipient: DeviceKey) -> Place:
        """Have all that waits for a recipient go to mailboxes, whether or not it answers; return up to which place."""
        upto = self._database.one(
            f"SELECT coalesce(max(place), 0) FROM peer JOIN outbox ON {OF_PEER} WHERE signing_public = ?",  # noqa: S608
            recipient,
        )
        self._database.run(
            "INSERT INTO mailbox_hand_over VALUES (?, ?) ON CONFLICT DO UPDATE SET upto = max(upto, excluded.upto)",
            (recipient, upto),
        )
        return Place(upto)

    def is_handed_over(self, recipient: DeviceKey, upto: Place) -> bool:
        """Say whether a mailbox keeps all up to a place of a queue, or its recipient has acknowledged it."""
        kept = self._database.one("SELECT coalesce(max(upto), 0) FROM mailbox_pushed WHERE recipient = ?", recipient)
        if kept >= upto:
            return True
        query = f"SELECT 1 FROM peer JOIN outbox ON {OF_PEER} WHERE signing_public = ? AND place BETWEEN ? AND ?"  # noqa: S608
        return self._database.first(query, (recipient, kept + 1, upto)) is None

    def handed_over(self) -> dict[DeviceKey, Place]:
        """Return up to which place of each queue a person wants all at a mailbox."""
        return {DeviceKey(row[0]): Place(row[1]) for row in self._database.run("SELECT * FROM mailbox_hand_over")}
