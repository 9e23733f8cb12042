"""`covey tables export`: a table as plain Parquet, for programs that know no Delta. A copy of one moment."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

from covey.adapters.objects.cloud import brief
from covey.errors import ConfigurationError, StorageError
from covey_ingest.committer.table_files import tables_at
from covey_ingest.committer.table_locations import open_table

_ROWS_PER_FILE = 10_000_000


def export(name: str, table: str, folder: Path) -> int:
    """Write a table's rows into a new folder of Parquet files; return how many.

    Raises:
        ConfigurationError: there are no such tables, or the folder is not empty.
        StorageError: the tables or the folder refused.
    """
    from deltalake.exceptions import DeltaError

    found = open_table(tables_at(name), table)
    if found is None:
        raise ConfigurationError(f"{name} has no table {table}", hint="name a documented table, such as readings")
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise ConfigurationError(f"{folder} is not empty", hint="name a folder that does not exist yet")
        rows = found.to_pyarrow_dataset()
        ds.write_dataset(
            rows,
            folder,
            format="parquet",
            file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
            max_rows_per_file=_ROWS_PER_FILE,
            max_rows_per_group=131_072,
        )
        return int(rows.count_rows())
    except (OSError, DeltaError) as error:
        raise StorageError(f"{table} cannot be exported to {folder}: {brief(error)}") from error
