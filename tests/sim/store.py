"""The production store on a disk in memory, with a crash or a full disk at any commit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.adapters.content_files import ContentFiles
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.file.high_water_file import HighWaterFile
from covey.adapters.sqlite.link.inbox import Inbox
from covey.adapters.sqlite.link.outbox import Outbox
from covey.adapters.sqlite.link.received import Received
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, GroupId, Incarnation, Place
from covey.core.wire.message import LossReason, Message
from covey.core.wire.sequences import SequenceSet
from covey.errors import DiskFullError
from tests.sim.disk import Disk

if TYPE_CHECKING:
    from tests.sim.device import Device


class SimOutbox(Outbox):
    """Tells the ledger what is queued, set aside and freed."""

    def __init__(self, store: SimStore, outbox_bytes: int) -> None:
        super().__init__(
            *(store.database, store.losses, store.quarantine, store.counters, store.high_water, store.outbox_growth),
            outbox_bytes,
        )
        self._store = store

    def queue(self, *arguments: Any, **named: Any) -> Any:
        """Append to the outbox."""
        result = super().queue(*arguments, **named)
        message = arguments[4]
        self._store.on_commit(lambda: self._store.ledger.queue(message))
        return result

    def withdraw(
        self, recipient: DeviceKey, place: Place, code: str, now_us: int, reason: LossReason | None = None
    ) -> bool:
        """Set a message aside."""
        rows = self.queued(recipient, Place(place - 1), 1, 1)
        done = super().withdraw(recipient, place, code, now_us, reason)
        if done:
            self._store.on_commit(lambda: self._store.ledger.withdraw(rows[0][1]))
        return done

    def free(self, recipient: DeviceKey, received: SequenceSet) -> int:
        """Forget what the recipient holds: which the world knows better."""
        for place, raw in self.queued(recipient, Place(0), 1_000_000, 1_000_000_000):
            if place in received:
                self._store.ledger.check_freed(raw, lands=False)
        return super().free(recipient, received)


class SimReceived(Received):
    """Tells the ledger what has come."""

    def __init__(self, store: SimStore) -> None:
        super().__init__(store.database)
        self._store = store

    def set(self, author: DeviceKey, incarnation: Incarnation, received: SequenceSet) -> None:
        """Remember what has come."""
        super().set(author, incarnation, received)
        me = self._store.identity.signing_public
        self._store.on_commit(lambda: self._store.ledger.receive(me, author, incarnation, received))


class SimInbox(Inbox):
    """Tells the ledger what the application gets."""

    def __init__(self, store: SimStore) -> None:
        super().__init__(store.database, store.received)
        self._store = store

    def forget(self, group_id: GroupId) -> None:
        """Erase what nobody has read of a group."""
        erased = [row[5] for row in self.arrived(1_000_000) if row[1] == group_id]
        super().forget(group_id)
        me = self._store.identity.signing_public
        self._store.on_commit(lambda: self._store.ledger.erase(me, erased))

    def deliver(self, message: Message, now_us: int) -> bool:
        """Put a blob into the inbox."""
        taken = super().deliver(message, now_us)
        if taken:
            me = self._store.identity.signing_public
            self._store.on_commit(lambda: self._store.ledger.deliver(me, message))
        return taken


class SimStore(SqliteStore):
    """Tells the ledger what a commit made durable, and nothing that was rolled back.

    `crashes` is false for another process of the same device: it writes, but its end is not the agent's.
    """

    def __init__(
        self,
        disk: Disk,
        new_incarnation: Incarnation,
        device: Device,
        high_water: HighWaterFile | None,
        *,
        crashes: bool,
    ) -> None:
        self._disk = disk
        self._device = device
        self._crashes = crashes
        self._committed: list[Callable[[], None]] = []
        storage_key = StorageKey.of(device.identity)
        outbox_bytes = device.world.plan.outbox_bytes
        super().__init__(Path(os.devnull), new_incarnation, storage_key, outbox_bytes, high_water=high_water)

    def _hold_tables(self, outbox_bytes: int, high_water: HighWaterFile | None, files: ContentFiles) -> None:
        super()._hold_tables(outbox_bytes, high_water, files)
        self.ledger = self._device.world.ledger
        self.identity = self._device.identity
        self.outbox = SimOutbox(self, outbox_bytes)
        self.received = SimReceived(self)
        self.inbox = SimInbox(self)
        self.groups._arrived = (self.inbox, self.quarantine)

    def _connect(self, _path: Path) -> sqlite3.Connection:
        return self._disk.connect()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction that a fault may end."""
        self._committed.clear()
        full = self._device.disk_full
        before, used = self.connection.total_changes, self._pages() if full else 0
        with super().transaction():
            self.database.lean = full and self._device.reserved
            yield
            if self._crashes:
                self._device.boundary()
            self.database.flush()
            wrote = full and self.connection.total_changes != before
            if wrote and (not self._device.reserved or self._pages() > used):
                raise DiskFullError("no room")
        for note in self._committed:
            note()
        if self._crashes:
            self._device.boundary()

    def _pages(self) -> int:
        """Return how many pages hold something: what the reserved space has given lets everything happen but growth."""
        return self.database.one("PRAGMA page_count") - self.database.one("PRAGMA freelist_count")

    def on_commit(self, note: Callable[[], None]) -> None:
        """Do something if and when the open transaction is durable."""
        self._committed.append(note)
