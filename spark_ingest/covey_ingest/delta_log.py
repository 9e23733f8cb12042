"""The tables as Delta tables: a transaction log over the files that `tables` commits. Library: `deltalake` (delta-rs).

    readings/_delta_log/       the log; so for losses and quarantine
    readings/batch=N/*.parquet the files of micro-batch N, as executors wrote them: no reading passes the driver
    readings/*.parquet         small files of many micro-batches, merged
    devices/_delta_log/        the same for what is replaced whole (and gaps/, clocks/), at most once a minute and when
                               the ingest ends

All of it lies in one location: the folder of the working tables, or an object store (`table_locations`).

1. A micro-batch is added to the log in one commit that carries the ingest's name and N (`txn`). What the log says of N
   is asked first, so that a replay adds nothing, whatever was killed between the rename and the commit. Two that commit
   at once: the library refuses the second by its `txn`.
2. The log follows the folders: whatever it lacks is added, in order. So Parquet tables become Delta tables at any time.
   They do not turn back: merged files and the small ones lie beside each other until the latter are old enough.
3. Every `BATCHES_PER_MERGE` commits small files are merged, those of one magnitude into the next, so that a
   reading is written anew a few times in all; what was replaced a day ago is deleted, with its folder. Readings are
   put in order meanwhile (`clustering`), in a commit that changes no data: a stream passes over it.
4. A column that files have and the table lacks is added to the table. One that the table has and files lack is null.
5. Micro-batch N of any table is added where readings/batch=N exists: before, it may still be written anew. Readings are
   added last: what their log has of N, it has of all tables.
6. The last micro-batch that the log names is there. If not, these are an older copy of the tables, and their next one
   would be taken for another; or what the log names was merged with what it lacks (`merging`). They are refused.
7. What a micro-batch costs does not grow with their number. The log of a folder keeps `VERSIONS_KEPT` commits before
   its newest checkpoint, since the library looks at each file of it several times a commit; in an object store it
   keeps what the library keeps. Folders are listed when the ingest starts. Checkpoints are made when what is old has
   been deleted, not before: they no longer name it.
8. Readings whose boot's clock becomes known later are rewritten in one commit (`clock_repair`), which carries the
   micro-batch that told. Only files are looked at that have rows of when collectors had the doubtful messages.
9. Where nothing but the store says who may write (`store_log`), each run of the ingest has a number, which it brings
   into each log when it begins, and into each of its commits. A run that finds a greater one ends. Of two that commit
   at once the library refuses the second, since both name the same `txn`: so an earlier run that was only slow adds
   nothing to what a later one has looked at.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from covey.adapters.objects.cloud import brief
from covey.errors import ConfigurationError, MissingPackageError, StorageError
from covey_ingest import clustering
from covey_ingest.clock_repair import rebase
from covey_ingest.committed import committed_after, is_committed, listed
from covey_ingest.delta_files import in_order, sizes_of
from covey_ingest.file_statistics import statistics
from covey_ingest.state_file import read_state
from covey_ingest.table_locations import Folder, TableLocation, open_table

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
    from deltalake.transaction import AddAction

    from covey_ingest.delta_files import Action

BATCHES_PER_MERGE = 64
MAGNITUDES = (1024 * 1024, 16 * 1024 * 1024, 128 * 1024 * 1024)
"""Bytes that files grow to by merging, one after the other."""

STATE_TABLES = ("devices", "gaps", "clocks", "members")
"""What is replaced whole."""

STATE_SECONDS = 60.0
_KEPT_HOURS = 24
"""Of files that merging has replaced: how long a reader may read on with what it found in the log."""

_PROPERTIES = {
    "delta.deletedFileRetentionDuration": f"interval {_KEPT_HOURS + 1} hours",
    "delta.enableChangeDataFeed": "true",
}
"""How long checkpoints name what was replaced: until it has been deleted, and hardly longer. And that times which are
repaired stand as changes beside the table, for whoever follows its change feed; what is added costs nothing more."""
_STATE_KEPT_HOURS = 1

_WRITER = "-writer"
"""Added to the ingest's name, for what rule 9 says of runs."""


def is_delta(folder: Path) -> bool:
    """Say whether a table has a log."""
    return (folder / "_delta_log").is_dir()


