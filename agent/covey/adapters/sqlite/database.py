"""The connection to one SQLite file: statements, transactions, and sqlite3's errors in the project's words."""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from covey.adapters.process_writes import written_by_thread
from covey.adapters.sqlite.file.reserved_space import ReservedSpace
from covey.errors import ConstraintError, CoveyError, DamagedStateError, DiskFullError, StorageError, hint_of_errno

_REFUSALS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OverflowError,
)
"""What a value brings about, whatever the disk."""

_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
"""The latter is of the index of the write-ahead log, which grows as the log is read at the opening."""

_DISK_REFUSES = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}

_OF_SQLITE = (sqlite3.Error, UnicodeDecodeError)
_ERRORS = (*_OF_SQLITE, OverflowError)


def _nothing() -> None:
    """Do nothing."""


class Database:
    """One connection; the tables' classes hold it and run their statements by it.

    Raises (all methods):
        DiskFullError: no room; the transaction is rolled back.
        DamagedStateError: the file is not what was written; `adapters/sqlite/file/salvage.py` saves what can be read.
        StorageError: the file cannot be read or written.
        ConstraintError: a value that the tables refuse.
    """

    def __init__(self, connection: sqlite3.Connection, reserved: ReservedSpace | None = None) -> None:
        self.connection = connection
        self.lean = False
        """Whether there is no room (`ReservedSpace`): what waits may leave, and only control messages come in."""
        self.within = False
        """Whether a transaction is open: then nobody else writes, and what was read still holds."""
        self._looked = False
        """Whether it is looked once, for all that follows, if somebody else has written (`reading`)."""
        self._overwrote = False
        """Whether the log may still hold what was overwritten since it was folded."""
        self.written_bytes = 0
        """What this connection's transactions have written to storage, with the folding of the log that they cause."""
        self.count_written = written_by_thread
        self._reserved = reserved
        self._version = 0
        """`PRAGMA data_version` when what is remembered for longer was last known to hold."""
        self._flushes: list[Callable[[], None]] = []
        self._forgets: list[Callable[[], None]] = []
        self._lasting: list[Callable[[], None]] = []
        self._finals: list[Callable[[], None]] = []
        self._changes: list[Callable[[], None]] = []

    def remember(self, forget: Callable[[], None], flush: Callable[[], None] = _nothing) -> None:
        """Let a table's class keep in memory what a transaction has read or will write.

        `flush` writes it before each commit, `forget` drops it at each beginning and each end.
        """
        self._forgets.append(forget)
        self._flushes.append(flush)

    def remember_longer(self, forget: Callable[[], None], flush: Callable[[], None] = _nothing) -> None:
        """Let a table's class keep in memory what it alone writes, from one transaction to the next.

        `flush` writes it before each commit, `forget` drops it where another process has written, or this transaction
        is rolled back. How much is kept is for the class to bound; outside of a transaction it asks `holds`.
        """
        self._lasting.append(forget)
        self._flushes.append(flush)

    def holds(self) -> bool:
        """Say whether what is remembered for longer still holds: nobody else has written since."""
        return self.within or self._looked or self.one("PRAGMA data_version") == self._version

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let what is remembered hold until the end, without asking each time whether somebody else has written."""
        self._look_for_others()
        self._looked = True
        try:
            yield
        finally:
            self._looked = False

    def before_commit(self, final: Callable[[], None]) -> None:
        """Let a table's class write at the very end of each transaction, when all others have written."""
        self._finals.append(final)

    def after_commit(self, change: Callable[[], None]) -> None:
        """Make a change of memory once the open transaction is committed; never where it is rolled back.

        Without an open transaction every statement is committed already.
        """
        if self.within:
            self._changes.append(change)
        else:
            change()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a write transaction; commit durably at the end, roll back on any exception."""
        written_before = self.count_written()
        try:
            self.lean = self._reserved is not None and not self._reserved.suffices(self._unused_bytes)
            self.run("BEGIN IMMEDIATE")
            self._begin_or_end(within=True)
            self._look_for_others()
            try:
                yield
                self.flush()
                for final in self._finals:
                    final()
                self.run("COMMIT")
            except BaseException as error:
                for forget in self._lasting:
                    forget()
                if self.connection.in_transaction:
                    self.run("ROLLBACK")
                if isinstance(error, _OF_SQLITE):
                    raise _translation(error) from error
                raise
            finally:
                self._begin_or_end(within=False)
                changes, self._changes = self._changes, []
        except DiskFullError:
            if self._reserved is not None:
                dropped = self._reserved.drop()
                with suppress(StorageError):  # a log that is folded is written again from its beginning
                    self.fold("TRUNCATE" if dropped else "PASSIVE")
            raise
        if self._overwrote:
            self._fold_what_was_overwritten()
        self.written_bytes += self.count_written() - written_before
        for change in changes:
            change()

    def _unused_bytes(self) -> int:
        return self.one("PRAGMA freelist_count") * self.one("PRAGMA page_size")

    def _look_for_others(self) -> None:
        version = self.one("PRAGMA data_version")
        if version != self._version:
            self._version = version
            for forget in self._lasting:
                forget()

    def _begin_or_end(self, *, within: bool) -> None:
        for forget in self._forgets:
            forget()
        self.within = within

    def flush(self) -> None:
        """Write what the open transaction has kept in memory so far."""
        for flush in self._flushes:
            flush()

    def fold(self, how: str = "TRUNCATE") -> None:
        """Fold the write-ahead log into the file. Closing does, too, but says nothing where there is no room for it.

        `PASSIVE` waits for nobody, and leaves the log's file as long as it is.
        """
        with translated():
            self.connection.execute(f"PRAGMA wal_checkpoint({how})").fetchall()

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """Overwrite with zeros what is deleted or replaced meanwhile, whatever that costs: it was a secret.

        Until the log is folded into the file, both still hold it: that follows the commit.
        """
        self.run("PRAGMA secure_delete = ON")
        try:
            yield
        finally:
            self.run("PRAGMA secure_delete = FAST")
            self._overwrote = True

    @contextmanager
    def leaving_no_copies(self) -> Iterator[None]:
        """Overwrite what is moved or deleted meanwhile: the old place would keep a copy that no later deletion finds.

        Unlike `overwriting`, it does not fold the log: erasing a group folds it at the end.
        """
        self.run("PRAGMA secure_delete = ON")
        try:
            yield
        finally:
            self.run("PRAGMA secure_delete = FAST")

    def _fold_what_was_overwritten(self) -> None:
        """Truncate the log; if another process is reading, after the next transaction."""
        with suppress(StorageError), translated():
            busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._overwrote = bool(busy)

    def run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Run a statement, inside a transaction or not, and return its rows."""
        try:
            return self.connection.execute(statement, parameters).fetchall()
        except _ERRORS as error:
            raise _translation(error) from error

    def run_each(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement with each of some rows of parameters."""
        try:
            self.connection.executemany(statement, rows)
        except _ERRORS as error:
            raise _translation(error) from error

    def each(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Any]:
        """Run a statement and yield its rows, as far as they are wanted."""
        try:
            yield from self.connection.execute(statement, parameters)
        except _ERRORS as error:
            raise _translation(error) from error

    def first(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        """Run a statement and return its first row; None where there is none."""
        rows = self.run(statement, parameters)
        return rows[0] if rows else None

    def one(self, statement: str, *parameters: object) -> int:
        """Run a statement and return the first column of its first row, which must be there."""
        row = self.first(statement, parameters)
        if row is None:
            raise DamagedStateError("the state database lacks a required row")
        return row[0]  # type: ignore[no-any-return] # STRICT tables give what the caller's column says


@contextmanager
def translated() -> Iterator[None]:
    """Turn sqlite3's errors into the project's."""
    try:
        yield
    except _OF_SQLITE as error:
        raise _translation(error) from error


def is_of_full_disk(error: Exception) -> bool:
    """Say whether SQLite lacked room."""
    return getattr(error, "sqlite_errorcode", 0) in _NO_ROOM


def _refusal_of_disk(code: int, error: Exception) -> StorageError:
    if code == sqlite3.SQLITE_READONLY:
        return StorageError("the state cannot be written, and nothing was changed", hint=hint_of_errno(errno.EROFS))
    return StorageError(
        f"the state database: {error}", hint="check with dmesg whether its disk is full, read-only or broken"
    )


_of_schema = re.compile(
    "no such (column|table|index)|unsupported file format|already exists|malformed database schema|"
    "has no column|has [0-9]+ columns"
).search
"""What SQLite says of our statements where the page with the schema is damaged."""


def _translation(error: Exception) -> CoveyError:
    code = getattr(error, "sqlite_errorcode", 0)
    unreadable = isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode")
    lacks = code & 0xFF == sqlite3.SQLITE_ERROR and _of_schema(str(error)) is not None
    if unreadable or lacks or code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return DamagedStateError(f"the state database is damaged: {error}")
    if is_of_full_disk(error):
        return DiskFullError(
            "no room on the disk that holds the state", hint="free some space; queued messages are safe"
        )
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return StorageError(
            "another process locks the state",
            hint="end the backup or the other command that uses it, then try again",
        )
    if code & 0xFF in _DISK_REFUSES:
        return _refusal_of_disk(code & 0xFF, error)
    if isinstance(error, _REFUSALS) or str(error) == "integer overflow":
        return ConstraintError(f"the state database refuses a value: {error}")
    return StorageError(f"the state database: {error}")


_STEPS = 10_000
"""Of SQLite's virtual machine: about a millisecond, or some hundred rows."""


@contextmanager
def moving(database: sqlite3.Connection, moves: Callable[[], None] | None) -> Iterator[None]:
    """Call `moves` again and again while the database works."""

    if moves is None:
        yield
        return

    def step() -> int:
        moves()
        return 0  # go on

    database.set_progress_handler(step, _STEPS)
    try:
        yield
    finally:
        database.set_progress_handler(None, _STEPS)
