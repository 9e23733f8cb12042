"""Copies of the small files that tables cannot do without, and digests of all files whose names say none: `copies/`.

    copies/<key>.<digest>   what the file `<key>` was like when it was written: its content; or nothing, where the file
                            is one of rows that the Delta library wrote, of which the digest is enough
    copies/tables/<key>…    the same of `covey.json` and `deletions.json`

Logs are JSON and Parquet without checksums: a flipped bit in one names other files or other ranges, and any reader
takes it for what was written. So `DeltaLog` looks at a log before it opens it, and `verifying` looks again and again.

1. A file is as it was written if its digest is that in the name of its copy. If it is not, and the copy is, the file is
   replaced by the copy in one step, so a reader gets one of the two.
2. A copy is written after its file was read back and compared, and is not synchronised: one that a power cut has torn
   is noticed by its name, and made again from its file (rule 1). So is one that is missing, if the file can be read.
   A torn file without a copy is what a killed run has left (`TableLocation.mend`).
3. An entry that is missing is written again. But if the newest is, the files that it adds must be there; and if more
   than one is missing in the end, somebody has brought the table back from a backup: their copies are removed.
4. `covey.json` and `deletions.json` change. The copy comes first, and goes last: until then there are two, and either
   is what was written. If neither is, the longer copy counts, and of equally long ones the greater: numbers of runs and
   lists of deletions only grow.
5. Readers need the newest checkpoint and what follows it. These files are looked at first and most often.
6. Copies go before the entries that they are of: one whose entry is gone would bring it back (rule 3).
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from covey.errors import ConflictError, StorageError
from covey.limits.tables import MAXIMUM_LOG_ENTRY_BYTES
from covey_ingest.committer.file_names import DIGEST_BYTES
from covey_ingest.committer.table_locations import MARK, NOTED, VERSIONS_KEPT

if TYPE_CHECKING:
    from covey_ingest.committer.table_locations import TableLocation

FOLDER = "copies"
RESTORE_HINT = "run 'covey tables run', which restores them from their copies"
NOT_AS_WRITTEN = "its content is not what was written"

_OF_ALL = "tables/"
_COPY = re.compile(rf"{FOLDER}/(?:{_OF_ALL})?(?P<key>.+)\.(?P<digest>[0-9a-f]{{{2 * DIGEST_BYTES}}})")
_OF_A_LOG = re.compile(r"(?P<version>\d{20})\.(json|checkpoint\.parquet)")
LAST_CHECKPOINT = "_last_checkpoint"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table, and what is wrong with it, if anything."""

    table: str
    path: str
    """Within the table."""
    size: int
    has_digest: bool
    problem: str = ""
    has_copy: bool = False
    """An engine restores it, unless it has."""
    restored: bool = False
    """It is again as it was written."""

    @property
    def key(self) -> str:
        """Its path within the tables."""
        return f"{self.table}/{self.path}" if self.table else self.path


@dataclass(frozen=True, slots=True)
class _OfLog:
    """What a log has."""

    keys: set[str]
    digests: dict[str, list[str]]
    """Of its files, by their keys."""
    newest: int
    """Its newest version."""


def digest(content: bytes) -> str:
    """Return the digest of a content, in hex."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def is_unreadable(error: StorageError) -> bool:
    """Say whether a disk has lost what was to be read."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EIO


