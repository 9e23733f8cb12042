"""A vault, or published tables, in S3 and compatible stores, Google Cloud Storage, Azure (the `obstore` library).

Credentials come from the store's usual chain: the environment (`AWS_ACCESS_KEY_ID`, …), a web identity, the container's
or the machine's role; `AWS_ENDPOINT_URL` and `AWS_REGION` name a store of one's own. None is in Covey's settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from covey.adapters.objects.folder import check_key
from covey.errors import ConfigurationError, ConflictError, LimitError, MissingPackageError, StorageError
from covey.limits.content import CHUNK_BYTES
from covey.limits.vault import MAXIMUM_VAULT_MANIFEST_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from obstore import GetResult
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az", "abfss")
_PATIENCE = timedelta(seconds=20)
"""How long a collector tries for one object: below the watchdog's time, as it waits for its store."""

_HINT = (
    "check the network and the credentials: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and the like; "
    "http:// needs AWS_ALLOW_HTTP=true"
)
_RETRIES_MAX = 5
_PART_BYTES = 5 * 1024 * 1024
_PARTS_AT_ONCE = 2
"""A file of any size is read in parts of `_PART_BYTES`: 10 MiB in memory."""


def open_cloud_store(url: str, patience: timedelta = _PATIENCE) -> CloudStore:
    """Return the store that a URL names: `s3://bucket/prefix`.

    `patience` is how long one object is tried for; a single try has half of it.

    Raises:
        ConfigurationError: not such a URL, or the library is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc or parts.query or parts.fragment or parts.password:
        raise ConfigurationError(
            f"{url!r} is not the URL of an object store",
            hint=f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}BUCKET/PREFIX",
        )
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise MissingPackageError("an object store", "obstore", in_debian=False) from error
    try:
        store = from_url(
            url,
            client_options={"timeout": patience / 2, "allow_http": _is_true("AWS_ALLOW_HTTP")},
            retry_config={"max_retries": _RETRIES_MAX, "retry_timeout": patience},
        )
    except Exception as error:  # the library raises classes of its own for what it finds in the environment
        raise ConfigurationError(f"{url} cannot be used: {brief(error)}") from error
    return CloudStore(store, url)


class CloudStore:
    """Implements `ports.PiecewiseStore`. An object is put whole or not at all; the store says so."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store = store
        self.url = url

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
            raise ConflictError(f"another process replaced {key}")
        self._put(key, content, {"e_tag": found[1]})

    def _put(self, key: str, content: bytes, mode: Any) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        check_key(key)
        with self._store_errors("write", key):
            try:
                obstore.put(self._store, key, content, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError) as error:
                raise ConflictError(f"another process replaced {key}") from error

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
        import obstore

        check_key(key)
        with self._store_errors("read", key):
            try:
                found = obstore.get(self._store, key)
                if found.meta["size"] > maximum:
                    raise LimitError(f"{key} is longer than {maximum} bytes")
                return bytes(found.bytes()), found.meta["e_tag"]
            except FileNotFoundError:
                return None

    def drop_cached(self, key: str) -> None:
        """Do nothing: nothing of an object is kept here."""

    def pieces(self, key: str, begin: int, end: int) -> Iterator[bytes] | None:
        """Give the bytes of an object from one position up to another, in one request, as they come.

        None where there is no object. A piece is a chunk, or what the network brought at once with its end.

        Raises:
            MalformedError: not a key.
            StorageError: the store refused, or was not reached; also while the bytes are taken.
        """
        import obstore

        check_key(key)
        with self._store_errors("read", key):
            try:
                found = obstore.get(self._store, key, options={"range": (begin, end)})
            except FileNotFoundError:
                return None
        return self._come(key, found)

    def _come(self, key: str, found: GetResult) -> Iterator[bytes]:
        stream = iter(found.stream(min_chunk_size=CHUNK_BYTES))
        while True:
            with self._store_errors("read", key):
                piece = next(stream, None)
            if piece is None:
                return
            yield bytes(piece)

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens where there is none.

        Raises:
            MalformedError: not a key.
            StorageError: the store refused, or was not reached.
        """
        import obstore

        check_key(key)
        with self._store_errors("remove", key):
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
        with self._store_errors("list", prefix):
            found = [each["path"] for page in obstore.list(self._store, folder or None) for each in page]
        return iter(sorted(key for key in found if key.startswith(prefix)))

    def keys_before(self, prefix: str, moment: datetime) -> list[str]:
        """List the keys below a prefix, one that ends with a slash, of objects that were put before a moment.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        with self._store_errors("list", prefix):
            pages = obstore.list(self._store, prefix.rstrip("/"))
            return [each["path"] for page in pages for each in page if each["last_modified"] < moment]

    def is_empty(self) -> bool:
        """Say whether nothing lies under the URL.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        with self._store_errors("list", "what is there"):
            found = obstore.list_with_delimiter(self._store)
        return not found["objects"] and not found["common_prefixes"]

    def upload(self, key: str, file: Path) -> None:
        """Store a file whole, in parts if it is large. The key is a table's, with `=` in it: of our own making.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        with self._store_errors("write", key):
            obstore.put(self._store, key, file, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)

    def download(self, key: str, file: Path) -> None:
        """Write an object of our own making, of any size, to a file.

        Raises:
            StorageError: it is not there, or the store refused, or was not reached.
        """
        with self._store_errors("write", key), file.open("wb") as written:
            for part in self.parts(key):
                written.write(part)

    def parts(self, key: str) -> Iterator[bytes]:
        """Yield an object of our own making, of any size, in parts as they come.

        Raises:
            StorageError: it is not there, or the store refused, or was not reached.
        """
        import obstore

        with self._store_errors("read", key):
            yield from map(bytes, obstore.get(self._store, key))

    def size(self, key: str) -> int | None:
        """Return the size of an object of our own making, in bytes; None where there is none.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        with self._store_errors("look at", key):
            try:
                return int(obstore.head(self._store, key)["size"])
            except FileNotFoundError:
                return None

    def keys_after(self, prefix: str, after: str) -> list[str]:
        """List the keys below a prefix, one that ends with a slash, that sort after a key; sorted.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        with self._store_errors("list", prefix):
            pages = obstore.list(self._store, prefix.rstrip("/"), offset=after)
            return sorted(each["path"] for page in pages for each in page)

    def discard(self, keys: list[str]) -> None:
        """Remove objects of our own making, whichever of them are there.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        import obstore

        with self._store_errors("remove", f"{len(keys)} objects"), suppress(FileNotFoundError):
            obstore.delete(self._store, keys)

    @contextmanager
    def _store_errors(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
        except (ConflictError, LimitError, StorageError):
            raise
        except Exception as error:  # its errors have no common class beside Exception
            raise StorageError(f"{self.url}: {action} {key}: {brief(error)}", hint=_HINT) from error


def _is_true(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in {"1", "true"}


def brief(error: Exception) -> str:
    """Return what a library of the object store's kind says, in a line, without what it adds for debugging.

    That holds whole requests; and the query of a URL may hold a signature.
    """
    said = re.sub(r"\x1b\[\d*m|↳", " ", str(error).partition("\n\n")[0])
    return re.sub(r"\?\S*", "", " ".join(said.split()))[:200]
