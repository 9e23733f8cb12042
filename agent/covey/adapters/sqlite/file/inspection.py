"""Looking at a state database without changing it: neither migrated nor repaired."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from covey.adapters.files import is_read_only
from covey.adapters.sqlite.database import is_of_full_disk
from covey.adapters.sqlite.migrations import newest_schema
from covey.adapters.sqlite.rows import OF_PEER, check_digest
from covey.core.ids import DeviceKey, Place
from covey.core.link.incarnations import IncarnationSpan, span_of
from covey.core.wire.message import read_message
from covey.errors import ConfigurationError, CoveyError, DiskFullError, StorageError, hint_of_errno

if TYPE_CHECKING:
    from pathlib import Path

_COMPLAINTS = 10

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises: its own words may be in an error's text."""

DAMAGED_HINT = "restart the agent, which repairs the state; or, while no agent runs: covey check database --repair"

_TOTALS = {
    "the number of messages that wait": "SELECT queued_messages = (SELECT count(*) FROM outbox) FROM device",
    "their bytes": "SELECT queued_bytes = (SELECT coalesce(sum(size), 0) FROM outbox) FROM device",
    "their bytes by class": "SELECT queued_bytes = control_bytes + data_bytes + telemetry_bytes + history_bytes "
    "+ alarm_bytes FROM device",
    "the number for each recipient": "SELECT coalesce(min(queued_messages = "  # noqa: S608 - our names
    f"(SELECT count(*) FROM outbox WHERE {OF_PEER})), 1) FROM peer",
    "who they are for": "SELECT NOT EXISTS (SELECT 1 FROM outbox WHERE peer NOT IN (SELECT id FROM peer))",
    "the next places": "SELECT coalesce(min(next_place > coalesce((SELECT place FROM outbox "  # noqa: S608
    f"WHERE {OF_PEER} ORDER BY outbox.id DESC LIMIT 1), 0) AND base < next_place), 1) FROM peer",
    "the inbox's bytes": "SELECT inbox_bytes = (SELECT coalesce(sum(length(body)), 0) FROM inbox) FROM device",
    "the landing's bytes": "SELECT landing_bytes = (SELECT coalesce(sum(length(message)), 0) FROM landing) FROM device",
}


def read_only(path: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """Open a database for looking; `immutable` leaves the write-ahead log out.

    On a read-only disk so does a log whose index is missing: SQLite would have to make it there.

    Raises:
        ConfigurationError: this user may not open it.
        StorageError: it cannot be opened.
    """
    lock = path.with_name(f"{path.name}-lock")
    is_stuck = not immutable and is_read_only(lock)
    for file, access in ((path, os.R_OK), (lock, os.R_OK if immutable or is_stuck else os.W_OK)):
        if file.exists() and not os.access(file, access):  # SQLite would call a file of another user damaged
            raise ConfigurationError(f"cannot open {file}: Permission denied", hint=hint_of_errno(errno.EACCES))
    try:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro{'&immutable=1' if immutable else ''}", uri=True)
        if is_stuck:
            try:
                database.execute("PRAGMA user_version").fetchone()
            except sqlite3.OperationalError:
                database.close()
                return read_only(path, immutable=True)
    except UNREADABLE as error:
        raise StorageError(f"{path} cannot be read: {error}", hint=DAMAGED_HINT) from error
    database.text_factory = lambda raw: raw.decode(errors="surrogateescape")  # damage is no reason to stop
    return database


def quick_check(path: Path) -> list[str]:
    """Return what SQLite finds wrong with the file; nothing where it is sound.

    Raises:
        ConfigurationError: this user may not open it.
        DiskFullError: reading takes room for the index of the write-ahead log, and there is none.
        StorageError: it cannot be read at all.
    """
    try:
        with closing(read_only(path)) as database:
            rows = database.execute(f"PRAGMA quick_check({_COMPLAINTS})").fetchall()
    except UNREADABLE as error:
        _check_room(error)
        raise StorageError(f"{path} cannot be read: {error}", hint=DAMAGED_HINT) from error
    return [str(line) for (line,) in rows if line != "ok"]


def verify(path: Path, progress: Callable[[int], None] = lambda _: None) -> list[str]:
    """Return what is wrong with the file: what SQLite finds, and rows and totals that are not what was written.

    `progress` is told how many messages have been looked at.

    Raises:
        DiskFullError: as `quick_check`.
        StorageError: it cannot be read at all.
    """
    complaints = quick_check(path)
    if complaints:
        return complaints
    try:
        with closing(read_only(path)) as database:
            database.execute("BEGIN")  # one state of it, whatever others write
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == 0:
                return ["it holds nothing"]
            if version >= newest_schema():  # an older one is about to be converted
                return [*_wrong_totals(database), *_wrong_rows(database, progress)]
    except UNREADABLE as error:
        _check_room(error)
        return [str(error)]
    return []


def _check_room(error: Exception) -> None:
    if is_of_full_disk(error):
        raise DiskFullError("no room on the disk to read the state database", hint="free some space") from error


def _wrong_totals(database: sqlite3.Connection) -> Iterator[str]:
    if not database.execute("SELECT 1 FROM device").fetchone():
        yield "the device's row is gone"
        return
    for what, query in _TOTALS.items():
        if not database.execute(query).fetchone()[0]:
            yield f"{what}: not what the rows say"


def _wrong_rows(database: sqlite3.Connection, progress: Callable[[int], None]) -> Iterator[str]:
    for author, group_id, body, stored in database.execute("SELECT author, group_id, body, digest FROM inbox"):
        yield from _compared("a blob in the inbox", stored, group_id, author, body)
    for row in database.execute("SELECT digest, author, incarnation, upto, ranges FROM received"):
        yield from _compared("what was received over a link", *row)
    (incarnation,) = database.execute("SELECT incarnation FROM device").fetchone()
    peers = database.execute("SELECT id, signing_public, base, next_place - 1 FROM peer").fetchall()
    looked_at = 0
    for peer, recipient, *present in peers:
        ended = database.execute(
            "SELECT incarnation, base, last FROM incarnation_span WHERE peer = ? ORDER BY base", (peer,)
        )
        spans = [*(IncarnationSpan(*row) for row in ended), IncarnationSpan(incarnation, *present)]
        for row in database.execute(
            f"SELECT digest, place, seq, class, message, size FROM peer JOIN outbox ON {OF_PEER} "  # noqa: S608
            "WHERE peer.id = ? ORDER BY outbox.id",
            (peer,),
        ):
            yield from _compared("a message that waits", *row[:5])
            yield from _misplaced(recipient, span_of(spans, row[1]), *row[1:])
            looked_at += 1
            progress(looked_at)


def _compared(what: str, stored: bytes, *parts: object) -> Iterator[str]:
    try:
        check_digest(stored, *parts)
    except StorageError:
        yield f"{what} is not what was written"


def _misplaced(
    recipient: DeviceKey, span: IncarnationSpan, place: Place, _seq: int, _kind: int, raw: bytes, size: int
) -> Iterator[str]:
    try:
        message = read_message(raw, verify=False)
    except CoveyError as error:
        yield f"a message that waits: {error}"
        return
    if message.recipient != recipient or size != len(raw):
        yield "a message that waits is in another's queue"
    elif message.incarnation != span.incarnation or message.link_seq != place - span.base:
        yield "a message that waits is in another's place"


def library_version() -> str:
    """Return SQLite's version."""
    return sqlite3.sqlite_version
