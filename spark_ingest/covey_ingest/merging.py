"""Small files of plain Parquet tables become large ones, where nobody follows the tables' folder as a stream.

Who lists the table and then reads it sees each reading once. Who takes in files as they come, and remembers which, or
lists folder by folder while it reads, would take a merged file for news: so nothing is merged unasked (ADR 54).

    readings/batch=B/merged-*.parquet    what micro-batches A to B brought, in the folder of the last of them

1. Micro-batches that follow each other and are small are merged as soon as there are `FOLDERS_PER_MERGE` of one
   magnitude, or four times as many of any; what comes of that is of the next magnitude, in time. So each reading is
   written anew a few times, and folders stay few: some dozens, and one for each `FILE_BYTES`. The newest is left
   alone: a replay may ask for it.
2. A table is made anew beside itself: hard links to what stays, and the merged file. When that file is on the disk the
   two folders change places in one step (`renameat2(2)`, RENAME_EXCHANGE: Linux with ext4, XFS, Btrfs, tmpfs). These
   file systems log changes of folders in their order, so that the exchange is never there without the links.
   Where the file system cannot, nothing is merged. Killed before or after, there is one whole table.
3. The other tables follow the boundaries of `readings`, and go first. So readings/batch=N is there for each N of
   theirs, at any moment.
4. In memory are one row group's bytes and the rows that are unpacked of it, `_ROWS_AT_ONCE`, beside the row group that
   is written: of `_ROWS_PER_GROUP` rows, or `_BYTES_PER_GROUP`.
5. A reader that has looked for files just before gets an error where it opens one that was merged, and asks again.

Delta tables merge by their log: `delta_log`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from covey.adapters.files import synchronise
from covey_ingest import clustering

FOLDERS_PER_MERGE = 16
FILE_BYTES = 128 * 1024 * 1024
"""A folder of this size is never merged again."""

_MAGNITUDES = (1024 * 1024, 16 * 1024 * 1024, FILE_BYTES)
_TABLES = ("losses", "quarantine", "orders", "commands", "settings", "memberships", "rollups", "readings")
_ROWS_PER_GROUP = 131_072
_BYTES_PER_GROUP = 64 * 1024 * 1024
_ROWS_AT_ONCE = 1024
"""A command's output has up to 64 KiB, and may be packed to nothing: so many rows are unpacked, and no more."""
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def merge(root: Path, staging: Path, upto: int | None = None) -> int:
    """Merge what is due in the tables under `root`; return how many micro-batches' folders went into others.

    Micro-batches above `upto` are left alone.

    Raises:
        OSError: the disk refused. The tables are whole.
    """
    merged = 0
    while (numbers := _due(root / "readings", upto)) and can_exchange(staging):
        for table in _TABLES:
            _merge(root / table, staging, numbers[0], numbers[-1])
        merged += len(numbers) - 1
    return merged


def _due(readings: Path, upto: int | None) -> list[int]:
    """Return the numbers of neighbours that are to be one (rule 1), or none."""
    folders = sorted(_folders(readings).items())[:-1]
    old = [(number, folder) for number, folder in folders if upto is None or number <= upto]
    sizes = {number: sum(file.stat().st_size for file in folder.glob("*.parquet")) for number, folder in old}
    for magnitude, bound in enumerate(_MAGNITUDES):
        for small, run in groupby(sizes, lambda number: sizes[number] < bound):  # noqa: B023 - used up at once
            numbers = [*run]
            alike = sum(_magnitude(sizes[number]) == magnitude for number in numbers)
            if small and (alike >= FOLDERS_PER_MERGE or len(numbers) >= 4 * FOLDERS_PER_MERGE):
                return _first(numbers, sizes)
    return []


def _first(numbers: list[int], sizes: dict[int, int]) -> list[int]:
    """Return the first of a run: as many as make a large file."""
    taken, total = [], 0
    for number in numbers:
        taken.append(number)
        total += sizes[number]
        if total >= FILE_BYTES:
            break
    return taken


