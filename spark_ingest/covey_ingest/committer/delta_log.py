"""The transaction logs of the Delta tables of one location (`deltalake`, that is delta-rs).

    readings/_delta_log/        the log; so for all tables
    readings/batch=N/*.parquet  the files of micro-batch N, as tasks wrote them
    readings/*.parquet          small files of many micro-batches, merged
    devices/_delta_log/         the same for tables replaced whole (also gaps/, clocks/, members/), with the state

1. A micro-batch is added to a log in one commit that carries the name of the tables and N (`txn`).
2. Every `BATCHES_PER_MERGE` commits small files are merged, those of one magnitude into the next, so that a reading is
   rewritten a few times in all; files replaced a day ago are deleted, with their folder. Merging sorts readings
   (`delta_files`), in a commit that changes no data, which streams skip.
3. A column that the table lacks is added; one that only the table has is null in files without it.
4. The cost of a micro-batch does not grow with their number. The log of a folder keeps `VERSIONS_KEPT` commits before
   its newest checkpoint, since the library looks at each file of it several times a commit; in an object store it keeps
   what the library keeps. Folders are listed when a run starts. Checkpoints are made after old files have been deleted,
   so that they no longer name them.
5. Readings whose boot's clock becomes known later are rewritten in one commit (`tables/clocks`), which carries the
   micro-batch with that clock. Only files with rows received together with the affected messages are read.
6. Each run has a number, which it writes into each log at its start, and into each of its commits. A run that finds a
   greater one ends. Of two concurrent commits the library refuses the second, since both name the same `txn`: so a slow
   earlier run adds nothing after a later one has looked.
7. In a folder each commit is synced before anything relies on it, and a torn one is removed at the start
   (`table_locations`).
8. No store is believed (rule 3 of `table_locations`): each entry is read back and compared with what was asked for,
   each file that the library wrote is read, and where a listing ends the next entry is asked for by name.
9. Each of our entries says all numbers that its log has under our names (rules 1 and 6, and `rewritten`), so that the
   newest one is enough: for a number that no entry says the library reads the whole log, entry by entry.
10. Before a log is opened, and again and again (`verifying`), each of its files is compared with its copy, and restored
   from it (`copies`): the library takes a damaged entry for what was written, and an empty one for one that changed
   nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from covey.adapters.objects.cloud import brief
from covey.errors import ConfigurationError, StorageError
from covey.limits.tables import MAXIMUM_LOG_ENTRY_BYTES
from covey_ingest.committer.copies import Copies, TableFile
from covey_ingest.committer.delta_files import merged, removed, sizes_of
from covey_ingest.committer.file_names import DAMAGED_HINT, digest_of
from covey_ingest.committer.file_names import named as named_by_digest
from covey_ingest.committer.state_file import read_state
from covey_ingest.committer.table_locations import CHANGES, RUN, WRITER, TableLocation, open_table
from covey_ingest.tables.clocks import rebase
from covey_ingest.task.file_statistics import skipping, statistics

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties

    from covey_ingest.committer.delta_files import Action

BATCHES_PER_MERGE = 64
MAGNITUDES = (1024 * 1024, 16 * 1024 * 1024, 128 * 1024 * 1024)
"""Bytes that files grow to by merging, one after the other."""

REBUILD_HINT = "run 'covey tables run' into a new folder, which makes all tables again from the vault"

STATE_TABLES = ("devices", "gaps", "clocks", "members")
"""What is replaced whole."""

STATE_SECONDS = 60.0
_REWRITTEN = "-rewritten"
_CLOCKS = "-clocks"
_KEPT_HOURS = 24
"""Of files that merging has replaced: how long a reader may read on with what it found in the log."""

_PROPERTIES = {
    "delta.deletedFileRetentionDuration": f"interval {_KEPT_HOURS + 1} hours",
    "delta.enableChangeDataFeed": "true",
}
"""How long checkpoints name replaced files: hardly longer than until they are deleted. And corrected times are changes
in the table's change feed; added rows cost nothing more."""
_STATE_KEPT_HOURS = 1