class Copies:
    """The copies of one location."""

    def __init__(self, location: TableLocation) -> None:
        self._location = location
        self._store = location.store

    def keep(self, key: str, content: bytes) -> None:
        """Copy a file that was just read back. A disk that takes no copy does not stop the run: see rule 2."""
        with suppress(StorageError):
            self._store.put(_named(key, digest(content)), content)

    def note(self, key: str, its_digest: str) -> None:
        """Note the digest of a file of rows."""
        with suppress(StorageError):
            self._store.put(_named(key, its_digest), b"")

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Replace a document as `TableStore.replace` does, with its copy (rule 4)."""
        self.keep(key, content)
        try:
            self._store.replace(key, content, before)
        except ConflictError:
            there = self._store.get(key, MAXIMUM_LOG_ENTRY_BYTES)
            if there != content:
                self._store.discard([_named(key, digest(content))])
            if there != content or before is not None:  # else another run has written it from the copy
                raise
        self._drop_others(key, digest(content))

    def digests(self, below: str) -> dict[str, list[str]]:
        """Return which digests files have, by their keys, of those below a key.

        Raises:
            StorageError: the store refused.
        """
        found: dict[str, list[str]] = {}
        for copy in self._store.keys(_folder_of(below)):
            if parts := _COPY.fullmatch(copy):
                found.setdefault(parts["key"], []).append(parts["digest"])
        return found

    def documents(self, *, restores: bool, keys: Sequence[str] = (MARK, NOTED)) -> Iterator[TableFile]:
        """Look at `covey.json` and `deletions.json`; yield what is wrong, restored where that can be.

        Raises:
            StorageError: the store refused.
        """
        for key in keys:
            found = self._looked("", key, _OfLog({key}, self.digests(f"{key}."), -1), restores=restores)
            if found is not None:
                yield found

    def log(self, table: str, *, restores: bool) -> Iterator[TableFile]:
        """Look at what readers need of a log (rule 5); yield what is wrong, restored where that can be.

        Raises:
            StorageError: the store refused.
        """
        last, of_log = f"{table}/_delta_log/{LAST_CHECKPOINT}", self._of_log(table, restores=restores)
        for _, found in self._looks(table, [last], of_log, restores=restores):
            if found is not None:
                yield found
                of_log = self._of_log(table, restores=restores)  # the file says from where on a store lists the log
        newest = max((_version(key) for key in of_log.keys if key.endswith(".parquet")), default=0)
        needed = sorted(key for key in of_log.keys if _version(key) >= newest)
        yield from (found for _, found in self._looks(table, needed, of_log, restores=restores) if found is not None)

    def rest(self, table: str, *, restores: bool) -> Iterator[TableFile]:
        """Look at everything in a log, one file after the other, and at its copies; yield the sound ones, too.

        Raises:
            StorageError: the store refused.
        """
        keys = sorted({*self._location.logged(table), *self.digests(f"{table}/_delta_log/")})
        for key, found in self._looks(table, keys, self._of_log(table, restores=restores), restores=restores):
            if found is None and restores:
                self._mend_copy(key)
            size = self._store.size(key)
            if found is not None or size is not None:
                yield found or TableFile(table, _path(table, key), size or 0, has_digest=True)

    def trim(self, table: str) -> None:
        """Remove the copies of entries that the log of a table is about to lose, and digests of files that are gone.

        Raises:
            StorageError: the store refused.
        """
        copies = self.digests(f"{table}/")
        versions = {key: version for key in copies if (version := _version(key)) >= 0}
        newest = max(versions.values(), default=0)
        checkpoints = [version for key, version in versions.items() if key.endswith(".parquet")]
        oldest = max((version for version in checkpoints if version <= newest - VERSIONS_KEPT), default=0)
        old = [key for key, version in versions.items() if version < oldest]
        old += [key for key in copies if "/_delta_log/" not in key and self._store.size(key) is None]
        self._store.discard([_named(key, each) for key in old for each in copies[key]])

    def follow(self, table: str, version: int) -> None:
        """Copy a checkpoint that was just made, and the file that names it.

        Raises:
            StorageError: the store refused.
        """
        for name in (f"{version:020}.checkpoint.parquet", LAST_CHECKPOINT):
            key = f"{table}/_delta_log/{name}"
            content = self._read(key)
            if content is not None:
                self.keep(key, content)
                self._drop_others(key, digest(content))

    def forget(self, table: str, version: int) -> None:
        """Remove the copies of a checkpoint that was removed, and of what named it.

        Raises:
            StorageError: the store refused.
        """
        for name in (f"{version:020}.checkpoint.parquet", LAST_CHECKPOINT):
            self._drop_others(f"{table}/_delta_log/{name}", "")

    def _looks(
        self, table: str, keys: Iterable[str], of_log: _OfLog, *, restores: bool
    ) -> Iterator[tuple[str, TableFile | None]]:
        for key in keys:
            found = self._looked(table, key, of_log, restores=restores)
            if found is not None and not restores:  # an engine may have replaced the file meanwhile
                of_log = self._of_log(table, restores=False)
                found = self._looked(table, key, of_log, restores=False)
            yield key, found

    def _of_log(self, table: str, *, restores: bool) -> _OfLog:
        """Return which files a log has, and their digests. Copies of entries that are gone do not count (rule 3)."""
        logged = self._location.logged(table)
        newest = max(map(_version, logged), default=-1)
        digests = self.digests(f"{table}/_delta_log/")
        later = [key for key in digests if _version(key) > newest]
        if len(later) > 1:
            gone = [_named(key, each) for key in later for each in digests.pop(key)]
            if restores:
                self._store.discard(gone)
        return _OfLog({*logged, *digests}, digests, newest)

    def _looked(self, table: str, key: str, of_log: _OfLog, *, restores: bool) -> TableFile | None:
        """Look at one file; say what is wrong with it."""
        digests = of_log.digests.get(key, [])
        content = self._read(key)
        if content is not None and digest(content) in digests:
            return None
        whole = [copy for each in digests if (copy := self._whole(key, each))]
        best = max(whole, key=lambda copy: (len(copy), copy), default=None)
        if best is not None and not self._may_return(table, key, best, of_log.newest, is_there=content is not None):
            best, digests = None, []
            if restores:
                self._drop_others(key, "")
        path, size = _path(table, key), len(content or b"")
        problem = "it is missing" if content is None else NOT_AS_WRITTEN
        if best is not None:
            if restores:
                self._store.restore(key, best)
            return TableFile(table, path, size, True, problem, has_copy=True, restored=restores)
        if content is None and not digests:
            return None
        if content is not None and not digests and _is_readable(key, content):
            if restores:
                self.keep(key, content)
            return None
        if key.endswith(LAST_CHECKPOINT) and restores:  # readers can do without
            self._store.discard([key, *(_named(key, each) for each in digests)])
            return TableFile(table, path, size, True, problem, restored=True)
        return TableFile(table, path, size, True, f"{problem}, nor is its copy" if digests else problem)

    def _may_return(self, table: str, key: str, content: bytes, newest: int, *, is_there: bool) -> bool:
        """Say whether a copy's content is to be written again (rule 3)."""
        if key.endswith(LAST_CHECKPOINT):
            checkpoint = f"{key.removesuffix(LAST_CHECKPOINT)}{json.loads(content)['version']:020}.checkpoint.parquet"
            return self._store.size(checkpoint) is not None or checkpoint in self.digests(checkpoint)
        if is_there or _version(key) <= newest:
            return True
        if not key.endswith(".json"):
            return False
        added = [line["add"]["path"] for line in map(json.loads, content.splitlines()) if "add" in line]
        return all(self._store.size(f"{table}/{unquote(path)}") is not None for path in added)

    def _mend_copy(self, key: str) -> None:
        content = self._read(key)
        if content is not None and self._whole(key, digest(content)) is None:
            self.keep(key, content)

    def _whole(self, key: str, its_digest: str) -> bytes | None:
        content = self._read(_named(key, its_digest))
        return content if content is not None and digest(content) == its_digest else None

    def _read(self, key: str) -> bytes | None:
        try:
            return self._store.get(key, MAXIMUM_LOG_ENTRY_BYTES)
        except StorageError as error:
            if is_unreadable(error):
                return b""
            raise

    def _drop_others(self, key: str, but: str) -> None:
        others = [each for each in self.digests(f"{key}.").get(key, []) if each != but]
        if others:
            self._store.discard([_named(key, each) for each in others])


def _named(key: str, its_digest: str) -> str:
    return f"{_folder_of(key)}.{its_digest}"


def _folder_of(key: str) -> str:
    return f"{FOLDER}/{key}" if "/" in key else f"{FOLDER}/{_OF_ALL}{key}"


def _path(table: str, key: str) -> str:
    return key.removeprefix(f"{table}/")


def _version(key: str) -> int:
    """Return the version of an entry or a checkpoint of a log, or -1."""
    found = _OF_A_LOG.fullmatch(key.rpartition("/")[2])
    return int(found["version"]) if found else -1


def _is_readable(key: str, content: bytes) -> bool:
    try:
        if key.endswith(".parquet"):
            pq.read_metadata(pa.BufferReader(content))
            return True
        return all(isinstance(json.loads(line), dict) for line in content.splitlines()) and content != b""
    except (ValueError, OSError, pa.ArrowException):
        return False