class DeltaLog:
    """The logs of all tables in one location, written by one ingest."""

    def __init__(
        self, root: Path, ingest: str, location: TableLocation | None = None, writer: int | None = None
    ) -> None:
        """Name the working tables, the ingest that numbers micro-batches, and the location (default: the same folder).

        `writer` is the run of the ingest, where each commit is to carry it (rule 9).

        Raises:
            MissingPackageError: the library is not installed.
        """
        try:
            import deltalake  # noqa: F401 - before anything is written
        except ImportError as error:
            raise MissingPackageError("a Delta table", "deltalake", in_debian=False) from error
        self._root = root
        self._ingest = ingest
        self._writer = writer
        self._location = location or Folder(root)
        self._open: dict[str, DeltaTable] = {}
        self._has: dict[str, int] = {}
        self._newest: int | None = None
        self._rebased: int | None = None
        self._checkpoints: dict[str, int] = {}
        self._states_at = float("-inf")

    @property
    def mergeable_upto(self) -> int:
        """Nothing of the tables is to be merged but by the log."""
        return -1

    def publish(self, newest: int | None = None, *, last: bool = False) -> None:
        """Bring the logs up to the committed micro-batches; tables that are replaced whole not each time, but at last.

        `newest` is the last micro-batch that is committed, where that is known.

        Raises:
            ConfigurationError: the tables are older than the log (rule 6).
            StorageError: a log refused.
        """
        self._newest = self._newest if newest is None else newest
        for number in self.missing(self._newest):
            self.add(number)
        self.rebase()
        self.replace_states(last=last)

    def close(self, *, whole: bool) -> None:
        """Bring the logs up to date in the end, unless something went wrong.

        Raises:
            CoveyError: as `publish`.
        """
        if whole:
            self.publish(last=True)

    def missing(self, newest: int | None = None) -> list[int]:
        """Return the committed micro-batches that a log lacks, in order; `newest` as for `publish`.

        Raises:
            CoveyError: as `publish`.
        """
        with self._storage_errors():
            for table in self._open.values():
                table.update_incremental()
            done = self._done("readings")
            if done >= 0 and not is_committed(self._root, done):
                raise ConfigurationError(
                    f"the log of {self._location.uri('readings')} is ahead of the tables at {self._root}, which lack "
                    f"its micro-batch {done}",
                    hint="give new tables, a new checkpoint and another location: the vault holds all of it",
                )
            lacking = committed_after(self._root, done, newest)
            if done >= 0 and self._done("rollups") < 0 and self._files("rollups", done):
                return [done, *lacking]  # made of what stood before there were any
            return lacking

    def add(self, number: int) -> None:
        """Add a micro-batch to each log that lacks it.

        Raises:
            StorageError: a log refused, or the files could not be brought there.
        """
        with self._storage_errors():
            for name, is_state in self._tables():
                files = [] if is_state else self._files(name, number)
                if files and number > self._done(name):
                    added: list[Action] = [self._addition(name, file) for file in files]
                    self._widened(name, _nullable(pq.read_schema(files[0])))
                    self._commit(name, added, self._named(number))
                    self._has[name] = number
                    self._maintain(name)

    def append(self, name: str, number: int, actions: list[Action], note: Mapping[str, str] | None = None) -> None:
        """Add micro-batch `number` of a table that there is, in one commit; `note` stands in it.

        Raises:
            ConfigurationError: another run of the ingest has begun (rule 9).
            StorageError: the log refused.
        """
        try:
            with self._storage_errors():
                self._commit(name, actions, self._named(number, note=note))
                self._has[name] = number
        except StorageError:
            # An answer that is lost leaves open whether the commit stands: what carries both numbers is this one.
            if self.table(name).transaction_version(self._ingest + _WRITER) != self._writer or self.done(name) < number:
                raise

    def table(self, name: str) -> DeltaTable:
        """Return a table as its log was last seen; no commit follows what has come since, by rule 9.

        Raises:
            ConfigurationError: another run of the ingest has begun to write to it.
            StorageError: the log refused, or is not there.
        """
        with self._storage_errors():
            table = self._table(name)
            if table is None:
                raise StorageError(f"there is no log at {self._location.uri(name)} any more")
            self._check_writer(table)
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

    def take_over(self, name: str, schema: pa.Schema) -> None:
        """Make a table unless there is one, with all columns of the schema, and have it carry this run (rule 9).

        Raises:
            ConfigurationError: another run of the ingest has begun.
            StorageError: the log refused.
        """
        with self._storage_errors():
            self._widened(name, _nullable(schema))
            self._commit(name, [], self._named(None))

    def delete(self, name: str, rows: str) -> None:
        """Take rows out of a table, those of a condition in the library's SQL, in one commit that carries this run.

        Raises:
            ConfigurationError: another run of the ingest has begun (rule 9).
            StorageError: the log refused.
        """
        table = self.table(name)
        with self._storage_errors():
            table.delete(rows, commit_properties=self._named(None), post_commithook_properties=_bare())
            table.update_incremental()

    def sweep(self, name: str) -> None:
        """Delete files that no log names, and changes, that came a day ago or earlier: lists all of the table.

        Raises:
            StorageError: the store refused.
        """
        with self._storage_errors():
            table = self._table(name)
            if table is not None:
                hooks = _bare()
                table.vacuum(
                    _KEPT_HOURS, False, enforce_retention_duration=False, post_commithook_properties=hooks, full=True
                )
                table.update_incremental()
                self._location.drop_changes(name, _KEPT_HOURS)

    def maintain(self) -> None:
        """Merge small files and delete what is old, where that is due.

        Raises:
            StorageError: a log refused.
        """
        with self._storage_errors():
            for name in list(self._open):
                self._maintain(name)

    def rebase(self) -> None:
        """Repair times of readings that stand in the log, of boots whose clock has become known (rule 8).

        Raises:
            StorageError: the log refused.
        """
        state, _ = read_state(_state(self._root / "clocks"), pa.schema([("known_batch", pa.int64())]))
        with self._storage_errors():
            table = self._table("readings") if len(state) else None
            if table is None:
                return
            if self._rebased is None:
                done = table.transaction_version(f"{self._ingest}-clocks")
                self._rebased = -1 if done is None else done
            is_new = (pc.field("known_batch") > self._rebased) & (pc.field("known_batch") <= self._done("readings"))
            due = state.filter(is_new & pc.field("doubtful_from").is_valid())
            if len(due):
                self._rebased = pc.max(due["known_batch"]).as_py()
                rebase(table, due, self._named(self._rebased, "-clocks"), _bare())
                table.update_incremental()

    def replace_states(self, *, last: bool) -> None:
        """Write the tables that are replaced whole, if they are due or it is for the last time.

        Raises:
            StorageError: a log refused.
        """
        if not last and time.monotonic() - self._states_at < STATE_SECONDS:
            return
        with self._storage_errors():
            for name, is_state in self._tables():
                if is_state:
                    self._replace(name, *read_state(_state(self._root / name), pa.schema([])))
        self._states_at = time.monotonic()

    def _tables(self) -> list[tuple[str, bool]]:
        """Return the tables' names and which are replaced whole; `readings` last (rule 5)."""
        folders = [path for path in self._root.iterdir() if path.is_dir() and not path.name.startswith(".")]
        named = sorted((folder.name == "readings", folder.name, _state(folder).exists()) for folder in folders)
        return [(name, is_state) for _, name, is_state in named]

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        """Turn the library's errors into ours; after one, the logs are asked once more what they have."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except BaseException as error:
            self._open.clear()
            self._has.clear()
            self._rebased = None
            if isinstance(error, DeltaError | OSError):
                raise StorageError(f"the Delta tables at {self._location.uri('')} refused: {brief(error)}") from error
            raise

    def _table(self, name: str) -> DeltaTable | None:
        if name not in self._open:
            table = open_table(self._location.uri(name), self._location.options)
            if table is None:
                return None
            self._open[name] = table
            if name not in self._checkpoints:
                self._checkpoints[name] = 0
                self._begin(table, name)
        return self._open[name]

    def _begin(self, table: DeltaTable, name: str) -> None:
        """Clear away what an earlier run, or an earlier version, has left of a table."""
        is_state = name in STATE_TABLES
        if not is_state and _PROPERTIES.items() - table.metadata().configuration.items():
            table.alter.set_table_properties(_PROPERTIES)
        if self._writer is None:  # else `sweep` follows
            self._clean(table, name, _STATE_KEPT_HOURS if is_state else _KEPT_HOURS)
        self._location.tidy(name)

    def _clean(self, table: DeltaTable, name: str, kept_hours: int) -> None:
        """Delete what was replaced so long ago, and now and then commits that a checkpoint stands for (rule 7)."""
        gone = table.vacuum(
            kept_hours, dry_run=False, enforce_retention_duration=False, post_commithook_properties=_bare()
        )
        table.update_incremental()
        self._location.remove_empty(name, gone, self._done(name))
        if not _state(self._root / name).exists():  # those have no change feed, and follow each minute
            self._location.drop_changes(name, kept_hours)
        if table.version() - self._checkpoints.get(name, 0) >= BATCHES_PER_MERGE:
            table.create_checkpoint()
            self._location.trim(table, name)
            self._checkpoints[name] = table.version()

    def _done(self, name: str) -> int:
        """Return the last micro-batch that a log has, or -1."""
        if name not in self._has:
            table = self._table(name)
            version = table.transaction_version(self._ingest) if table is not None else None
            self._has[name] = -1 if version is None else version
        return self._has[name]

    def _check_writer(self, table: DeltaTable) -> None:
        found = table.transaction_version(self._ingest + _WRITER)
        if self._writer is not None and found is not None and found > self._writer:
            raise ConfigurationError(
                f"another ingest has begun to write to {self._location.uri('')}",
                hint="one at a time: let that one run, or stop it and start this one again",
            )

    def _commit(self, name: str, actions: list[Action], named: CommitProperties) -> None:
        table, hooks = self.table(name), _bare()
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=named, post_commithook_properties=hooks
        )
        table.update_incremental()

    def _maintain(self, name: str) -> None:
        table = self._table(name)
        if table is not None and table.version() - self._checkpoints.get(name, 0) >= BATCHES_PER_MERGE:
            self._merge(table, name)

    def _merge(self, table: DeltaTable, name: str) -> None:
        """Merge small files, and delete what is old (rules 3 and 7)."""
        named, sizes = self._named(None), sizes_of(table)
        target = _target([*sizes.values()])
        if target and {field.name for field in table.schema().fields} >= clustering.COLUMNS:
            small = {path: size for path, size in sizes.items() if size < target}
            actions = in_order(table, name, small, self._root, self._location, MAGNITUDES[-1])
            self._commit(name, actions, named)
        elif target:
            table.optimize.compact(target_size=target, commit_properties=named, post_commithook_properties=_bare())
        self._clean(table, name, _KEPT_HOURS)
        del self._open[name]

    def _files(self, name: str, number: int) -> list[Path]:
        return listed(self._root / name, f"batch={number}/*.parquet")

    def _widened(self, name: str, schema: pa.Schema) -> DeltaTable:
        """Return the table with all columns of the schema (rule 4)."""
        from deltalake import DeltaTable, Schema

        wanted, table = Schema.from_arrow(schema), self._table(name)
        if table is None:
            uri, options = self._location.uri(name), self._location.options
            table = self._open[name] = DeltaTable.create(
                uri, wanted, name=name, storage_options=options, configuration=_PROPERTIES
            )
        known = {field.name for field in table.schema().fields}
        new = [field for field in wanted.fields if field.name not in known]
        if new:
            table.alter.add_columns(new)
            table.update_incremental()
        return table

    def _addition(self, name: str, file: Path) -> AddAction:
        """Bring a file to its location, and describe it with its footer's statistics: readers skip files by them."""
        from deltalake.transaction import AddAction

        key = file.relative_to(self._root / name).as_posix()
        came_ms = self._location.bring(file, f"{name}/{key}")
        return AddAction(key, file.stat().st_size, {}, came_ms, True, statistics(file))

    def _replace(self, name: str, rows: pa.Table, number: int) -> None:
        from deltalake import write_deltalake

        if number <= self._done(name):
            return
        new = self._writer is None or self._table(name) is None
        write_deltalake(
            self._location.uri(name) if new else self.table(name),  # rule 9: not what a later run has written
            rows.replace_schema_metadata(None),
            mode="overwrite",
            schema_mode="overwrite",
            storage_options=self._location.options,
            commit_properties=self._named(number),
            post_commithook_properties=_bare(),
        )
        self._has[name] = number
        if new:
            self._open.pop(name, None)
        written = self._table(name)
        if written is not None:
            written.update_incremental()
            self._clean(written, name, _STATE_KEPT_HOURS)

    def _named(self, number: int | None, what: str = "", note: Mapping[str, str] | None = None) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        named = [] if number is None else [Transaction(self._ingest + what, number)]
        if self._writer is not None:
            named.append(Transaction(self._ingest + _WRITER, self._writer))
        return CommitProperties(app_transactions=named, custom_metadata=dict(note) if note else None)


def _bare() -> PostCommitHookProperties:
    """Have the library do nothing but commit (rule 7): else it looks for old commits at each new one."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def _target(sizes: list[int]) -> int | None:
    """Return the greatest magnitude that there are enough files for, each by far smaller; None if for none."""
    target, least = None, 0
    for magnitude in MAGNITUDES:
        if sum(least <= size < magnitude // 2 for size in sizes) >= BATCHES_PER_MERGE // 4:
            target = magnitude
        least = magnitude // 2
    return target


def _state(folder: Path) -> Path:
    """Return where a table's file lies if it is replaced whole."""
    return folder / f"{folder.name}.parquet"


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns alone, so that a later version may leave one out."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])
