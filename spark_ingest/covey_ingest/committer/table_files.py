"""Which files tables consist of, for readers that know no Delta: those that the log of a table lists."""

from __future__ import annotations

from typing import Any

from covey.adapters.objects.cloud import brief
from covey.errors import ConfigurationError, MissingPackageError, StorageError
from covey_ingest.committer.copies import RESTORE_HINT, Copies
from covey_ingest.committer.table_locations import MARK, Bucket, Folder, TableLocation, location_at, open_table

_MARK_BYTES = 65_536


def tables_at(name: str) -> TableLocation:
    """Return the location of tables, given as a path or a URL.

    Raises:
        ConfigurationError: there is none, or no engine has written tables there.
        StorageError: the location refused, or was not reached.
    """
    location = location_at(name)
    if location.store.get(MARK, _MARK_BYTES) is None:
        raise ConfigurationError(
            f"there are no tables at {location.name}", hint="name the folder or URL that 'covey tables run' writes to"
        )
    return location


def check_log(location: TableLocation, table: str) -> None:
    """Compare what a reader needs of a log in a folder with its copies: damage would show as other rows.

    Raises:
        StorageError: it is damaged.
    """
    if isinstance(location, Folder):
        for each in Copies(location).log(table, restores=False):
            raise StorageError(f"{location.uri(table)}/{each.path} is damaged: {each.problem}", hint=RESTORE_HINT)


def files_and_times(location: TableLocation, table: str) -> dict[str, int]:
    """Return the names of a table's files, and when each was written, in microseconds since 1970.

    Raises:
        StorageError: the location refused, or was not reached.
    """
    from deltalake.exceptions import DeltaError

    check_log(location, table)
    try:
        found = open_table(location, table)
        actions = found.get_add_actions() if found else None
    except (OSError, DeltaError) as error:
        raise StorageError(f"{location.uri(table)} cannot be read: {brief(error)}") from error
    if actions is None:
        return {}
    paths, times = (actions.column(name).to_pylist() for name in ("path", "modification_time"))
    return {f"{location.uri(table)}/{path}": 1000 * came_ms for path, came_ms in zip(paths, times, strict=True)}


def register_files(database: Any, location: TableLocation) -> None:
    """Let DuckDB read the files of tables in an object store.

    Raises:
        MissingPackageError: a library is not installed.
    """
    if not isinstance(location, Bucket):
        return
    try:
        from obstore.fsspec import FsspecStore
    except ImportError as error:
        raise MissingPackageError("reading tables there", "fsspec", in_debian=False) from error
    scheme: Any = location.name.partition("://")[0]
    database.register_filesystem(FsspecStore(scheme))