class DeltaLog:
    """The logs of all tables in one location, written by one run."""

    def __init__(self, root: Path, ingest: str, location: TableLocation, run: int) -> None:
        """Name the committer's folder, the tables as `covey.json` does, their location, and this run (rule 6)."""
        self._root = root
        self._ingest = ingest
        self.run = run
        self._location = location
        self.copies = Copies(location)
        self.found: list[TableFile] = []
        """What was wrong with logs as they were opened, and has been restored."""
        self._open: dict[str, DeltaTable] = {}
        self._sound: set[str] = set()
        """Logs that were just looked at, and are opened next."""
        self._has: dict[str, int] = {}
        self._numbers: dict[str, tuple[int, dict[str, int | None]]] = {}
        """Of each table, the numbers that its log has under our names, as of a version (rule 9)."""
        self._rebased: int | None = None
        self._checkpoints: dict[str, int] = {}
        self.kept = -1
        """The micro-batch of the newest stored state (`tables_state`)."""

    def append(self, name: str, number: int, actions: list[Action], note: Mapping[str, str] | None = None) -> None:
        """Add micro-batch `number` to an existing table, in one commit that contains `note`.

        Raises:
            ConfigurationError: another run has begun (rule 6).
            StorageError: the log refused.
        """
        named = None
        try:
            with self._storage_errors():
                named = self._named(name, number, note=note)
                self._commit(name, actions, named)
                self._has[name] = number
        except StorageError:
            # An answer that is lost leaves open whether the commit stands: the newest entry says so.
            if named is None or not self._is_newest(name, actions, named):
                raise

    def _is_newest(self, name: str, actions: list[Action], named: CommitProperties) -> bool:
        table = self.table(name)
        with self._storage_errors():
            self._location.settle(table, name)  # it may be the sync that failed
            return _says(self._entry(name, table.version()), actions, named)

    def table(self, name: str) -> DeltaTable:
        """Return a table as its log was last seen; no commit follows what has come since, by rule 6.

        Raises:
            ConfigurationError: another run has begun to write to it.
            StorageError: the log refused, or is not there.
        """
        with self._storage_errors():
            table = self._table(name)
            if table is None:
                raise StorageError(f"the log at {self._location.uri(name)} is gone")
            self._check_writer(name, table)
            return table

    def exists(self, name: str) -> bool:
        """Say whether a table has a log.

        Raises:
            StorageError: it refused.
        """
        with self._storage_errors():
            return self._table(name) is not None

    def done(self, name: str) -> int:
        """Return the last micro-batch that a log has, or -1.

        Raises:
            StorageError: the log refused.
        """
        with self._storage_errors():
            return self._done(name)

    def rewritten(self, name: str) -> int:
        """Return the micro-batch up to which rows of a table may stand in files that are no micro-batch's, or -1.

        Raises:
            StorageError: the log refused.
        """
        with self._storage_errors():
            table = self._table(name)
            found = None if table is None else self._number(name, table, _REWRITTEN)
            return -1 if found is None else found

    def last_run(self, name: str) -> int:
        """Remove what a power cut has torn in a log, and return the last run that has written to it, or 0.

        Raises:
            StorageError: the log refused.
        """
        with self._storage_errors():
            wrong = [*self.copies.log(name, restores=True)]
            self.found += [each for each in wrong if each.restored]
            if not self._location.mend(name) and not wrong:
                self._sound.add(name)
            table = self._table(name)
            found = None if table is None else self._number(name, table, WRITER)
            return found or 0

    def take_over(self, name: str, schema: pa.Schema) -> None:
        """Make a table unless there is one, with all columns of the schema, and have it carry this run (rule 6).

        Raises:
            ConfigurationError: another run has begun.
            StorageError: the log refused.
        """
        with self._storage_errors():
            self._widened(name, _nullable(schema), _PROPERTIES | skipping(name))
            self._commit(name, [], self._named(name, None))

    def delete(self, name: str, rows: str) -> None:
        """Take rows out of a table, those of a condition in the library's SQL, in one commit that carries this run.

        Raises:
            ConfigurationError: another run has begun (rule 6).
            StorageError: the log refused.
        """
        table = self.table(name)
        with self._storage_errors():
            named, before = self._named(name, None, rewrites=True), table.version()
            done = table.delete(rows, commit_properties=named, post_commithook_properties=_bare())
            if done["num_deleted_rows"]:
                self._settled(table, name, before, [], named)

    def sweep(self, name: str) -> None:
        """Delete files that no log names, and changes, that came a day ago or earlier: lists all of the table.

        Raises:
            StorageError: the store refused.
        """
        with self._storage_errors():
            table = self._table(name)
            if table is None:
                return
            old = self._location.older(name, _KEPT_HOURS)
            if not {path for path in old if not path.startswith("_")} <= {*map(unquote, sizes_of(table))}:
                self._vacuum(table, name, _KEPT_HOURS, full=True)
            if any(path.startswith(CHANGES) for path in old):
                self._location.drop_changes(name, _KEPT_HOURS)
            self.copies.trim(name)

    def maintain(self) -> None:
        """Merge small files and delete what is old, where that is due.

        Raises:
            StorageError: a log refused.
        """
        with self._storage_errors():
            for name in list(self._open):
                self._maintain(name)

    def rebase(self) -> None:
        """Repair times of readings that stand in the log, of boots whose clock has become known (rule 5).

        Raises:
            StorageError: the log refused.
        """
        state, _ = read_state(self._root / "clocks" / "clocks.parquet", pa.schema([("known_batch", pa.int64())]))
        with self._storage_errors():
            table = self._table("readings") if len(state) else None
            if table is None:
                return
            if self._rebased is None:
                done = self._number("readings", table, _CLOCKS)
                self._rebased = -1 if done is None else done
            is_new = (pc.field("known_batch") > self._rebased) & (pc.field("known_batch") <= self._done("readings"))
            due = state.filter(is_new & pc.field("doubtful_from").is_valid())
            if len(due):
                self._rebased = pc.max(due["known_batch"]).as_py()
                named = self._named("readings", self._rebased, _CLOCKS, rewrites=True)
                before = table.version()
                rebase(table, due, named, _bare())
                table.update_incremental()
                if table.version() > before:  # without a reading to repair, the library commits nothing
                    self._settled(table, "readings", before, [], named)

    def newest(self, name: str, most: int) -> dict[str, int]:
        """Return the paths and sizes of a table's newest files, so many bytes of them.

        Raises:
            StorageError: the log refused.
        """
        with self._storage_errors():
            table = self._table(name)
            if table is None:
                return {}
            actions = table.get_add_actions()
            paths, sizes, times = (
                actions.column(column).to_pylist() for column in ("path", "size_bytes", "modification_time")
            )
            found, total = {}, 0
            for _, path, size in sorted(zip(times, paths, sizes, strict=True), reverse=True):
                total += size
                if total > most:
                    break
                found[path] = int(size)
            return found

    def renew(self, name: str) -> None:
        """Have a table that is replaced whole written again, as it is."""
        self._has[name] = -2

    def replace_states(self) -> None:
        """Write the tables that are replaced whole.

        Raises:
            StorageError: a log refused.
        """
        with self._storage_errors():
            for name in STATE_TABLES:
                path = self._root / name / f"{name}.parquet"
                if path.exists():
                    self._replace(name, *read_state(path, pa.schema([])))

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        """Turn the library's errors into ours; after one, read the logs again."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except BaseException as error:
            self._open.clear()
            self._sound.clear()
            self._has.clear()
            self._numbers.clear()
            self._rebased = None
            if isinstance(error, DeltaError | OSError):
                raise StorageError(f"the Delta tables at {self._location.uri('')} refused: {brief(error)}") from error
            raise

    def _table(self, name: str) -> DeltaTable | None:
        if name not in self._open:
            if name not in self._sound:
                self._restore(name)
            self._sound.discard(name)
            table = open_table(self._location, name)
            if table is None:
                if self._entry(name, 0) is not None:
                    raise _older(self._location.uri(name))
                return None
            while self._entry(name, (seen := table.version()) + 1) is not None:
                table.update_incremental()
                if table.version() == seen:
                    raise _older(self._location.uri(name))
            self._open[name] = table
            if name not in self._checkpoints:
                self._checkpoints[name] = 0
                self._location.tidy(name)
        return self._open[name]

    def _restore(self, name: str) -> None:
        """Restore what is damaged in a log (rule 10)."""
        for each in self.copies.log(name, restores=True):
            if not each.restored:
                raise StorageError(f"{self._location.uri(name)}/{each.path}: {each.problem}", hint=REBUILD_HINT)
            self.found.append(each)

    def _clean(self, table: DeltaTable, name: str, kept_hours: int) -> None:
        """Delete files replaced long enough ago, and now and then commits covered by a checkpoint (rule 4)."""
        gone = self._vacuum(table, name, kept_hours, full=False)
        self._location.remove_empty(name, gone, self._done(name))
        if name not in STATE_TABLES:  # those have no change feed, and follow each minute
            self._location.drop_changes(name, kept_hours)
        if table.version() - self._checkpoints.get(name, 0) >= BATCHES_PER_MERGE:
            table.create_checkpoint()
            self._location.settle(table, name)
            self._check_checkpoint(table, name)
            self.copies.follow(name, table.version())
            self.copies.trim(name)
            self._location.trim(table, name)
            self._checkpoints[name] = table.version()

    def _check_checkpoint(self, table: DeltaTable, name: str) -> None:
        try:
            self._location.check_checkpoint(name, table.version(), len(sizes_of(table)))
        except StorageError:
            self.copies.forget(name, table.version())
            raise

    def _vacuum(self, table: DeltaTable, name: str, kept_hours: int, *, full: bool) -> list[str]:
        """Delete files that no log names; the library notes that in the log."""
        before = table.version()
        gone = table.vacuum(
            kept_hours, False, enforce_retention_duration=False, post_commithook_properties=_bare(), full=full
        )
        table.update_incremental()
        if table.version() > before:
            self._settled(table, name, before, [])
        return gone

    def _done(self, name: str) -> int:
        if name not in self._has:
            table = self._table(name)
            version = self._number(name, table) if table is not None else None
            self._has[name] = -1 if version is None else version
        return self._has[name]

    def _number(self, name: str, table: DeltaTable, what: str = "") -> int | None:
        """Return the newest number that a log has under one of our names (rule 9)."""
        version, known = self._numbers.get(name, (-1, {}))
        newest = table.version()
        if version > newest or version < 0:
            version, known = newest - 1, {}
        while version < newest:
            said = _numbers_in(self._entry(name, version + 1))
            if said is None:
                version, known = newest, {}
                break
            version, known = version + 1, {**known, **said}
        app = self._ingest + what
        if app not in known:
            known[app] = table.transaction_version(app)
        self._numbers[name] = version, known
        return known[app]

    def _check_writer(self, name: str, table: DeltaTable) -> None:
        found = self._number(name, table, WRITER)
        if found is not None and found > self.run:
            raise ConfigurationError(
                f"another engine has started to write the tables at {self._location.name}",
                hint="run only one: keep that one, or stop it and restart this one",
            )

    def _commit(self, name: str, actions: list[Action], named: CommitProperties) -> None:
        table, hooks = self.table(name), _bare()
        before = table.version()
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=named, post_commithook_properties=hooks
        )
        self._settled(table, name, before, actions, named)

    def _settled(
        self,
        table: DeltaTable,
        name: str,
        before: int,
        actions: list[Action],
        named: CommitProperties | None = None,
    ) -> None:
        """Record the commit that followed an entry, make it durable (rule 7), and read it back (rule 8)."""
        table.update_incremental()
        version = table.version()
        self._location.settle(table, name)
        entry = self._entry(name, version) if version > before else None
        if not _says(entry, actions, named):
            raise StorageError(
                f"the log at {self._location.uri(name)} says that it has a new entry, and has not, or another one",
                hint="check the disk or the store; nothing is lost: start again, and it is written again",
            )
        self.copies.keep(f"{name}/_delta_log/{version:020}.json", entry or b"")
        seen, known = self._numbers.get(name, (-1, {}))
        if seen == before == version - 1:
            self._numbers[name] = version, {**known, **(_numbers_in(entry) or {})}
        own = {action.path for action in actions}
        for path, size in _files_in(entry or b"").items():
            if path not in own:
                self._check_file(f"{name}/{unquote(path)}", size)

    def _check_file(self, key: str, size: int) -> None:
        """Read a file that the library wrote, and note its digest."""
        try:
            with self._location.store.reading(key) as file, pq.ParquetFile(file) as content:
                if file.stat().st_size == size:
                    for _ in content.iter_batches():
                        pass
                    self.copies.note(key, digest_of(file))
                    return
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"the file {key} of the tables cannot be read: {error}", hint=DAMAGED_HINT) from error
        raise StorageError(f"the file {key} of the tables has not {size} B", hint=DAMAGED_HINT)

    def _entry(self, name: str, version: int) -> bytes | None:
        return self._location.store.get(f"{name}/_delta_log/{version:020}.json", MAXIMUM_LOG_ENTRY_BYTES)

    def _maintain(self, name: str) -> None:
        table = self._table(name)
        if table is not None and table.version() - self._checkpoints.get(name, 0) >= BATCHES_PER_MERGE:
            self._merge(table, name)

    def _merge(self, table: DeltaTable, name: str) -> None:
        """Merge small files, and delete old ones (rules 2 and 4)."""
        sizes = sizes_of(table)
        target = _target([*sizes.values()])
        if target:
            small = {path: size for path, size in sizes.items() if size < target}
            actions = merged(table, name, small, self._root, self._location, MAGNITUDES[-1])
            self._commit(name, actions, self._named(name, None, rewrites=True))
        self._clean(table, name, _KEPT_HOURS)
        del self._open[name]

    def _widened(self, name: str, schema: pa.Schema, configuration: Mapping[str, str]) -> DeltaTable:
        """Return the table with all columns of the schema (rule 3)."""
        from deltalake import DeltaTable, Schema

        wanted, table = Schema.from_arrow(schema), self._table(name)
        if table is None:
            uri, options = self._location.uri(name), self._location.options
            table = self._open[name] = DeltaTable.create(
                uri, wanted, name=name, storage_options=options, configuration=dict(configuration)
            )
            self._settled(table, name, -1, [])
        known = {field.name for field in table.schema().fields}
        new = [field for field in wanted.fields if field.name not in known]
        if new:
            before = table.version()
            table.alter.add_columns(new)
            self._settled(table, name, before, [])
        return table

    def _replace(self, name: str, rows: pa.Table, number: int) -> None:
        from deltalake.transaction import AddAction

        if number == self._done(name):  # a higher one: the other tables were restored from a backup
            return
        table = self._widened(name, _nullable(rows.schema), skipping(name))
        file = self._root / f"{uuid4().hex}.parquet"
        pq.write_table(rows.replace_schema_metadata(None), file, compression="zstd", store_schema=False)
        file = named_by_digest(file)
        came_ms = self._location.store.upload(f"{name}/{file.name}", file)
        added = AddAction(file.name, file.stat().st_size, {}, came_ms, True, statistics(file, name))
        file.unlink()
        self._commit(name, [*removed(sizes_of(table), changes_data=True), added], self._named(name, number))
        self._has[name] = number
        self._clean(table, name, _STATE_KEPT_HOURS)

    def _named(
        self,
        name: str,
        number: int | None,
        what: str = "",
        *,
        note: Mapping[str, str] | None = None,
        rewrites: bool = False,
    ) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        numbers = {"": self._done(name), _REWRITTEN: self.rewritten(name)}
        if number is not None:
            numbers[what] = number
        if rewrites and self.kept >= 0:
            numbers[_REWRITTEN] = self.kept
        named = [Transaction(self._ingest + each, version) for each, version in numbers.items()]
        named.append(Transaction(self._ingest + WRITER, self.run))
        said = {RUN: str(self.run), **(note or {})}
        return CommitProperties(app_transactions=named, custom_metadata=said)


def _bare() -> PostCommitHookProperties:
    """Have the library only commit (rule 4); otherwise it looks for old commits each time."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def _older(uri: str) -> StorageError:
    return StorageError(
        f"the store lists an older log at {uri} than it has",
        hint="start again later; nothing is lost. If that stays, tell whoever runs the store",
    )


