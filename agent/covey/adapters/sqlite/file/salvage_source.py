"""Reading a damaged database as far as it goes.

Where SQLite cannot open it (its first page or its schema is damaged, or it is shorter than it says) a copy is read
instead, filled up with zeros, with the schema's pages of a new database in the place of its own: the same scripts put
the same tables at the same pages. Whether a row is what was written, its own digest or signature says.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from covey.adapters.files import remove_durably
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.file.inspection import UNREADABLE, read_only
from covey.adapters.sqlite.store import PAGE_BYTES, SqliteStore
from covey.core.ids import KEY_BYTES, Incarnation
from covey.errors import CoveyError, StorageError

Row = dict[str, Any]

_FAILURES = 20_000
"""How often reading may fail in one table before the rest of it is given up."""

_INTERIOR = 0x05
_PAGE_COUNT = slice(28, 32)
_FIRST_HEADER = 100


class Source:
    """A damaged database, read as far as it can be."""

    def __init__(self, path: Path) -> None:
        self._failures = 0
        self._copy = path.with_name(f"{path.name}.copy")
        self._database: sqlite3.Connection | None = None
        attempts: tuple[Callable[[], sqlite3.Connection], ...] = (
            lambda: read_only(path),
            lambda: read_only(path, immutable=True),  # a damaged log may spoil a file that is sound
            lambda: _patched(path, self._copy),
        )
        for attempt in attempts:
            with suppress(*UNREADABLE, OSError, CoveyError):
                database = attempt()
                database.row_factory = sqlite3.Row
                if _answers(database):
                    self._database = database
                    return

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()
        with suppress(StorageError):
            remove_durably(self._copy)

    def rows(self, table: str, keys: tuple[str, ...], seen: Callable[[], list[tuple[int, int]]]) -> Iterator[Row]:
        """Yield a table's rows, some perhaps twice; raise sqlite3.DatabaseError at the end if some were unreadable.

        `keys` order it. Where that is one number, what lies between unreadable places is sought; `seen` gives, after a
        first pass, (lowest, highest) of where to seek.
        """
        if self._database is None:
            raise sqlite3.DatabaseError("nothing in the file can be read")
        failure: sqlite3.Error | UnicodeDecodeError | None = None
        for direction in ("ASC", "DESC"):
            by = ", ".join(f"{key} {direction}" for key in keys)
            try:
                yield from self._select(f"SELECT * FROM {table} ORDER BY {by}")  # noqa: S608 - our names
            except UNREADABLE as error:
                failure = error
            else:
                return
        self._failures = 0
        for lowest, highest in seen():
            query = f"SELECT * FROM {table} WHERE {keys[0]} BETWEEN ? AND ? ORDER BY {keys[0]}"  # noqa: S608
            yield from self._between(query, lowest, highest)
        if failure is not None:
            raise failure

    def _between(self, query: str, first: int, last: int) -> Iterator[Row]:
        if first > last or self._failures > _FAILURES:
            return
        try:
            yield from self._select(query, (first, last))
        except UNREADABLE:
            self._failures += 1
            if first < last:
                middle = (first + last) // 2
                yield from self._between(query, first, middle)
                yield from self._between(query, middle + 1, last)

    def _select(self, query: str, parameters: tuple[Any, ...] = ()) -> Iterator[Row]:
        assert self._database is not None
        for row in self._database.execute(query, parameters):
            yield dict(row)


def _answers(database: sqlite3.Connection) -> bool:
    for table in ("device", "peer", "received", "group_manifest"):
        with suppress(*UNREADABLE):
            database.execute(f"SELECT * FROM {table}").fetchone()  # noqa: S608 - our names
            return True
    return False


def _patched(path: Path, copy: Path) -> sqlite3.Connection:
    template = copy.with_name(f"{copy.name}-template")
    with closing(SqliteStore(template, Incarnation(bytes(8)), StorageKey(bytes(KEY_BYTES)))):
        pass
    schema = _schema_pages(template.read_bytes())
    for suffix in ("", "-wal", "-shm"):
        remove_durably(template.with_name(template.name + suffix))
    shutil.copyfile(path, copy)
    copy.chmod(0o600)
    with copy.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        said = int.from_bytes(file.read(_FIRST_HEADER)[_PAGE_COUNT])
        pages = max(size // PAGE_BYTES + 1, *schema)
        if pages < said < 2 * pages + 1_000:  # it was cut off: what is missing reads as zeros
            pages = said
        file.truncate(pages * PAGE_BYTES)
        first = bytearray(schema[1])
        first[_PAGE_COUNT] = pages.to_bytes(4)
        for number, content in {**schema, 1: bytes(first)}.items():
            file.seek((number - 1) * PAGE_BYTES)
            file.write(content)
    return read_only(copy, immutable=True)


def _schema_pages(database: bytes) -> dict[int, bytes]:
    """Return the pages of a database's own table of tables (https://www.sqlite.org/fileformat2.html#b_tree_pages)."""

    def page(number: int) -> bytes:
        return database[(number - 1) * PAGE_BYTES : number * PAGE_BYTES]

    first = page(1)
    found = {1: first}
    if first[_FIRST_HEADER] == _INTERIOR:
        cells = int.from_bytes(first[_FIRST_HEADER + 3 : _FIRST_HEADER + 5])
        children = [int.from_bytes(first[_FIRST_HEADER + 8 : _FIRST_HEADER + 12])]
        for index in range(cells):
            pointer = _FIRST_HEADER + 12 + 2 * index
            cell = int.from_bytes(first[pointer : pointer + 2])
            children.append(int.from_bytes(first[cell : cell + 4]))
        found |= {number: page(number) for number in children}
    return found
