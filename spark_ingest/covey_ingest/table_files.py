"""Where tables lie and of which files they consist, for readers that are not Spark. Parquet and Delta alike.

A Delta table's files are those that its log lists; a Parquet table's are all of its committed micro-batches. Either
way they are plain Parquet. Tables in an object store are Delta tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from covey.adapters.objects.cloud import brief
from covey.errors import ConfigurationError, MissingPackageError, StorageError
from covey_ingest.table_locations import MARK, Bucket, open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

TABLES = ("readings", "devices", "gaps", "losses", "quarantine", "orders", "commands", "settings")


def checked_root(location: str) -> Path | Bucket:
    """Return the location of the tables.

    Raises:
        ConfigurationError: there is none, or no ingest has written to it.
        StorageError: the object store refused, or was not reached.
    """
    hint = "give the folder that covey ingest writes its tables to, or the URL where it publishes them"
    if "://" in location:
        bucket = Bucket.at(location)
        if not bucket.is_claimed():
            raise ConfigurationError(f"{bucket.url} holds no tables of the ingest", hint=hint)
        return bucket
    root = Path(location).absolute()
    if not root.is_dir():
        raise ConfigurationError(f"there is no folder {root}", hint=hint)
    if not (root / MARK).is_file() and not any((root / table).is_dir() for table in TABLES):
        raise ConfigurationError(f"{root} holds no tables of the ingest", hint=hint)
    return root


def table_files(root: Path, table: str) -> list[Path]:
    """Return a table's data files, sorted; none where there is no such table yet.

    Raises:
        MissingPackageError: it is a Delta table, and what reads its log is not installed.
    """
    folder = root / table
    if (folder / "_delta_log").is_dir():
        return sorted(_delta_files(folder))
    return sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith((".", "_")))


def files_and_times(root: Path | Bucket, table: str) -> dict[str, int]:
    """Return the names of a table's data files, and when each was written, in microseconds since 1970.

    Raises:
        ConfigurationError: as `table_files`.
        StorageError: the object store refused, or was not reached.
    """
    if isinstance(root, Path):
        return {str(file): file.stat().st_mtime_ns // 1000 for file in table_files(root, table)}
    try:
        found = _delta(root.uri(table), root.options)
        actions = found.get_add_actions() if found else None
    except OSError as error:
        raise StorageError(f"{root.uri(table)} cannot be read: {brief(error)}") from error
    if actions is None:
        return {}
    paths, times = (actions.column(name).to_pylist() for name in ("path", "modification_time"))
    return {f"{root.uri(table)}/{path}": 1000 * came_ms for path, came_ms in zip(paths, times, strict=True)}


def _delta_files(folder: Path) -> Iterator[Path]:
    table = _delta(str(folder))
    for uri in table.file_uris() if table else ():
        yield Path(unquote(urlsplit(uri).path)) if uri.startswith("file:") else Path(uri)


def _delta(uri: str, options: dict[str, str] | None = None) -> DeltaTable | None:
    """Return the table as its log has it, or None where there is none."""
    try:
        return open_table(uri, options)
    except ImportError:
        raise MissingPackageError(f"{uri}, a Delta table,", "deltalake", in_debian=False) from None


def as_file_system(bucket: Bucket) -> Any:
    """Return an object store as a file system (fsspec's), for a library that reads files: names are whole URLs.

    Raises:
        MissingPackageError: a library is not installed.
    """
    try:
        from obstore.fsspec import FsspecStore
    except ImportError as error:
        raise MissingPackageError("a report on tables there", "fsspec", in_debian=False) from error
    scheme: Any = bucket.url.partition("://")[0]
    return FsspecStore(scheme)
