"""Find damaged files of tables: by the digests in their names (`file_names`), or by those of their copies (`copies`).

1. Files that the Delta library wrote itself (files that lost deleted rows or got better times, and those of the change
   feed) have no digest in their names, and have a copy without a content instead, with the digest.
2. A file that goes meanwhile was replaced: the log is read again before it counts as missing.
3. Logs are restored from their copies. Of a table that is replaced whole, the engine writes the newest rows again.
   Rows of other tables come from the vault: the tables are made again, in another folder.
4. Every half minute an engine looks at the logs of tables in a folder, as far as readers need them, at the newest
   rows, and at some more, the next in turn. Object stores have checksums of their own, and charge for what is read: of
   these it reads one file of a log. At its start it looks at the logs of both.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from covey.adapters.objects.cloud import brief
from covey.errors import StorageError
from covey.limits.tables import TABLES_LOOK_BYTES, TABLES_LOOK_S
from covey_ingest.committer.copies import NOT_AS_WRITTEN, Copies, TableFile, is_unreadable
from covey_ingest.committer.delta_files import sizes_of
from covey_ingest.committer.file_names import digest_of, named_digest
from covey_ingest.committer.table_locations import CHANGES, Folder, TableLocation, open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from covey_ingest.committer.delta_log import DeltaLog


def verified(location: TableLocation, names: Iterable[str], *, restores: bool = False) -> Iterator[TableFile]:
    """Read all files of tables that are there, and yield each with what is wrong with it; logs may be restored.

    Raises:
        StorageError: the location refused, or was not reached.
    """
    copies = Copies(location)
    yield from copies.documents(restores=restores)
    for name in names:
        try:
            yield from copies.rest(name, restores=restores)
            table = open_table(location, name)
        except (DeltaError, OSError, ValueError) as error:
            yield TableFile(name, "_delta_log", 0, has_digest=False, problem=f"it cannot be read: {brief(error)}")
            continue
        if table is not None:
            noted = _noted(copies, name)
            for path, size in sorted(sizes_of(table).items()):
                found = _verified_file(location, name, path, size, noted)
                if not found.problem or _is_listed(table, path):
                    yield found
            yield from _changes(location, name, noted)


def _noted(copies: Copies, name: str) -> dict[str, str]:
    """Return the digests of files whose names say none, by their paths (rule 1)."""
    found = copies.digests(f"{name}/").items()
    return {key.removeprefix(f"{name}/"): digests[-1] for key, digests in found if "/_delta_log/" not in key}


def _changes(location: TableLocation, name: str, noted: dict[str, str]) -> Iterator[TableFile]:
    """Yield the files of the change feed, which no list of a table's files has."""
    for path in sorted(noted):
        size = location.store.size(f"{name}/{path}") if path.startswith(CHANGES) else None
        if size is not None:
            yield _verified_file(location, name, path, size, noted)


class Rounds:
    """Looks at the files of tables again and again (rule 4)."""

    def __init__(self, location: TableLocation, log: DeltaLog, names: Iterable[str]) -> None:
        self._location = location
        self._log = log
        self._names = [*names]
        self._rest: Iterator[TableFile] = iter(())
        self._due_bytes = 0
        self._read_at = time.monotonic()

    def damaged(self) -> list[TableFile]:
        """Look, if it is time for that; return what is damaged, or was, and is restored.

        Raises:
            StorageError: the location refused.
        """
        if time.monotonic() - self._read_at < TABLES_LOOK_S:
            return []
        self._read_at = time.monotonic()
        found: list[TableFile] = []
        if isinstance(self._location, Folder):
            found += self._log.copies.documents(restores=True)
            found += [each for name in self._names for each in self._log.copies.log(name, restores=True)]
            found += [each for name in self._names for each in self._newest(name)]
        self._due_bytes = min(self._due_bytes + TABLES_LOOK_BYTES, TABLES_LOOK_BYTES)
        while self._due_bytes > 0 and (each := self._next()) is not None:
            found.append(each)
            self._due_bytes -= each.size if isinstance(self._location, Folder) else TABLES_LOOK_BYTES
        return [*dict.fromkeys(each for each in found if each.problem)]

    def _newest(self, name: str) -> Iterator[TableFile]:
        noted = _noted(self._log.copies, name)
        for path, size in self._log.newest(name, TABLES_LOOK_BYTES // len(self._names)).items():
            yield _verified_file(self._location, name, path, size, noted)

    def _next(self) -> TableFile | None:
        """Return the next file in turn; None at the end of a round."""
        found = next(self._rest, None)
        if found is None:
            self._rest = self._round()
        return found

    def _round(self) -> Iterator[TableFile]:
        if isinstance(self._location, Folder):
            yield from verified(self._location, self._names, restores=True)
            return
        for name in self._names:
            yield from self._log.copies.rest(name, restores=True)


def _verified_file(location: TableLocation, table: str, path: str, size: int, noted: dict[str, str]) -> TableFile:
    path = unquote(path)
    digest = named_digest(path) or noted.get(path)
    try:
        with location.store.reading(f"{table}/{path}") as file:
            problem = _problem(file, size, digest)
    except FileNotFoundError:
        problem = "it is missing"
    except StorageError as error:
        if not is_unreadable(error):
            raise
        problem = "the disk cannot read it"
    return TableFile(table, path, size, digest is not None, problem)


def _problem(file: Path, size: int, digest: str | None) -> str:
    there = file.stat().st_size
    if there != size:
        return f"it has {there} B instead of {size} B"
    if digest is not None:
        return "" if digest_of(file) == digest else NOT_AS_WRITTEN
    try:
        with pq.ParquetFile(file) as content:
            for _ in content.iter_batches():
                pass
    except (OSError, pa.ArrowException) as error:
        return f"it cannot be read: {error}"
    return ""


def _is_listed(table: DeltaTable, path: str) -> bool:
    table.update_incremental()
    return path in sizes_of(table)