def _says(entry: bytes | None, actions: list[Action], named: CommitProperties | None) -> bool:
    """Say whether an entry of a log is whole, and says these things."""
    try:
        lines = [json.loads(line) for line in (entry or b"").splitlines()]
        found = [line[kind]["path"] for line in lines for kind in ("add", "remove") if kind in line]
        sizes = {line["add"]["path"]: line["add"]["size"] for line in lines if "add" in line}
        numbers = {line["txn"]["appId"]: line["txn"]["version"] for line in lines if "txn" in line}
    except (ValueError, KeyError, TypeError):
        return False
    wanted = {each.app_id: each.version for each in (named.app_transactions or [] if named else [])}
    return (
        bool(lines)
        and set(map(unquote, found)) >= {unquote(action.path) for action in actions}
        and all(sizes.get(path, size) == size for path, size in ((each.path, each.size) for each in actions))
        and numbers.items() >= wanted.items()
    )


def _numbers_in(entry: bytes | None) -> dict[str, int | None] | None:
    """Return the numbers in an entry by their names, or None where it cannot be read."""
    try:
        lines = [json.loads(line) for line in (entry or b"").splitlines()]
        return {line["txn"]["appId"]: int(line["txn"]["version"]) for line in lines if "txn" in line} if lines else None
    except (ValueError, KeyError, TypeError):
        return None


def _files_in(entry: bytes) -> dict[str, int]:
    """Return the files, with their sizes, that an entry adds, and those of its change feed."""
    lines = [json.loads(line) for line in entry.splitlines()]
    return {line[kind]["path"]: line[kind]["size"] for line in lines for kind in ("add", "cdc") if line.get(kind)}


def _target(sizes: list[int]) -> int | None:
    """Return the greatest magnitude with enough files that are much smaller, or None."""
    target, least = None, 0
    for magnitude in MAGNITUDES:
        if sum(least <= size < magnitude // 2 for size in sizes) >= BATCHES_PER_MERGE // 4:
            target = magnitude
        least = magnitude // 2
    return target


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns as nullable, so that a later version may leave one out."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])
