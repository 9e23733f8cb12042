"""The durable state of one device in one SQLite file: opening it, and one object for each family of its tables.

Power-safe by WAL with synchronous=FULL: a commit is one write and one sync, and nothing committed is lost
(measured over simulated power cuts: WAL NORMAL loses rows, DELETE FULL the last commit). Callers group
what they can into one transaction. Several processes may share the file; a transaction takes the write lock at
its start, so that what it read still holds when it commits.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.content_files import ContentFiles, content_folder
from covey.adapters.files import synchronise
from covey.adapters.sqlite.boards import Boards, Carriers
from covey.adapters.sqlite.content import ContentTable
from covey.adapters.sqlite.counters import Conditions, Counters, DeviceRow, Idempotency, SensorPositions
from covey.adapters.sqlite.database import Database, moving, translated
from covey.adapters.sqlite.events import EventTable
from covey.adapters.sqlite.file.groups_copy import GroupsCopy
from covey.adapters.sqlite.file.high_water import HighWater
from covey.adapters.sqlite.file.high_water_file import HighWaterFile
from covey.adapters.sqlite.file.inspection import read_only
from covey.adapters.sqlite.file.reserved_space import ReservedSpace
from covey.adapters.sqlite.history.catching_up import CatchingUp
from covey.adapters.sqlite.history.forgotten import ForgottenOperations
from covey.adapters.sqlite.history.operations import Announcements, OperationTables
from covey.adapters.sqlite.inventories import Inventories
from covey.adapters.sqlite.link.imprints import ImprintTable
from covey.adapters.sqlite.link.inbox import Inbox
from covey.adapters.sqlite.link.incarnations import Incarnations
from covey.adapters.sqlite.link.landing import Landing
from covey.adapters.sqlite.link.link_keys import LinkKeys
from covey.adapters.sqlite.link.losses import Losses
from covey.adapters.sqlite.link.outbox import Outbox
from covey.adapters.sqlite.link.outbox_growth import OutboxGrowth
from covey.adapters.sqlite.link.presence import PeerHeads, PresenceCounters
from covey.adapters.sqlite.link.quarantine import Quarantine
from covey.adapters.sqlite.link.received import Received
from covey.adapters.sqlite.membership.groups import (
    Departures,
    GroupTables,
    InvitedOperators,
    MessagesAhead,
    PersonalTables,
    Votes,
)
from covey.adapters.sqlite.membership.pairing import GroupAsks, GroupRequests, Invites, Joins, Pairings, Replacements
from covey.adapters.sqlite.migrations import migrate, newest_schema, schema_version
from covey.adapters.sqlite.orders.commands import CommandTables, GroupMoveTable, InstallationTable, MoveOrders
from covey.adapters.sqlite.orders.order_results import OrderResultTables, SentReportTable
from covey.adapters.sqlite.orders.settings import OrderedSettingTable, SettingReports
from covey.core.ids import INCARNATION_BYTES, Incarnation
from covey.errors import ConfigurationError
from covey.limits.storage import LOG_BYTES, OUTBOX_BYTES

if TYPE_CHECKING:
    from covey.adapters.keys.storage_key import StorageKey
    from covey.adapters.sqlite.mailbox import MailboxTables

_BUSY_MS = 10_000
_PAGE_CACHE_KIB = 512

PAGE_BYTES = 1_024
"""Of a new file. Each commit writes some pages whole of which it changes a few bytes (measured, ADR 20)."""

_LEANED_ON = (
    "SELECT count(next_place) FROM peer",
    "SELECT count(last) FROM incarnation_span",
    "SELECT count(digest) FROM received",
    "SELECT count(length(raw)) FROM group_manifest WHERE state <> 2",
    "SELECT count(length(secret)) FROM epoch_secret",
    "SELECT count(last) FROM operation_log",
    "SELECT count(hash) FROM operation_head",
    "SELECT count(number) FROM announcement",
    "SELECT height, author, incarnation, number, manifest_version, kind, stored_at, raw FROM operation LIMIT 1",
)
"""The small tables, as far as they are not history; reading them takes less than opening the file."""


class SqliteStore:
    """One device's state. What is called belongs inside `transaction()`, except what only looks.

    Raises (all methods, and those of the tables):
        DiskFullError: no room; the transaction is rolled back.
        DamagedStateError: the file is not what was written; `adapters/sqlite/file/salvage.py` saves what can be read.
        StorageError: the file cannot be read or written.
    """

    def __init__(
        self,
        path: Path,
        new_incarnation: Incarnation,
        storage_key: StorageKey,
        outbox_bytes: int = OUTBOX_BYTES,
        reserved: ReservedSpace | None = None,
        moves: Callable[[], None] | None = None,
        high_water: HighWaterFile | None = None,
        groups_copy: GroupsCopy | None = None,
        *,
        reads_only: bool = False,
    ) -> None:
        """Open the file, made or migrated where needed.

        `storage_key` wraps the secrets in it, and is wiped when the store is closed.
        `reads_only`: on a disk that takes no writes it is read as it is, and each transaction raises a StorageError.
        """
        assert len(new_incarnation) == INCARNATION_BYTES
        self._lock: int | None = None
        self._storage_key = storage_key
        if reads_only:
            self._open_to_read(path)
        else:
            self._open_to_write(path, new_incarnation, reserved, moves)
        self._seen_version = self.data_version()
        self._hold_tables(outbox_bytes, high_water, ContentFiles(content_folder(path)))
        self.groups.copy = groups_copy
        if not reads_only:
            with translated(), moving(self.database.connection, moves):
                self.operations.complete_index()

    def _open_to_write(
        self,
        path: Path,
        new_incarnation: Incarnation,
        reserved: ReservedSpace | None,
        moves: Callable[[], None] | None,
    ) -> None:
        # Only where there is no file: closing one would drop the locks that this process holds on it (POSIX).
        new = not path.exists()
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with translated():
            self.database = Database(self._connect(path), reserved)
            try:
                self.frames_read = self._prepare()
                with moving(self.database.connection, moves):
                    migrate(self.database, new_incarnation)
                if new:  # a journal of its first moment, come back after a power cut, would undo everything
                    synchronise(path.parent)
                self._look_through()
            except BaseException:  # garbage collection would close it in the middle of the next opening
                self.database.connection.close()
                raise

    def _open_to_read(self, path: Path) -> None:
        self.database = Database(read_only(path))
        self.database.connection.isolation_level = None
        self.frames_read = 0
        with translated():
            if schema_version(self.database) != newest_schema():
                raise ConfigurationError(
                    "another version of Covey wrote the state, and its disk is read-only",
                    hint="install that version, or copy the state to a writable disk",
                )
            self._look_through()

    def _hold_tables(self, outbox_bytes: int, high_water: HighWaterFile | None, files: ContentFiles) -> None:
        database = self.database
        self.counters = Counters(database)
        self.conditions = Conditions(database)
        self.inventories = Inventories(database)
        self.sensor_positions = SensorPositions(database)
        self.device = DeviceRow(database)
        self.quarantine = Quarantine(database)
        self.outbox_growth = OutboxGrowth(database)
        self.losses = Losses(database, self.outbox_growth)
        self.incarnations = Incarnations(database, self.counters, self.outbox_growth)
        self.high_water = HighWater(database, self.incarnations, self.losses, high_water)
        self.outbox = Outbox(
            *(database, self.losses, self.quarantine, self.counters, self.high_water, self.outbox_growth), outbox_bytes
        )
        self.received = Received(database)
        self.imprints = ImprintTable(database)
        self.inbox = Inbox(database, self.received)
        self.landing = Landing(database)
        self.link_keys = LinkKeys(database)
        self.presence = PresenceCounters(database)
        self.heads = PeerHeads(database)
        self.events = EventTable(database)
        self.operations = OperationTables(database, self.events)
        self.announcements = Announcements(database)
        self.catching_up = CatchingUp(database)
        self.ordered_settings = OrderedSettingTable(database, self.events, self._storage_key)
        self.sent_reports = SentReportTable(database)
        self.setting_reports = SettingReports(database, self.events)
        self.order_results = OrderResultTables(database, self.events)
        self.commands = CommandTables(database)
        self.installations = InstallationTable(database)
        self.group_moves = GroupMoveTable(database)
        self.move_orders = MoveOrders(database)
        orders = (self.commands, self.order_results, self.setting_reports, self.sent_reports)
        self.invited_operators = InvitedOperators(database)
        self.replacements = Replacements(database)
        self.content = ContentTable(database, files)
        self.groups = GroupTables(
            database,
            (self.incarnations, self.operations, *orders, self.content, self.replacements),
            self.invited_operators,
            (self.inbox, self.quarantine),
            self._storage_key,
        )
        self.personal = PersonalTables(database)
        self.votes = Votes(database)
        self.ahead = MessagesAhead(database)
        self.departures = Departures(database)
        self.invites = Invites(database)
        self.joins = Joins(database)
        self.pairings = Pairings(database, self._storage_key)
        self.requests = GroupRequests(database, self._storage_key)
        self.group_asks = GroupAsks(database)
        self.carriers = Carriers(database)
        self.boards = Boards(database)
        self.idempotency = Idempotency(database)

    def _connect(self, path: Path) -> sqlite3.Connection:
        database = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MS / 1000, cached_statements=64)
        database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        return database

    def _prepare(self) -> int:
        """Set the connection up; return how many frames of the write-ahead log it has read."""
        connection = self.database.connection
        self._enter_wal()
        connection.execute("PRAGMA synchronous = FULL")
        frames_read: int = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
        connection.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // self.database.one('PRAGMA page_size')}")
        connection.execute("PRAGMA secure_delete = FAST")  # else each freed message is written once more, as zeros
        return frames_read

    def _enter_wal(self) -> None:
        """Use a write-ahead log. SQLite does not wait for another process that does the same, so we do."""
        deadline = time.monotonic() + _BUSY_MS / 1000
        while True:
            try:
                self.database.connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _look_through(self) -> None:
        """Read the most important tables, so that damage shows at once."""
        self.database.one("SELECT next_seq FROM device")
        for statement in _LEANED_ON:
            self.database.run(statement)

    @cached_property
    def mailbox(self) -> MailboxTables:
        """What mailboxes keep, and who uses them. Most devices do neither, and load nothing for it."""
        from covey.adapters.sqlite.mailbox import MailboxTables

        return MailboxTables(self.database)

    def transaction(self) -> AbstractContextManager[None]:
        """Open a write transaction; commit durably at the end, roll back on any exception."""
        return self.database.transaction()

    @property
    def is_writing(self) -> bool:
        """Whether a write transaction is open."""
        return self.database.within

    def reading(self) -> AbstractContextManager[None]:
        """Read the state as it is now until the end: what others commit meanwhile may show after it."""
        return self.database.reading()

    @property
    def changes(self) -> int:
        """How many rows this connection has written, or will write for numbers that were allocated, since it opened."""
        return self.database.connection.total_changes + self.outbox_growth.allocated

    def after_commit(self, change: Callable[[], None]) -> None:
        self.database.after_commit(change)

    def fold(self) -> None:
        """Fold the write-ahead log into the file. Closing does, too, but says nothing where there is no room for it."""
        self.database.fold()

    def changed_elsewhere(self) -> bool:
        """Say whether another process has committed since the last call."""
        version = self.data_version()
        changed = version != self._seen_version
        self._seen_version = version
        return changed

    def is_behind(self) -> bool:
        """Say whether `changed_elsewhere` would say so, without calling that seen."""
        return self.data_version() != self._seen_version

    def data_version(self) -> int:
        """Return a number that changes with each commit of another process."""
        return self.database.one("PRAGMA data_version")

    def close(self) -> None:
        """Close the file; the last process folds the write-ahead log back into it."""
        self.database.connection.close()
        self.high_water.close()
        self._storage_key.wipe()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def keep(self, lock: int) -> None:
        """Hold a lock's file until this one is closed."""
        self._lock = lock

    @property
    def connection(self) -> sqlite3.Connection:
        """The database itself, for what takes rows over from another one."""
        return self.database.connection


@contextmanager
def empty_history(forgotten: ForgottenOperations | None = None) -> Iterator[OperationTables]:
    """Open empty tables, deleted when the block ends, in which a stored history can be judged again.

    `forgotten` are operations of another store that they treat as forgotten.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as connection:  # SQLite's own temporary file
        database = Database(connection)
        migrate(database, Incarnation(bytes(INCARNATION_BYTES)))
        yield OperationTables(database, EventTable(database), forgotten)
