"""Where Delta tables lie: with the files of the working tables, or in an object store that gets copies of them.

1. An object is named like its file, `readings/batch=N/part-….parquet`. A file never changes once its micro-batch is
   committed; so what is put again, after any kill, is the same.
2. An object store's prefix belongs to one ingest for good: `covey.json` there names it. It is put by a conditional put,
   and into an empty prefix only.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from covey.adapters.files import synchronise
from covey.adapters.objects.cloud import CloudStore, open_cloud_store
from covey.adapters.objects.location import READER_PATIENCE
from covey.errors import ConfigurationError, ConflictError
from covey_ingest.committed import batch_folder, folder_numbers

if TYPE_CHECKING:
    from deltalake import DeltaTable

MARK = "covey.json"
"""Says whose tables lie beside it, here and in an object store."""

VERSIONS_KEPT = 1024
"""Commits of a log in a folder, at least: half an hour of them at one each two seconds."""

FOLDERS_KEPT = 64
"""Of the newest micro-batches, empty or not: a replay asks for the last one's."""

_MARK_BYTES = 4096
_LIBRARY = {"timeout": "60s", "connect_timeout": "10s", "max_retries": "3", "retry_timeout": "60s"}
"""How long the Delta library tries; whoever waits for it tries again later."""


class TableLocation(Protocol):
    """What a log has to know of where its tables lie."""

    @property
    def options(self) -> dict[str, str] | None:
        """The Delta library's options for this location; no credentials."""

    def uri(self, table: str) -> str:
        """Return the name of a table for the Delta library."""

    def bring(self, file: Path, key: str) -> int:
        """See to it that the file lies there under the key; return when it came there, in milliseconds since 1970."""

    def place(self, file: Path, key: str) -> int:
        """Move a finished file there; return as `bring` does."""

    def tidy(self, table: str) -> None:
        """Remove all empty folders that earlier runs have left of a table."""

    def remove_empty(self, table: str, gone: list[str], newest: int) -> None:
        """Remove the folders of files that were deleted, where nothing else is in them; not of the newest batches."""

    def drop_changes(self, table: str, kept_hours: int) -> None:
        """Remove what the change feed tells of longer ago: deleted rows stand in there, and no vacuum looks at it."""

    def trim(self, delta: DeltaTable, table: str) -> None:
        """Remove old commits of a table's log."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of the working tables: their files are there already."""

    root: Path
    options: None = None

    def uri(self, table: str) -> str:
        """Return the table's path."""
        return str(self.root / table)

    def bring(self, file: Path, key: str) -> int:  # noqa: ARG002 - it is there
        """Do nothing."""
        return int(file.stat().st_mtime * 1000)

    def place(self, file: Path, key: str) -> int:
        """Rename the file."""
        target = file.rename(self.root / key)
        synchronise(target.parent)
        return int(target.stat().st_mtime * 1000)

    def tidy(self, table: str) -> None:
        """Remove empty folders of micro-batches but for the newest ones. Lists them all."""
        folders = folder_numbers(self.root / table)
        for number in folders:
            if number <= max(folders) - FOLDERS_KEPT:
                self._remove_if_empty(batch_folder(self.root, table, number))

    def remove_empty(self, table: str, gone: list[str], newest: int) -> None:
        """Remove the folders of files that were deleted, but for the newest micro-batches'."""
        for folder in {(self.root / table / file).parent for file in gone}:
            name, _, number = folder.name.partition("=")
            if name == "batch" and int(number) <= newest - FOLDERS_KEPT:
                self._remove_if_empty(folder)

    def drop_changes(self, table: str, kept_hours: int) -> None:
        """Remove files of the change feed that are older."""
        until = time.time() - 3600 * kept_hours
        for file in (self.root / table / "_change_data").glob("*.parquet"):
            if file.stat().st_mtime <= until:
                file.unlink()

    def trim(self, delta: DeltaTable, table: str) -> None:  # noqa: ARG002 - the log's folder says it
        """Remove commits before a checkpoint that has `VERSIONS_KEPT` behind it."""
        log = self.root / table / "_delta_log"
        versions = {file: int(file.name[:20]) for file in log.glob("[0-9]*") if file.name[:20].isdecimal()}
        newest = max(versions.values(), default=0)
        checkpoints = [version for file, version in versions.items() if ".checkpoint." in file.name]
        oldest = max((version for version in checkpoints if version <= newest - VERSIONS_KEPT), default=0)
        for file, version in versions.items():
            if version < oldest:
                file.unlink()

    def _remove_if_empty(self, folder: Path) -> None:
        if folder.is_dir() and not any(folder.glob("*.parquet")):
            shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A prefix in an object store."""

    store: CloudStore
    options: dict[str, str] = field(default_factory=_LIBRARY.copy)

    @classmethod
    def at(cls, url: str) -> Bucket:
        """Return the location that a URL names: `s3://bucket/prefix`.

        Raises:
            ConfigurationError: it names none, or the library is not installed.
        """
        return cls(open_cloud_store(url.rstrip("/"), READER_PATIENCE))

    @property
    def url(self) -> str:
        """Return the URL, without a slash in the end."""
        return self.store.url

    def uri(self, table: str) -> str:
        """Return the table's URL."""
        return f"{self.url}/{table}"

    def bring(self, file: Path, key: str) -> int:
        """Upload the file (rule 1).

        Raises:
            StorageError: the store refused, or was not reached.
        """
        self.store.upload(key, file)
        return time.time_ns() // 1_000_000

    def place(self, file: Path, key: str) -> int:
        """Upload the file (rule 1).

        Raises:
            StorageError: the store refused, or was not reached.
        """
        return self.bring(file, key)

    def tidy(self, table: str) -> None:
        """Do nothing: there are no folders."""

    def remove_empty(self, table: str, gone: list[str], newest: int) -> None:
        """Do nothing: there are no folders."""

    def drop_changes(self, table: str, kept_hours: int) -> None:
        """Remove objects of the change feed that are older.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        before = datetime.now(UTC) - timedelta(hours=kept_hours)
        for key in self.store.keys_before(f"{table}/_change_data/", before):
            self.store.delete(key)

    def trim(self, delta: DeltaTable, table: str) -> None:  # noqa: ARG002 - it knows its place
        """Have the library delete commits that it no longer keeps."""
        delta.cleanup_metadata()

    def claim(self, ingest: str, vault_id: str) -> None:
        """Make the prefix this ingest's, unless it is already (rule 2).

        Raises:
            ConfigurationError: it is another's, or holds something else.
            StorageError: the store refused, or was not reached.
        """
        mine = json.dumps({"ingest": ingest, "vault_id": vault_id}).encode()
        found = self.store.get(MARK, _MARK_BYTES)
        if found is None:
            if not self.store.is_empty():
                raise ConfigurationError(f"{self.url} is not empty", hint="give the tables a prefix of their own")
            with suppress(ConflictError):
                self.store.replace(MARK, mine, None)
            found = self.store.get(MARK, _MARK_BYTES)
        if found != mine:
            raise ConfigurationError(
                f"the tables at {self.url} are those of another ingest", hint="give this one a prefix of its own"
            )

    def is_claimed(self) -> bool:
        """Say whether an ingest has ever published here.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        return self.store.get(MARK, _MARK_BYTES) is not None


def open_table(uri: str, options: dict[str, str] | None = None) -> DeltaTable | None:
    """Return the table as its log has it, or None where there is none.

    Not by `is_deltatable`: that lets no other thread run while a store does not answer.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(uri, storage_options=options)
    except TableNotFoundError:
        return None
