"""Where a vault lies, for reading: a directory, or an object store (the `obstore` library). Never writes to a vault.

An object store's credentials come by its usual chain, on the driver and on each executor; none stands in options
or plans. Tables that are published lie in an object store, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.core.vault.reading import VaultObjects
from covey.errors import ConfigurationError, LimitError, StorageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore


def absolute_location(location: str) -> str:
    """Return a vault's location as it holds in any process: a URL, or an absolute path."""
    return location if "://" in location else str(Path(location).absolute())


def open_vault(location: str) -> VaultObjects:
    """Return the store at a location.

    Raises:
        ConfigurationError: there is none, or it needs a library that is not installed.
    """
    if "://" in location:
        return CloudStore.at(location)
    root = Path(location)
    if not root.is_dir():
        raise ConfigurationError(f"there is no vault at {root}", hint="name the directory that the collector lands in")
    return DirectoryStore(root)


class DirectoryStore:
    """The reading half of `ports.ObjectStore`, on a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return the object, or None where there is none.

        Raises:
            LimitError: it is longer than `maximum` bytes.
            StorageError: the directory could not be read.
        """
        try:
            with (self._root / key).open("rb") as file:
                content = file.read(maximum + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{key} cannot be read: {error.strerror}") from error
        if len(content) > maximum:
            raise LimitError(f"{key} is longer than {maximum} bytes")
        return content

    def keys(self, prefix: str) -> Iterator[str]:
        """List the keys right under a prefix, sorted.

        Raises:
            StorageError: the directory could not be read.
        """
        try:
            names = sorted(entry.name for entry in (self._root / prefix).iterdir())
        except FileNotFoundError:
            names = []
        except OSError as error:
            raise StorageError(f"{prefix} cannot be read: {error.strerror}") from error
        return iter([prefix + name for name in names])


_PART_BYTES = 5 * 1024 * 1024
_PARTS_AT_ONCE = 2
"""A file of any size is read in parts of `_PART_BYTES`: 10 MiB in memory."""


class CloudStore:
    """The same, in an object store: S3, Google Cloud Storage, Azure. Published tables are written there as well."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store = store
        self.url = url

    @classmethod
    def at(cls, url: str) -> CloudStore:
        """Return the store that a URL names: `s3://bucket/prefix`.

        Raises:
            ConfigurationError: it names none, or the library is not installed.
        """
        try:
            from obstore.store import from_url
        except ImportError as error:
            raise ConfigurationError(
                "object stores need the library obstore", hint="pip install 'covey[cloud]' here and on the executors"
            ) from error
        try:
            return cls(from_url(url, retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=60)}), url)
        except Exception as error:  # the library raises classes of its own for what it finds in the environment
            raise ConfigurationError(f"{url} cannot be used: {brief(error)}") from error

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return the object, or None where there is none.

        Raises:
            LimitError: it is longer than `maximum` bytes.
            StorageError: the store refused, or was not reached.
        """
        import obstore

        try:
            found = obstore.get(self._store, key)
            if found.meta["size"] <= maximum:
                return bytes(found.bytes())
        except FileNotFoundError:
            return None
        except Exception as error:  # its errors have no common class beside Exception
            raise self._refused("read", key, error) from error
        raise LimitError(f"{key} is longer than {maximum} bytes")

    def keys(self, prefix: str) -> Iterator[str]:
        """List the keys right under a prefix, sorted.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        try:
            found = obstore.list_with_delimiter(self._store, prefix.rstrip("/"))["objects"]
        except Exception as error:  # as above
            raise self._refused("list", prefix, error) from error
        return iter(sorted(each["path"] for each in found))

    def is_empty(self) -> bool:
        """Say whether nothing lies under the URL.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        try:
            found = obstore.list_with_delimiter(self._store)
        except Exception as error:  # as above
            raise self._refused("list", "what is there", error) from error
        return not found["objects"] and not found["common_prefixes"]

    def create(self, key: str, content: bytes) -> bool:
        """Store a small object where there is none; say whether there was none (a conditional put).

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            obstore.put(self._store, key, content, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except Exception as error:  # as above
            raise self._refused("write", key, error) from error
        return True

    def upload(self, key: str, file: Path) -> None:
        """Store a file whole, in parts if it is large.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        try:
            obstore.put(self._store, key, file, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)
        except Exception as error:  # as above
            raise self._refused("write", key, error) from error

    def as_files(self) -> Any:
        """Return the store as a file system (fsspec's), for a library that reads files: names are whole URLs.

        Raises:
            ConfigurationError: a library is not installed.
        """
        try:
            from obstore.fsspec import FsspecStore
        except ImportError as error:
            raise ConfigurationError("reading tables there needs fsspec", hint="pip install 'covey[report]'") from error
        scheme: Any = self.url.partition("://")[0]
        return FsspecStore(scheme)

    def _refused(self, action: str, key: str, error: Exception) -> StorageError:
        return StorageError(f"{self.url}: {action} {key}: {brief(error)}")


def brief(error: Exception) -> str:
    """Return what a library of the object store's kind says, in a line, without what it adds for debugging.

    That holds whole requests; and the query of a URL may hold a signature.
    """
    said = re.sub(r"\x1b\[\d*m|↳", " ", str(error).partition("\n\n")[0])
    return re.sub(r"\?\S*", "", " ".join(said.split()))[:200]
