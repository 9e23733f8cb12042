"""Deletes from tables in a folder: all rows of a device, or what collectors had before some moment. Needs no Spark.

Of tables in an object store: `store_deleting`.

1. What was deleted is noted first (rule 3 of `deletions`), then goes table by table: `readings` last, so that who was
   interrupted still sees that there is something to do.
2. At no moment a reader sees half of a table. A Delta table loses rows in one commit of its log; its old files, and
   what its change feed says of them, go a day later, with the next ingest, when nobody reads them any more. Of a plain
   table a new folder is made beside it, by hard links to the files that stay and with those that change written anew
   under their own names, and the two change places in one step: a stream that follows the folder meets no file that it
   has not met. What is replaced whole is replaced.
3. One writer: the ingest holds the lock of its tables, and is stopped for it.
4. Rows are found by footers first: a file of readings in order (`clustering`) names its authors.
5. Published tables lose the rows in the store first, once all that is committed has been brought there; so the rows
   that the working tables still have say what is left to do.
6. A manifest that lists nobody else would be forgotten with its one member, and what it replaced would seem to hold.
   Its collector, which is a member as well, is in each that has landed: only of a collector alone that can be so.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from covey.adapters.files import synchronise
from covey.adapters.objects.cloud import brief
from covey.core.ids import KEY_BYTES
from covey.errors import ConfigurationError, StorageError
from covey_ingest import deletions
from covey_ingest.delta_log import DeltaLog, is_delta
from covey_ingest.merging import can_exchange, link_table, replace_table
from covey_ingest.publisher import published_at
from covey_ingest.schema import TIMESTAMP
from covey_ingest.state_file import read_state, replace_state
from covey_ingest.table_files import table_files
from covey_ingest.table_locations import MARK, Folder, TableLocation, open_table

_OF_DEVICES = ("losses", "commands", "settings", "quarantine", "memberships", "rollups", "readings")
_STATES = ("devices", "gaps", "clocks", "members")
_AGED = ("losses", "quarantine", "readings")
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class Due:
    """Which rows go, of which tables: for pyarrow, and in the SQL of the Delta library. None of it is ever null."""

    tables: tuple[str, ...]
    rows: pc.Expression
    sql: str


def whole_key(beginning: str, authors: Callable[[], list[str]]) -> str:
    """Return the key of the one of these devices whose key begins so; a whole key is asked of nobody.

    Raises:
        ConfigurationError: there is none, or more than one.
    """
    if len(beginning) == 2 * KEY_BYTES:
        return beginning
    found = sorted({author for author in authors() if author.startswith(beginning)})
    if len(found) != 1:
        raise ConfigurationError(
            f"{len(found)} devices in these tables have a key that begins with {beginning!r}",
            hint="give the whole key: `author` in the table devices",
        )
    return found[0]


def authors(tables: Path) -> list[str]:
    """Return the keys of the devices in the tables, in hex."""
    files = [str(file) for file in table_files(tables, "devices")]
    return ds.dataset(files, format="parquet").to_table(["author"])["author"].to_pylist() if files else []


def of_author(author: str) -> Due:
    """Return all rows of a device."""
    named = pc.field("author")
    return Due((*_STATES, *_OF_DEVICES), named.is_valid() & (named == author), f"author = '{author}'")


def of_before(moment_us: int) -> Due:
    """Return readings, losses and quarantine that collectors had before a moment, in microseconds since 1970."""
    had = pc.field("received_at")
    rows = had.is_valid() & (had < pa.scalar(moment_us, TIMESTAMP))
    moment = f"arrow_cast({moment_us}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    return Due(_AGED, rows, f"received_at < {moment}")


def counted(tables: Path, due: Due) -> dict[str, int]:
    """Return how many rows would go, by table; tables that have none are left out."""
    found = {name: _count(table_files(tables, name), due) for name in due.tables}
    return {name: rows for name, rows in found.items() if rows}


def _count(files: list[Path], due: Due) -> int:
    return ds.dataset([*map(str, files)], format="parquet").scanner(filter=due.rows).count_rows() if files else 0


def delete(tables: Path, due: Due, noted: deletions.Deletions) -> dict[str, int]:
    """Delete rows, and note it; return how many went, by table. The caller holds the lock (rule 3).

    Raises:
        ConfigurationError: they are published where another ingest publishes, or the library is not installed.
        StorageError: the disk or the store refused, or folders cannot be exchanged; what was noted holds, and the rest
            can be retried.
    """
    location = _complete_log(tables)
    found, staging = counted(tables, due), tables / ".staging"
    plain = [name for name in found if name not in _STATES and not is_delta(tables / name)]
    try:
        if plain and not can_exchange(staging):
            raise StorageError(
                f"the file system of {tables} cannot exchange two folders in one step",
                hint="move the tables to ext4, XFS or Btrfs, or start the ingest once with --sink delta",
            )
        deletions.write(tables, noted)
        for name in due.tables:
            if name in found:
                _delete_from(tables, name, due, location)
    except OSError as error:
        raise StorageError(f"the tables at {tables} refused: {error}", hint="say it again: the rest follows") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return found


def _complete_log(tables: Path) -> TableLocation | None:
    """Return where a log of these tables lies, if they have one.

    What a killed ingest has committed and not added is added first: else its rows would come by the next one.
    """
    mark = tables / MARK
    binding = json.loads(mark.read_bytes()) if mark.exists() else {}
    location: TableLocation | None = published_at(tables, binding)
    if location is None and is_delta(tables / "readings"):
        location = Folder(tables)
    if location is not None and binding:
        DeltaLog(tables, binding["ingest"], location).publish(last=True)
    return location


def purge_states(tables: Path, due: Due) -> None:
    """Take rows out of all that is replaced whole, in a driver's own folder. Raises OSError."""
    for name in _STATES:
        if name in due.tables:
            _purge_state(tables, name, due)