def _magnitude(size: int) -> int:
    return sum(size >= bound for bound in _MAGNITUDES)


def _folders(table: Path) -> dict[int, Path]:
    return {int(folder.name.removeprefix("batch=")): folder for folder in table.glob("batch=*")}


def _merge(table: Path, staging: Path, first: int, last: int) -> None:
    """Let the folder `last` hold what those from `first` on do."""
    parts = {number: folder for number, folder in sorted(_folders(table).items()) if first <= number <= last}
    if [*parts] in ([], [last]):
        return
    new = staging / f"{table.name}-merged-{uuid.uuid4().hex}"
    link_table(table, new, without={*parts.values()})
    target = new / f"batch={last}"
    target.mkdir()
    files = [file for folder in parts.values() for file in sorted(folder.glob("*.parquet"))]
    if table.name == "readings" and all(set(pq.read_schema(file).names) >= clustering.COLUMNS for file in files):
        _cluster(files, target)
    else:
        _write(files, target)
    for written in (*target.iterdir(), target):
        synchronise(written)
    replace_table(table, new)


def link_table(table: Path, new: Path, without: AbstractSet[Path] = frozenset()) -> None:
    """Make a folder of links to the files of a table, but for those in some of its folders."""
    new.mkdir(parents=True)
    for entry in table.iterdir():
        if entry in without:
            continue
        if entry.is_dir():
            shutil.copytree(entry, new / entry.name, copy_function=os.link)
        else:
            (new / entry.name).hardlink_to(entry)


def replace_table(table: Path, new: Path) -> None:
    """Let a folder take a table's place in one step, and remove what stood there; its files are on the disk already."""
    synchronise(new)
    _exchange(new, table)
    synchronise(table.parent)
    shutil.rmtree(new, ignore_errors=True)


def _cluster(files: list[Path], folder: Path) -> None:
    """Write files of readings as one, in the order of `clustering`."""
    if files:
        schema = pa.unify_schemas([pq.read_schema(file) for file in files]).remove_metadata()
        clustering.clustered(ds.dataset([*map(str, files)], schema, format="parquet"), schema, folder, 2 * FILE_BYTES)


def _write(files: list[Path], folder: Path) -> None:
    """Write files as one, in their order. A column that some of them lack is null there."""
    if not files:
        return
    schema = pa.unify_schemas([pq.read_schema(file) for file in files]).remove_metadata()
    path = folder / f"merged-{uuid.uuid4().hex}.parquet"
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as writer:
        for rows in _groups(files, schema):
            writer.write_table(rows, row_group_size=_ROWS_PER_GROUP)


def _groups(files: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield rows in parts of one row group each (rule 4)."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for part in _parts(files, schema):
        if waiting and (rows + len(part) > _ROWS_PER_GROUP or size + part.nbytes > _BYTES_PER_GROUP):
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(part)
        rows, size = rows + len(part), size + part.nbytes
    if waiting:
        yield pa.concat_tables(waiting)


def _parts(files: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of files, some at a time: unlike a dataset's scanner, this unpacks no row group whole."""
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
                part = pa.Table.from_batches([batch])
                columns = [
                    part[field.name].cast(field.type)
                    if field.name in part.schema.names
                    else pa.nulls(len(part), field.type)
                    for field in schema
                ]
                yield pa.table(columns, schema=schema)


def can_exchange(staging: Path) -> bool:
    """Say whether two folders there can change places in one step. Raises OSError."""
    pair = [staging / f"exchange-{uuid.uuid4().hex}" for _ in range(2)]
    try:
        for folder in pair:
            folder.mkdir(parents=True)
        _exchange(*pair)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return False
    finally:
        for folder in pair:
            shutil.rmtree(folder, ignore_errors=True)
    return True


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change places, in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = errno.ENOSYS
    if hasattr(libc, "renameat2"):
        if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), str(other))
