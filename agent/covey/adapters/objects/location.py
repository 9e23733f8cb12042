"""The store at a location, which is a directory's path or the URL of a prefix in an object store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.files import storage_error
from covey.adapters.objects.cloud import CloudStore, open_cloud_store
from covey.adapters.objects.folder import DirectoryStore
from covey.adapters.objects.read_back import ReadBackStore
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from covey.ports import PiecewiseStore

READER_PATIENCE = timedelta(seconds=60)
"""How long a reader tries for one object: nobody waits for it as for a collector, and Spark's own retries are dear."""


def absolute_location(location: str) -> str:
    """Return a location as it holds in any process: a URL, or an absolute path."""
    return location if "://" in location else str(Path(location).absolute())


def open_object_store(location: str, base: Path) -> PiecewiseStore:
    """Return the store at a location; a directory is made where there is none.

    A relative directory is below `base`.

    Raises:
        ConfigurationError: no such kind of store, or its library is not installed.
        StorageError: the directory cannot be made.
    """
    return _opened(location, base)


def _opened(location: str, base: Path) -> DirectoryStore | CloudStore:
    if "://" in location:
        return open_cloud_store(location)
    root = base / location
    try:
        root.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error("make", root, error) from error
    return DirectoryStore(root)


def open_vault_store(location: str, base: Path) -> PiecewiseStore:
    """Return the same for what holds the only copy, or a copy for that case: all that is put is read back.

    Raises as `open_object_store`.
    """
    return ReadBackStore(_opened(location, base), location)


def open_existing_store(location: str) -> PiecewiseStore:
    """Return the store at a location, for a reader that makes nothing.

    Raises:
        ConfigurationError: there is no such directory, no such kind of store, or its library is not installed.
    """
    if "://" in location:
        return open_cloud_store(location, READER_PATIENCE)
    root = Path(location)
    if not root.is_dir():
        raise ConfigurationError(f"there is no vault at {root}", hint="name the folder that the collector writes to")
    return DirectoryStore(root)
