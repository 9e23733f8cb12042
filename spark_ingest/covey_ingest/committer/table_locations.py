"""Where tables are: in a folder of this machine, or below a prefix of an object store. Both have the same interface.

1. An object is named like its file, `readings/batch=N/<name>.parquet`. A name is never used twice, and a file never
   changes once it is there.
2. `covey.json` at the location identifies the tables (`tables_log`).
3. No store is believed: what was stored is read back, from the disk where the kernel lets go of its copy, and compared
   by size and digest, before anything relies on it. What does not compare is an error, and the run that begins next
   does it again. An entry of a log that a store has torn is removed then, unless it is the reading that lies.
4. Stored objects are durable. In a folder the Delta library links a log entry without syncing it; `settle` does that,
   and `mend` removes an entry that a power cut has torn: its readings are read again from the vault.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from covey.adapters.files import drop_cached, replace_durably, storage_errors, synchronise
from covey.adapters.objects.cloud import CloudStore, open_cloud_store
from covey.adapters.objects.folder import DirectoryStore
from covey.adapters.objects.location import READER_PATIENCE
from covey.errors import LimitError, StorageError
from covey.limits.tables import MAXIMUM_LOG_ENTRY_BYTES
from covey_ingest.committer.committed import batch_folder, folder_numbers
from covey_ingest.committer.file_names import Content

if TYPE_CHECKING:
    from deltalake import DeltaTable

MARK = "covey.json"
"""The file that identifies the tables."""

NOTED = "deletions.json"
"""Says what was deleted (`deletions`)."""

RUN = "covey.run"
"""What an entry of ours begins with: the number of its run."""

CHANGES = "_change_data/"
"""Where the Delta library puts the files of a table's change feed, below the table."""

WRITER = "-writer"
"""Added to the name of the tables, for the number of a run: the last line of each entry of ours."""

VERSIONS_KEPT = 1024
"""Commits of a log in a folder, at least: half an hour of them at one each two seconds."""

FOLDERS_KEPT = 64
"""Of the newest micro-batches, empty or not."""

SCRATCH = ".writing-"
"""How folders of files on their way begin: no reader looks at what begins with a dot."""
_CHECKPOINT_BYTES = 65_536
_TRIES = 3
_LIBRARY = {"timeout": "60s", "connect_timeout": "10s", "max_retries": "3", "retry_timeout": "60s"}
"""How long the Delta library tries; callers try again later."""


class TableStore(Protocol):
    """Files and small documents of tables, by their keys. Whatever raises, raises `StorageError`."""

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return a document, or None where there is none."""

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store a document where it is still `before`, or still absent, and read it back (rule 3).

        `ConflictError` where it is something else.
        """

    def size(self, key: str) -> int | None:
        """Return a stored file's size in bytes, or None where it is not there."""

    def keys(self, prefix: str) -> Iterator[str]:
        """List the keys that begin with `prefix`, sorted."""

    def is_empty(self) -> bool:
        """Say whether nothing lies there."""

    def upload(self, key: str, file: Path) -> int:
        """Store a file durably, and read it back (rule 3); return when it came there, in milliseconds since 1970."""

    def download(self, key: str, file: Path) -> None:
        """Write a stored file to a file."""

    def reading(self, key: str) -> AbstractContextManager[Path]:
        """Lend a stored file, unchanged; raise FileNotFoundError where it is not there."""

    def put(self, key: str, content: bytes) -> None:
        """Store a document that may be lost: a power cut may leave some of it."""

    def restore(self, key: str, content: bytes) -> None:
        """Store a document durably in the place of whatever is there."""

    def discard(self, keys: list[str]) -> None:
        """Remove files, whichever of them are there."""

    def scratch(self) -> AbstractContextManager[Path]:
        """Lend a folder for files on their way."""


