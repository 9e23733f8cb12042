"""Find damaged files of tables, by the digests in their names (`file_names`).

1. Files that the Delta library wrote itself (files that lost deleted rows or got better times) have no digest until
   they are merged. Of these, the size is compared, and whether they can be read.
2. A file that goes meanwhile was replaced: the log is read again before it counts as missing.
3. Tables are not repaired. Everything in them comes from the vault: they are made again, in another folder.
4. An engine reads a file each minute, the next in turn, of tables in a folder. Object stores have checksums of their
   own, and charge for what is read.
5. An entry of a log is attested by the one after it (rule 8 of `delta_log`); of the last one alone, it is checked
   whether it can be read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from covey.adapters.objects.cloud import brief
from covey_ingest.committer.delta_files import sizes_of
from covey_ingest.committer.file_names import digest_of, named_digest
from covey_ingest.committer.table_locations import PREVIOUS, Folder, TableLocation, open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

REBUILD_HINT = "run 'covey tables run' into a new folder, which makes all tables again from the vault"

ROUNDS_SECONDS = 60.0
_NOT_AS_WRITTEN = "its content is not what was written"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table, and what is wrong with it, if anything."""

    table: str
    path: str
    """Within the table."""
    size: int
    has_digest: bool
    problem: str = ""


def verified(location: TableLocation, names: Iterable[str]) -> Iterator[TableFile]:
    """Read all files of tables that are there, and yield each with what is wrong with it.

    Raises:
        StorageError: the location refused, or was not reached.
    """
    for name in names:
        try:
            yield from _damaged_entries(location, name)
            table = open_table(location, name)
        except (DeltaError, OSError, ValueError) as error:
            yield TableFile(name, "_delta_log", 0, has_digest=False, problem=f"it cannot be read: {brief(error)}")
            continue
        if table is not None:
            for path, size in sorted(sizes_of(table).items()):
                found = _verified_file(location, name, path, size)
                if not found.problem or _is_listed(table, path):
                    yield found


def _damaged_entries(location: TableLocation, name: str) -> Iterator[TableFile]:
    """Yield entries of a log in a folder that are not what the entry after them says (rule 5)."""
    folder = Path(location.uri(name), "_delta_log")
    if not isinstance(location, Folder) or not folder.is_dir():
        return
    entries = sorted(folder.glob("[0-9]*.json"))
    damaged = {entry for entry in entries if not _is_json(entry)}
    for entry in {*entries} - damaged:
        version, _, digest = _said_of_previous(entry).partition(":")
        before = folder / f"{int(version or -1):020}.json"
        if before in entries and digest_of(before) != digest:
            damaged.add(before)
    for entry in sorted(damaged):
        if entry.exists():
            yield TableFile(
                name, f"_delta_log/{entry.name}", entry.stat().st_size, has_digest=True, problem=_NOT_AS_WRITTEN
            )


def _is_json(entry: Path) -> bool:
    try:
        return all(isinstance(json.loads(line), dict) for line in entry.read_bytes().splitlines())
    except (ValueError, FileNotFoundError):
        return False


def _said_of_previous(entry: Path) -> str:
    for line in entry.read_bytes().splitlines():
        said = json.loads(line).get("commitInfo", {}).get(PREVIOUS)
        if said is not None:
            return str(said)
    return ""


class Rounds:
    """Reads the files of tables one after the other, forever (rule 4)."""

    def __init__(self, location: TableLocation, names: Iterable[str]) -> None:
        self._location = location
        self._names = [*names] if isinstance(location, Folder) else []
        self._rest: Iterator[TableFile] = iter(())
        self._read_at = time.monotonic()

    def damaged(self) -> TableFile | None:
        """Read the next file, if it is time for that; return it if it is damaged.

        Raises:
            StorageError: the location refused.
        """
        if time.monotonic() - self._read_at < ROUNDS_SECONDS:
            return None
        self._read_at = time.monotonic()
        found = next(self._rest, None)
        if found is None:
            self._rest = verified(self._location, self._names)
            found = next(self._rest, None)
        return found if found is not None and found.problem else None


def _verified_file(location: TableLocation, table: str, path: str, size: int) -> TableFile:
    path = unquote(path)
    digest = named_digest(path)
    try:
        with location.store.reading(f"{table}/{path}") as file:
            problem = _problem(file, size, digest)
    except FileNotFoundError:
        problem = "it is missing"
    return TableFile(table, path, size, digest is not None, problem)


def _problem(file: Path, size: int, digest: str | None) -> str:
    there = file.stat().st_size
    if there != size:
        return f"it has {there} B instead of {size} B"
    if digest is not None:
        return "" if digest_of(file) == digest else _NOT_AS_WRITTEN
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