def _purge_state(tables: Path, name: str, due: Due) -> None:
    path = tables / name / f"{name}.parquet"
    rows, last = read_state(path, pa.schema([("author", pa.string())]))
    if last >= 0:
        replace_state(path, rows.filter(~due.rows), last)


def _delete_from(tables: Path, name: str, due: Due, location: TableLocation | None) -> None:
    if location is not None:
        _delete_logged(location, name, due)
    if name in _STATES:
        _purge_state(tables, name, due)
    elif not is_delta(tables / name):
        _exchange_without(tables, name, due)


def _delete_logged(location: TableLocation, name: str, due: Due) -> None:
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(location.uri(name), location.options)
        if table is not None:
            table.delete(due.sql)
    except (DeltaError, OSError) as error:
        raise StorageError(
            f"the Delta table {location.uri(name)} refused: {brief(error)}", hint="say it again: the rest follows"
        ) from error


def _exchange_without(tables: Path, name: str, due: Due) -> None:
    """Put another folder in a plain table's place, without the rows (rule 2)."""
    table, new = tables / name, tables / ".staging" / f"{name}-without-{uuid.uuid4().hex}"
    link_table(table, new)
    for file in table_files(tables, name):
        if _count([file], due):
            place = new / file.relative_to(table)
            place.unlink()
            _copy_without(file, place, due)
    replace_table(table, new)


def _copy_without(file: Path, place: Path, due: Due) -> None:
    """Write a file once more without some rows; the ones that stay keep their order."""
    with pq.ParquetFile(file) as source, pq.ParquetWriter(place, source.schema_arrow, compression="zstd") as writer:
        for batch in source.iter_batches(_ROWS_AT_ONCE):
            kept = pa.Table.from_batches([batch]).filter(~due.rows)
            if len(kept):
                writer.write_table(kept)
    synchronise(place)
    synchronise(place.parent)
