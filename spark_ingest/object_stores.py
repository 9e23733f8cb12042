"""Where a vault lies, for reading: a directory, or an object store (the `obstore` library). Never writes.

An object store's credentials come by its usual chain, on the driver and on each executor; none stands in options
or plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.vault_reading import VaultObjects
from agent.errors import ConfigurationError, LimitError, StorageError

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


class CloudStore:
    """The same, in an object store: S3, Google Cloud Storage, Azure."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store = store
        self._url = url

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
            raise ConfigurationError(f"{url} cannot be used: {_first_line(error)}") from error

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
            raise StorageError(f"{self._url}: read {key}: {_first_line(error)}") from error
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
            raise StorageError(f"{self._url}: list {prefix}: {_first_line(error)}") from error
        return iter(sorted(each["path"] for each in found))


def _first_line(error: Exception) -> str:
    """Return what an error says, without the debug text that the library adds: it holds whole requests."""
    return str(error).partition("\n")[0][:200]
