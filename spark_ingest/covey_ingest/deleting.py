"""Deletes from tables: all rows of a device, or what collectors had before some moment. Needs no Spark.

1. What was deleted is noted first (rule 3 of `deletions`), then goes table by table: `readings` last, so that who was
   interrupted still sees that there is something to do.
2. At no moment a reader sees half of a table. A Delta table loses rows in one commit of its log; its old files, and
   what its change feed says of them, go a day later, with the next ingest, when nobody reads them any more. Of a plain
   table a new folder is made beside it, by hard links to the files that stay and with those that change written anew
   under their own names, and the two change places in one step: a stream that follows the folder meets no file that it
   has not met. What is replaced whole is replaced.
3. One writer: the ingest holds the lock of its tables, and is stopped for it.
4. Rows are found by footers first: a file of readings in order (`clustering`) names its authors.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from covey.adapters.files import synchronise
from covey.core.ids import KEY_BYTES
from covey.errors import ConfigurationError, StorageError
from covey_ingest import deletions
from covey_ingest.delta_log import DeltaLog, is_delta
from covey_ingest.merging import can_exchange, link_table, replace_table
from covey_ingest.schema import TIMESTAMP
from covey_ingest.state_file import read_state, replace_state
from covey_ingest.table_files import table_files
from covey_ingest.table_locations import MARK, open_table

_OF_DEVICES = ("losses", "commands", "settings", "quarantine", "rollups", "readings")
_STATES = ("devices", "gaps", "clocks")
_AGED = ("losses", "quarantine", "readings")
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class Due:
    """Which rows go, of which tables: for pyarrow, and in the SQL of the Delta library. None of it is ever null."""

    tables: tuple[str, ...]
    rows: pc.Expression
    sql: str


def whole_key(tables: Path, beginning: str) -> str:
    """Return the key of the one device in the tables whose key begins so; a whole key needs none there.

    Raises:
        ConfigurationError: there is none, or more than one.
    """
    if len(beginning) == 2 * KEY_BYTES:
        return beginning
    files = [str(file) for file in table_files(tables, "devices")]
    authors = ds.dataset(files, format="parquet").to_table(["author"])["author"].to_pylist() if files else []
    found = sorted({author for author in authors if author.startswith(beginning)})
    if len(found) != 1:
        raise ConfigurationError(
            f"{len(found)} devices in these tables have a key that begins with {beginning!r}",
            hint="give the whole key: `author` in the table devices",
        )
    return str(found[0])


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
        ConfigurationError: these tables are published.
        StorageError: the disk refused, or cannot exchange folders; what was noted holds, and the rest can be retried.
    """
    if (tables / ".published.json").exists():
        raise ConfigurationError(
            f"the tables at {tables} are published, and nothing is deleted there",
            hint="fill new tables from the vault, beginning with a deletions.json, and publish them elsewhere",
        )
    _complete_log(tables)
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
                _delete_from(tables, name, due)
    except OSError as error:
        raise StorageError(f"the tables at {tables} refused: {error}", hint="say it again: the rest follows") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return found


def _complete_log(tables: Path) -> None:
    """Add to a Delta log what a killed ingest has committed and not added: else its rows would come by the next one."""
    binding = tables / MARK
    if is_delta(tables / "readings") and binding.exists():
        DeltaLog(tables, json.loads(binding.read_bytes())["ingest"]).publish(last=True)


def _delete_from(tables: Path, name: str, due: Due) -> None:
    if name in _STATES:
        path = tables / name / f"{name}.parquet"
        rows, last = read_state(path, pa.schema([("author", pa.string())]))
        if last >= 0:
            replace_state(path, rows.filter(~due.rows), last)
    if is_delta(tables / name):
        table = open_table(str(tables / name))
        if table is not None:
            table.delete(due.sql)
    elif name not in _STATES:
        _exchange_without(tables, name, due)


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
