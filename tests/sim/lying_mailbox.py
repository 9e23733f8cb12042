"""A mailbox whose owner lies: it drops, repeats, reorders, invents cursors, forgets, and comes back from a backup.

It runs the product's service over inboxes that lie; so whatever it says has the shape that a mailbox gives it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from covey.adapters.sqlite.mailbox import MailboxTables
from covey.core.ids import DeviceKey
from covey.core.mailbox.messages import BlobEntry, BlobRefusal, InboxState, Kept, Push
from covey.core.wire.sequences import Range
from covey.limits.mailbox import MAXIMUM_CURSOR_GAP

_INVENTED = (0, 1, 3, 50, MAXIMUM_CURSOR_GAP, MAXIMUM_CURSOR_GAP + 1, 2**31, 2**40 - 1)


class LyingInboxes:
    """`MailboxRecords` that keep what they like and say what they like; what the device uses itself is as it is."""

    def __init__(self, tables: MailboxTables, chance: random.Random) -> None:
        self._tables = tables
        self._chance = chance
        self._backup: list[tuple[Any, ...]] = []
        self.lies = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def _lies(self, share: float) -> bool:
        lies = self._chance.random() < share
        self.lies += lies
        return lies

    def relay_id(self) -> str:
        """Say that it is another state, sometimes."""
        return f"state {self._chance.randrange(3)}" if self._lies(0.1) else self._tables.relay_id()

    def put(
        self, sender: DeviceKey, push: Push, ttl_us: int, now_us: int, maximum_bytes: int, senders: int
    ) -> Kept | BlobRefusal:
        """Keep a blob, or say so, or refuse it; once in a while go back to what was kept some time ago."""
        if self._lies(0.05):
            self._restore()
        elif self._lies(0.05):
            self._backup = self._tables._database.run("SELECT * FROM mailbox_blob")
        if self._lies(0.3):
            return Kept(self._chance.choice(_INVENTED[1:]), is_new=self._chance.random() < 0.5)
        if self._lies(0.1):
            return BlobRefusal.INBOX_FULL
        return self._tables.put(sender, push, ttl_us, now_us, maximum_bytes, senders)

    def _restore(self) -> None:
        run = self._tables._database.run
        run("DELETE FROM mailbox_blob")
        for row in self._backup:
            run("INSERT INTO mailbox_blob VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        run("UPDATE mailbox_inbox SET next_cursor = 1")
        self._tables.recount()

    def state(self, device: DeviceKey) -> InboxState:
        """Invent cursors and numbers."""
        state = self._tables.state(device)
        return replace(state, max_cursor=self._chance.choice(_INVENTED)) if self._lies(0.2) else state

    def after(self, device: DeviceKey, cursor: int, last: int, limit: int, size: int) -> tuple[list[BlobEntry], bool]:
        """Leave out, repeat, reorder, invent."""
        blobs, is_cut = self._tables.after(device, cursor, last, limit, size)
        lie: Callable[[list[BlobEntry]], list[BlobEntry]]
        for lie in (self._drop, self._repeat, self._reorder, self._invent):
            if self._lies(0.15):
                blobs = lie(blobs)
        return blobs, is_cut or self._lies(0.1)

    def _drop(self, blobs: list[BlobEntry]) -> list[BlobEntry]:
        return [each for each in blobs if self._chance.random() < 0.5]

    def _repeat(self, blobs: list[BlobEntry]) -> list[BlobEntry]:
        return [replace(each, payload=self._chance.choice(blobs).payload) for each in blobs]

    def _reorder(self, blobs: list[BlobEntry]) -> list[BlobEntry]:
        return self._chance.sample(blobs, len(blobs))

    def _invent(self, blobs: list[BlobEntry]) -> list[BlobEntry]:
        return [replace(each, cursor=each.cursor + self._chance.choice(_INVENTED[:4])) for each in blobs]

    def delete(self, device: DeviceKey, cursors: Range) -> int:
        """Keep what is to be deleted, sometimes."""
        return 0 if self._lies(0.3) else self._tables.delete(device, cursors)