class FolderStore:
    """Implements `TableStore` in a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._documents = DirectoryStore(root)

    def get(self, key: str, maximum: int) -> bytes | None:
        return self._documents.get(key, maximum)

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store a document where it is still `before`, or still absent."""
        _replace_surely(self._documents, self._root, key, content, before)

    def size(self, key: str) -> int | None:
        """Return a stored file's size in bytes."""
        target = self._root / key
        with storage_errors("look at", target):
            return target.stat().st_size if target.exists() else None

    def keys(self, prefix: str) -> Iterator[str]:
        """List the keys of documents that begin with `prefix`, sorted."""
        return self._documents.keys(prefix)

    def is_empty(self) -> bool:
        """Say whether nothing lies there but what people may lay there first: `deletions.json` of other tables."""
        with storage_errors("list", self._root):
            return not self._root.is_dir() or all(
                path.name.startswith(".") or path.name == NOTED for path in self._root.iterdir()
            )

    def upload(self, key: str, file: Path) -> int:
        """Store a file durably: by a link where it lies on the same file system."""
        target, content = self._root / key, Content.of(file)
        with storage_errors("write", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(file)
            except OSError:
                partial = target.parent / f"{SCRATCH}{uuid4().hex}"
                shutil.copyfile(file, partial)
                partial.rename(target)
            for path in (target, target.parent, target.parent.parent):
                synchronise(path)
            drop_cached(target)
            if Content.of(target) != content:
                raise _not_as_written(self._root, key)
            return int(target.stat().st_mtime * 1000)

    def download(self, key: str, file: Path) -> None:
        with storage_errors("read", self._root / key):
            shutil.copyfile(self._root / key, file)

    @contextmanager
    def reading(self, key: str) -> Iterator[Path]:
        """Lend a stored file."""
        file = self._root / key
        if not file.exists():
            raise FileNotFoundError(file)
        with storage_errors("read", file):
            yield file

    def put(self, key: str, content: bytes) -> None:
        """Store a document that may be lost."""
        file = self._root / key
        with storage_errors("write", file):
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                file.write_bytes(content)
            except OSError:
                file.unlink(missing_ok=True)
                raise

    def restore(self, key: str, content: bytes) -> None:
        """Store a document durably."""
        file = self._root / key
        with storage_errors("write", file):
            file.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(file, content, 0o666)

    def discard(self, keys: list[str]) -> None:
        with storage_errors("remove", self._root):
            for key in keys:
                (self._root / key).unlink(missing_ok=True)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Lend a folder for files on their way, on the file system of the tables."""
        with storage_errors("make a folder in", self._root):
            folder = TemporaryDirectory(prefix=SCRATCH, dir=self._root, ignore_cleanup_errors=True)
        with folder as name:
            yield Path(name)


class BucketStore:
    """Implements `TableStore` in an object store."""

    def __init__(self, store: CloudStore) -> None:
        self._store = store
        self.get = store.get
        self.put = self.restore = store.put
        self.keys = store.keys
        self.size = store.size
        self.is_empty = store.is_empty
        self.download = store.download
        self.discard = store.discard

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store a document where it is still `before`, or still absent."""
        _replace_surely(self._store, self._store.url, key, content, before)

    def upload(self, key: str, file: Path) -> int:
        """Store a file."""
        self._store.upload(key, file)
        came_ms = time.time_ns() // 1_000_000
        if Content.of_parts(self._store.parts(key)) != Content.of(file):
            raise _not_as_written(self._store.url, key)
        return came_ms

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        with TemporaryDirectory(prefix="covey-tables-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    @contextmanager
    def reading(self, key: str) -> Iterator[Path]:
        """Lend a copy of a stored file."""
        with self.scratch() as folder:
            try:
                self._store.download(key, folder / "file")
            except StorageError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    raise FileNotFoundError(key) from error
                raise
            yield folder / "file"


def _replace_surely(
    documents: DirectoryStore | CloudStore, where: object, key: str, content: bytes, before: bytes | None
) -> None:
    """Replace a document and read it back; what a store has torn of it is replaced again, or nobody could begin."""
    documents.replace(key, content, before)
    for _ in range(_TRIES):
        try:
            found = documents.get(key, len(content))
        except LimitError:
            break
        if found == content:
            return
        if found is None or not content.startswith(found):
            break
        documents.replace(key, content, found)
    raise _not_as_written(where, key)


def _not_as_written(where: object, key: str) -> StorageError:
    return StorageError(
        f"{where} says that it has stored {key}, and returns something else",
        hint="check the disk or the store; nothing is lost: start again, and it is written again",
    )


class TableLocation(Protocol):
    """What a log has to know of where its tables lie."""

    @property
    def name(self) -> str:
        """The folder's path or the URL, without a slash in the end."""

    @property
    def store(self) -> TableStore:
        """What holds the files."""

    @property
    def options(self) -> dict[str, str] | None:
        """The Delta library's options for this location; no credentials."""

    def uri(self, table: str) -> str:
        """Return the name of a table for the Delta library."""

    def settle(self, delta: DeltaTable, table: str) -> None:
        """Make the newest entry of a log durable (rule 4)."""

    def mend(self, table: str) -> bool:
        """Remove what a power cut has torn in a log (rule 4); say whether there was anything."""

    def check_checkpoint(self, table: str, version: int, files: int) -> None:
        """Remove a checkpoint that does not name so many files, and raise `StorageError` (rule 3)."""

    def logged(self, table: str) -> list[str]:
        """Return the keys of the files in a log: of all, or of those that `_last_checkpoint` names and what follows."""

    def tidy(self, table: str) -> None:
        """Remove all empty folders that earlier runs have left of a table."""

    def remove_empty(self, table: str, gone: list[str], newest: int) -> None:
        """Remove the folders of files that were deleted, where nothing else is in them; not of the newest batches."""

    def older(self, table: str, hours: int) -> set[str]:
        """Return the paths of all files below a table that came so long ago: lists all of the table."""

    def drop_changes(self, table: str, kept_hours: int) -> None:
        """Remove what the change feed tells of longer ago: it holds deleted rows, and no vacuum looks at it."""

    def trim(self, delta: DeltaTable, table: str) -> None:
        """Remove old commits of a table's log."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of this machine, or of a file system that all machines of a cluster mount at this path."""

    root: Path
    store: TableStore
    options: dict[str, str] | None = None

    @property
    def name(self) -> str:
        """Return the path."""
        return str(self.root)

    def uri(self, table: str) -> str:
        """Return the table's path."""
        return str(self.root / table)

    def settle(self, delta: DeltaTable, table: str) -> None:
        """Sync the newest entry, and the checkpoint if it was made for it; the entry is read from the disk next."""
        log = self._log(table)
        newest = f"{delta.version():020}"
        for file in (*log.glob(f"{newest}.*"), log / "_last_checkpoint"):
            if file.exists():
                synchronise(file)
        for folder in (log, log.parent, self.root) if delta.version() == 0 else (log,):
            synchronise(folder)
        drop_cached(log / f"{newest}.json")

    def mend(self, table: str) -> bool:
        """Remove the newest entry or checkpoint where it is torn."""
        log = self._log(table)
        entries = sorted(log.glob("[0-9]*.json"))
        for newest in entries[-1:]:  # of a run that ended as its disk failed: not what the kernel has of it counts
            synchronise(newest)
            drop_cached(newest)
        torn = False
        while entries and not _is_whole(entries[-1].read_bytes()):
            entries.pop().unlink()
            torn = True
        for checkpoint in sorted(log.glob("*.checkpoint.parquet"))[-1:]:
            try:
                pq.read_metadata(checkpoint)
            except (OSError, pa.ArrowInvalid):
                checkpoint.unlink()
                (log / "_last_checkpoint").unlink(missing_ok=True)
                torn = True
        return torn

    def logged(self, table: str) -> list[str]:
        """Return the keys of the files in a log."""
        return [*self.store.keys(f"{table}/_delta_log/")]

    def check_checkpoint(self, table: str, version: int, files: int) -> None:
        """Remove a checkpoint that does not name so many files, and raise."""
        _check_checkpoint(self.store, table, version, files)

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

    def older(self, table: str, hours: int) -> set[str]:
        """Return the paths of all files below a table that came so long ago."""
        until, root = time.time() - 3600 * hours, self.root / table
        files = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
        return {str(file.relative_to(root)) for file in files if file.stat().st_mtime <= until}

    def drop_changes(self, table: str, kept_hours: int) -> None:
        """Remove files of the change feed that are older."""
        until = time.time() - 3600 * kept_hours
        for file in (self.root / table / CHANGES).glob("*.parquet"):
            if file.stat().st_mtime <= until:
                file.unlink()

    def trim(self, delta: DeltaTable, table: str) -> None:  # noqa: ARG002 - the log's folder says it
        """Remove commits before a checkpoint that has `VERSIONS_KEPT` behind it."""
        log = self._log(table)
        versions = {file: int(file.name[:20]) for file in log.glob("[0-9]*") if file.name[:20].isdecimal()}
        newest = max(versions.values(), default=0)
        checkpoints = [version for file, version in versions.items() if ".checkpoint." in file.name]
        oldest = max((version for version in checkpoints if version <= newest - VERSIONS_KEPT), default=0)
        for file, version in versions.items():
            if version < oldest:
                file.unlink()

    def _log(self, table: str) -> Path:
        return self.root / table / "_delta_log"

    def _remove_if_empty(self, folder: Path) -> None:
        if folder.is_dir() and not any(folder.glob("*.parquet")):
            shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A prefix in an object store."""

    cloud: CloudStore
    store: TableStore
    options: dict[str, str] | None = field(default_factory=_LIBRARY.copy)

    @property
    def name(self) -> str:
        """Return the URL, without a slash in the end."""
        return self.cloud.url

    def uri(self, table: str) -> str:
        """Return the table's URL."""
        return f"{self.name}/{table}"

    def settle(self, delta: DeltaTable, table: str) -> None:
        """Do nothing: the store has said that it is there."""

    def mend(self, table: str) -> bool:
        """Remove the newest entry where the store has torn it, though an object is said to be whole or not there."""
        log, torn = f"{table}/_delta_log/", False
        while (entry := self._newest_entry(log)) is not None:
            content = self.store.get(entry, MAXIMUM_LOG_ENTRY_BYTES)
            if content is None or _is_whole(content):
                break
            if self.store.size(entry) != len(content):
                raise _not_as_written(self.name, entry)
            self.store.discard([entry])
            if self.store.size(entry) is not None:
                raise _not_as_written(self.name, entry)
            torn = True
        return torn

    def _newest_entry(self, log: str) -> str | None:
        entries = [key for key in self.cloud.keys_after(log, self._newest_checkpoint(log)) if key.endswith(".json")]
        return entries[-1] if entries else None

    def _newest_checkpoint(self, log: str) -> str:
        """Return what sorts before all that readers need, as `_last_checkpoint` says."""
        found = self.store.get(f"{log}_last_checkpoint", _CHECKPOINT_BYTES)
        try:
            version = int(json.loads(found)["version"]) if found else -1
        except (ValueError, KeyError, TypeError):
            version = -1
        return f"{log}{version:020}" if version >= 0 else log

    def logged(self, table: str) -> list[str]:
        """Return the keys of a log's files from its newest checkpoint on."""
        log = f"{table}/_delta_log/"
        return self.cloud.keys_after(log, self._newest_checkpoint(log))

    def check_checkpoint(self, table: str, version: int, files: int) -> None:
        """Remove a checkpoint that does not name so many files, and raise."""
        _check_checkpoint(self.store, table, version, files)

    def tidy(self, table: str) -> None:
        """Do nothing: there are no folders."""

    def remove_empty(self, table: str, gone: list[str], newest: int) -> None:
        """Do nothing: there are no folders."""

    def older(self, table: str, hours: int) -> set[str]:
        """Return the paths of all objects below a table that came so long ago."""
        before = datetime.now(UTC) - timedelta(hours=hours)
        return {key.removeprefix(f"{table}/") for key in self.cloud.keys_before(f"{table}/", before)}

    def drop_changes(self, table: str, kept_hours: int) -> None:
        """Remove objects of the change feed that are older."""
        before = datetime.now(UTC) - timedelta(hours=kept_hours)
        for key in self.cloud.keys_before(f"{table}/{CHANGES}", before):
            self.cloud.delete(key)

    def trim(self, delta: DeltaTable, table: str) -> None:  # noqa: ARG002 - it knows its place
        """Have the library delete commits that it no longer keeps."""
        delta.cleanup_metadata()


def location_at(name: str) -> TableLocation:
    """Return the location that a path or a URL names, `s3://bucket/prefix`.

    Raises:
        ConfigurationError: no such kind of store, or its library is not installed.
    """
    if "://" not in name:
        root = Path(name).absolute()
        return Folder(root, FolderStore(root))
    cloud = open_cloud_store(name.rstrip("/"), READER_PATIENCE)
    return Bucket(cloud, BucketStore(cloud))


@cache
def open_location(name: str) -> TableLocation:
    """Return the same for a task, which is asked again and again."""
    return location_at(name)


def open_table(location: TableLocation, table: str) -> DeltaTable | None:
    """Return the table as its log has it, or None where there is none.

    Not by `is_deltatable`: that lets no other thread run while a store does not answer.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(location.uri(table), storage_options=location.options)
    except TableNotFoundError:
        return None


def _check_checkpoint(store: TableStore, table: str, version: int, files: int) -> None:
    """Remove a checkpoint that does not name so many files, and raise."""
    log = f"{table}/_delta_log"
    key = f"{log}/{version:020}.checkpoint.parquet"
    named = -1
    with (
        suppress(FileNotFoundError, OSError, pa.ArrowException),
        store.reading(key) as file,
        pq.ParquetFile(file) as read,
    ):
        named = len(pc.struct_field(read.read(columns=["add.path"])["add"], "path").drop_null())
    if named != files:
        store.discard([f"{log}/_last_checkpoint", key])
        raise _not_as_written(table, key)


def _is_whole(entry: bytes) -> bool:
    """Say whether each line of a log's entry is there. One of ours says so first, and ends with the number of its run.

    An entry that another program has written is whole if its lines are: nobody knows how it ends.
    """
    try:
        lines = [json.loads(line) for line in entry.splitlines()]
    except ValueError:
        return False
    is_ours = any(RUN in line.get("commitInfo", {}) for line in lines)
    return bool(lines) and (not is_ours or lines[-1].get("txn", {}).get("appId", "").endswith(WRITER))
