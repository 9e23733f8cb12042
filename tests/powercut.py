"""A disk that remembers: every write, truncation, removal and sync of a database, as SQLite's own calls made them.

The same process reads what it wrote, as a page cache would give it. A power cut may keep all writes before the last
sync of their file, any subset of the later ones, and of each of those any of its sectors. `states_at` gives such files.
The recorder is a VFS of apsw, through which the production store writes (`recorded`); what a cut leaves is opened with
the standard library's sqlite3.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

_SECTOR = 512
HIGH_WATER = "state.sqlite-high-water"
"""Beside the database that is recorded."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes at an offset of a file, or (without bytes) a new length."""

    file: str
    offset: int
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Sync:
    """What was written to a file before this is durable; or before the event `upto`, where others wrote meanwhile."""

    file: str
    upto: int | None = None


@dataclass(slots=True)
class Recording:
    """What happened, in order; `marks` are the places where something was told to the outside."""

    events: list[Write | Sync] = field(default_factory=list)
    marks: list[tuple[int, object]] = field(default_factory=list)

    def mark(self, what: object) -> None:
        """Note that something was told to the outside now."""
        self.marks.append((len(self.events), what))

    def sync_folder(self, _folder: Path) -> None:
        """Note that the folder's names are durable now: what was removed stays so."""
        last = {event.file: event for event in self.events}
        self.events += [Sync(file) for file, event in last.items() if isinstance(event, Write) and not event.content]

    def states_at(self, cut: int, chance: random.Random) -> dict[str, bytes]:
        """Return files that a power cut before event number `cut` may leave."""
        last_sync = {
            event.file: place if event.upto is None else event.upto
            for place, event in enumerate(self.events[:cut])
            if isinstance(event, Sync)
        }
        files: dict[str, bytearray] = {}
        share = chance.choice((0.0, 0.5, 0.9, 1.0))
        for place, event in enumerate(self.events[:cut]):
            if isinstance(event, Sync):
                continue
            file = files.setdefault(event.file, bytearray())
            if place < last_sync.get(event.file, -1):
                _apply(file, event)
            elif chance.random() < share:
                _apply(file, event if chance.random() < 0.6 else _torn(event, chance))
        return {name: bytes(content) for name, content in files.items()}


def _apply(file: bytearray, event: Write) -> None:
    if event.content is None:
        if event.offset < len(file):
            del file[event.offset :]
        return
    end = event.offset + len(event.content)
    if len(file) < end:
        file.extend(bytes(end - len(file)))
    file[event.offset : end] = event.content


def _torn(event: Write, chance: random.Random) -> Write:
    """Return a write of which only the first sectors came."""
    if event.content is None or len(event.content) <= _SECTOR:
        return event
    return Write(event.file, event.offset, event.content[: chance.randrange(len(event.content) // _SECTOR) * _SECTOR])


class _File(apsw.VFSFile):
    def __init__(self, recording: Recording, name: Any, flags: Any) -> None:
        super().__init__("", name, flags)
        self._recording = recording
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "").name

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - SQLite's names
        self._recording.events.append(Write(self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._recording.events.append(Write(self._name, size, None))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._recording.events.append(Sync(self._name))
        super().xSync(flags)


class RecordingDisk(apsw.VFS):
    """The file system, recorded, for every database that is opened while it lives."""

    def __init__(self) -> None:
        self.recording = Recording()
        super().__init__("recording", base="")

    def xOpen(self, name: Any, flags: Any) -> _File:  # noqa: N802
        return _File(self.recording, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Remove a file: one that a power cut brings back is empty, as its length went first."""
        self.recording.events.append(Write(Path(filename).name, 0, None))
        super().xDelete(filename, syncdir)


class _Library:
    """As much of the module sqlite3 as the store uses, with connections of apsw."""

    def __init__(self, disk: RecordingDisk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    def connect(self, path: Path, **_options: object) -> _Connection:
        """Open a database on the recorded disk."""
        database = apsw.Connection(str(path), vfs="recording")
        database.execute("PRAGMA locking_mode = EXCLUSIVE")  # a log without shared memory, which apsw's files lack
        return _Connection(database)


class _Rows:
    """As much of `sqlite3.Cursor` as the store uses."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def fetchone(self) -> Any:
        """Return the next row."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        return list(self._rows)


class _Connection:
    """As much of `sqlite3.Connection` as the store uses."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database

    def execute(self, statement: str, parameters: Any = ()) -> _Rows:
        """Run a statement to its end."""
        return _Rows(list(self._database.execute(statement, tuple(parameters))))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement with each of some rows of parameters."""
        self._database.executemany(statement, rows)

    @property
    def total_changes(self) -> int:
        """How many rows have been changed."""
        return self._database.total_changes()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return bool(self._database.in_transaction)

    def close(self) -> None:
        """Close it."""
        self._database.close()


class _System:
    """The module os, as `HighWaterFile` writes by it: one file, which it never synchronises."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, descriptor: int, content: bytes, offset: int) -> int:
        """Write."""
        self._recording.events.append(Write(HIGH_WATER, offset, content))
        return os.pwrite(descriptor, content, offset)

    def ftruncate(self, descriptor: int, size: int) -> None:
        """Cut."""
        self._recording.events.append(Write(HIGH_WATER, size, None))
        os.ftruncate(descriptor, size)


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record what `SqliteStore` does to its disk."""
    disk = RecordingDisk()
    try:
        with (
            patch("covey.adapters.sqlite.store.sqlite3", _Library(disk)),
            patch("covey.adapters.sqlite.store.synchronise", disk.recording.sync_folder),
            patch("covey.adapters.sqlite.file.high_water_file.os", _System(disk.recording)),
        ):
            yield disk.recording
    finally:
        disk.unregister()
