"""A vault in an object store: S3 and what speaks like it, Google Cloud Storage, Azure (the `obstore` library).

Credentials come by the store's usual chain: the environment (`AWS_ACCESS_KEY_ID`, …), a web identity, the container's
or the machine's role; `AWS_ENDPOINT_URL` and `AWS_REGION` name a store of one's own. None stands in Covey's settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from covey.adapters.objects.folder import check_key
from covey.errors import ConfigurationError, ConflictError, LimitError, StorageError
from covey.limits import MAXIMUM_VAULT_MANIFEST_BYTES

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az", "abfss")
_PATIENCE = timedelta(seconds=20)
"""How long one object is tried for: below the watchdog's time, as a collector waits for its store."""


def open_cloud_store(url: str) -> CloudStore:
    """Return the store that a URL names: `s3://bucket/prefix`.

    Raises:
        ConfigurationError: not such a URL, or the library is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc or parts.query or parts.fragment or parts.password:
        raise ConfigurationError(
            f"{url!r} names no object store", hint=f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}BUCKET/PREFIX"
        )
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise ConfigurationError("object stores need the library obstore", hint="pip install 'covey[cloud]'") from error
    try:
        store = from_url(
            url,
            client_options={"timeout": timedelta(seconds=10), "allow_http": _is_true("AWS_ALLOW_HTTP")},
            retry_config={"max_retries": 3, "retry_timeout": _PATIENCE},
        )
    except Exception as error:  # the library raises classes of its own for what it finds in the environment
        raise ConfigurationError(f"{url} cannot be used: {_first_line(error)}") from error
    return CloudStore(store, url)


class CloudStore:
    """Implements `ports.ObjectStore`. An object is put whole or not at all; the store says so."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store = store
        self._url = url

    def put(self, key: str, content: bytes) -> None:
        """Store durably and atomically.

        Raises:
            MalformedError: not a key.
            StorageError: the store refused, or was not reached.
        """
        self._put(key, content, "overwrite")

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store where the object is still `before`, or still absent; the store itself compares (a conditional put).

        Raises:
            MalformedError: not a key.
            ConflictError: it is something else.
            StorageError: the store refused, or was not reached.
        """
        if before is None:
            self._put(key, content, "create")
            return
        found = self._get(key, MAXIMUM_VAULT_MANIFEST_BYTES)
        if found is None or found[0] != before:
            raise ConflictError(f"somebody else has replaced {key}")
        self._put(key, content, {"e_tag": found[1]})

    def _put(self, key: str, content: bytes, mode: Any) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        check_key(key)
        with self._told("write", key):
            try:
                obstore.put(self._store, key, content, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError) as error:
                raise ConflictError(f"somebody else has replaced {key}") from error

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return the object, or None where there is none.

        Raises:
            MalformedError: not a key.
            LimitError: longer than `maximum` bytes.
            StorageError: the store refused, or was not reached.
        """
        found = self._get(key, maximum)
        return found[0] if found else None

    def _get(self, key: str, maximum: int) -> tuple[bytes, str | None] | None:
        """Return an object and its version."""
        import obstore

        check_key(key)
        with self._told("read", key):
            try:
                found = obstore.get(self._store, key)
                if found.meta["size"] > maximum:
                    raise LimitError(f"{key} is longer than {maximum} bytes")
                return bytes(found.bytes()), found.meta["e_tag"]
            except FileNotFoundError:
                return None

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens where there is none.

        Raises:
            MalformedError: not a key.
            StorageError: the store refused, or was not reached.
        """
        import obstore

        check_key(key)
        with self._told("remove", key):
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError:
                return

    def keys(self, prefix: str) -> Iterator[str]:
        """List the keys that begin with `prefix`, sorted.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        folder = prefix.rpartition("/")[0]
        with self._told("list", prefix):
            found = [each["path"] for page in obstore.list(self._store, folder or None) for each in page]
        return iter(sorted(key for key in found if key.startswith(prefix)))

    @contextmanager
    def _told(self, action: str, key: str) -> Iterator[None]:
        """Turn the library's errors into ours."""
        try:
            yield
        except (ConflictError, LimitError):
            raise
        except Exception as error:  # its errors have no common class beside Exception
            raise StorageError(f"{self._url}: {action} {key}: {_first_line(error)}") from error


def _is_true(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in {"1", "true"}


def _first_line(error: Exception) -> str:
    """Return what an error says, without the debug text that the library adds: it holds whole requests."""
    return str(error).partition("\n")[0][:200]
