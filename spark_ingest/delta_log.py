"""The tables as Delta tables: a transaction log over the files that `tables` commits. Library: `deltalake` (delta-rs).

    readings/_delta_log/       the log; so for losses and quarantine
    readings/batch=N/*.parquet the files of micro-batch N, as executors wrote them: no reading passes the driver
    readings/*.parquet         small files of many micro-batches, merged
    devices/_delta_log/        the same for what is replaced whole (and gaps/), at most once a minute and when the
                               ingest ends

1. A micro-batch is added to the log in one commit that carries the ingest's name and N (`txn`). What the log says of N
   is asked first, so that a replay adds nothing, whatever was killed between the rename and the commit.
2. The log follows the folders: whatever it lacks is added, in order. So Parquet tables become Delta tables at any time.
   They do not turn back: merged files and the small ones lie beside each other until the latter are old enough.
3. Every `BATCHES_PER_MERGE` micro-batches small files are merged, and what was replaced a week ago is deleted.
4. A column that files have and the table lacks is added to the table. One that the table has and files lack is null.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from agent.errors import ConfigurationError, StorageError
from spark_ingest.state_file import read_state

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

BATCHES_PER_MERGE = 64
FILE_BYTES = 128 * 1024 * 1024
"""Files grow to this by merging."""

_KEPT_HOURS = 168
_STATE_KEPT_HOURS = 1
_STATE_SECONDS = 60.0


def is_delta(folder: Path) -> bool:
    """Say whether a table has a log."""
    return (folder / "_delta_log").is_dir()


class DeltaLog:
    """The logs of all tables under one root, written by one ingest."""

    def __init__(self, root: Path, ingest: str) -> None:
        """Name the tables, and the ingest whose micro-batches are numbered.

        Raises:
            ConfigurationError: the library is not installed.
        """
        try:
            import deltalake  # noqa: F401 - before anything is written
        except ImportError as error:
            raise ConfigurationError("Delta tables need deltalake", hint="pip install 'covey[delta]'") from error
        self._root = root
        self._ingest = ingest
        self._states_at = float("-inf")

    def publish(self, *, last: bool = False) -> None:
        """Bring the logs up to the committed micro-batches; tables that are replaced whole not each time, but at last.

        Raises:
            StorageError: a log refused.
        """
        from deltalake.exceptions import DeltaError

        states_due = last or time.monotonic() - self._states_at >= _STATE_SECONDS
        try:
            for folder in sorted(path for path in self._root.iterdir() if path.is_dir()):
                if folder.name.startswith("."):
                    continue
                state = folder / f"{folder.name}.parquet"
                if not state.exists():
                    self._add_batches(folder)
                elif states_due:
                    self._replace(folder, state)
        except DeltaError as error:
            raise StorageError(f"the Delta log of {self._root} refused: {str(error).splitlines()[0]}") from error
        if states_due:
            self._states_at = time.monotonic()

    def _add_batches(self, folder: Path) -> None:
        table = _table(folder)
        done = _version(table, self._ingest)
        for number, batch in sorted(_batches(folder, done)):
            files = sorted(batch.glob("*.parquet"))
            schema = _nullable(pq.read_schema(files[0])) if files else None
            if schema is not None:
                table = _widened(folder, table, schema)
                actions: list[AddAction | RemoveAction] = [_addition(folder, file) for file in files]
                table.create_write_transaction(actions, "append", table.schema(), commit_properties=self._named(number))
                table.update_incremental()
            if table is not None and number % BATCHES_PER_MERGE == BATCHES_PER_MERGE - 1:
                table.optimize.compact(target_size=FILE_BYTES)
                table.vacuum(_KEPT_HOURS, dry_run=False)

    def _replace(self, folder: Path, state: Path) -> None:
        from deltalake import write_deltalake

        rows, number = read_state(state, pa.schema([]))
        table = _table(folder)
        if number <= _version(table, self._ingest):
            return
        rows = rows.replace_schema_metadata(None)
        named = self._named(number)
        write_deltalake(folder, rows, mode="overwrite", schema_mode="overwrite", commit_properties=named)
        written = _table(folder)
        if written is not None:
            written.vacuum(_STATE_KEPT_HOURS, dry_run=False, enforce_retention_duration=False)

    def _named(self, number: int) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        return CommitProperties(app_transactions=[Transaction(self._ingest, number)])


def _batches(folder: Path, done: int) -> Iterator[tuple[int, Path]]:
    for batch in folder.glob("batch=*"):
        number = int(batch.name.removeprefix("batch="))
        if number > done:
            yield number, batch


def _table(folder: Path) -> DeltaTable | None:
    from deltalake import DeltaTable

    return DeltaTable(folder) if is_delta(folder) else None


def _version(table: DeltaTable | None, ingest: str) -> int:
    version = table.transaction_version(ingest) if table is not None else None
    return -1 if version is None else version


def _widened(folder: Path, table: DeltaTable | None, schema: pa.Schema) -> DeltaTable:
    """Return the table with all columns of the schema (rule 4)."""
    from deltalake import DeltaTable, Schema

    wanted = Schema.from_arrow(schema)
    if table is None:
        return DeltaTable.create(folder, wanted, name=folder.name)
    known = {field.name for field in table.schema().fields}
    new = [field for field in wanted.fields if field.name not in known]
    if new:
        table.alter.add_columns(new)
        table.update_incremental()
    return table


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns alone, so that a later version may leave one out."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _addition(folder: Path, file: Path) -> AddAction:
    """Describe a file for the log, with its footer's statistics: readers skip files by them."""
    from deltalake.transaction import AddAction

    told = file.stat()
    path = file.relative_to(folder).as_posix()
    return AddAction(path, told.st_size, {}, int(told.st_mtime * 1000), True, _statistics(file))


def _statistics(file: Path) -> str:
    footer = pq.read_metadata(file)
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    for place in range(footer.num_columns):
        name = footer.schema.column(place).path
        parts = [footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups)]
        if "." in name or not parts or not all(part is not None and part.has_min_max for part in parts):
            continue
        low, high = min(part.min for part in parts), max(part.max for part in parts)
        if isinstance(low, datetime):
            low, high = _milliseconds(low, 0), _milliseconds(high, 999)
        elif not isinstance(low, int | str) or isinstance(low, bool):
            continue
        least[name], most[name] = low, high
    return json.dumps({"numRecords": footer.num_rows, "minValues": least, "maxValues": most})


def _milliseconds(moment: datetime, round_up_us: int) -> str:
    """Write a time as the log has it, in milliseconds: rounded away from what is within."""
    whole = (int(moment.timestamp()) * 1_000_000 + moment.microsecond + round_up_us) // 1000
    seconds, milliseconds = divmod(whole, 1000)
    return f"{datetime.fromtimestamp(seconds, moment.tzinfo):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
