"""A directory as a vault: each object a file, put atomically and durably.

Keys are paths of segments made of letters, digits and `. _ -`, none of them beginning with a dot. So no key leaves the
directory, no key is a temporary file's name, and none needs quoting in a URL of another store.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from covey.adapters.files import (
    drop_cached,
    locked_folder,
    open_regular,
    read_regular,
    remove_durably,
    replace_durably,
    storage_error,
    storage_errors,
    synchronise,
)
from covey.errors import ConflictError, LimitError, MalformedError, StorageError
from covey.limits.content import CHUNK_BYTES
from covey.limits.vault import MAXIMUM_VAULT_MANIFEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}"  # 255 bytes is what a file name may have
_is_segment = re.compile(_SEGMENT).fullmatch
_is_key = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*").fullmatch


def is_segment(name: str) -> bool:
    """Say whether a file's or a folder's name may stand in a key."""
    return _is_segment(name) is not None


def check_key(key: str) -> None:
    """Accept the key of an object.

    Raises:
        MalformedError: it is none.
    """
    if not _is_key(key):
        raise MalformedError(f"{key[:80]!r} is not a valid object key")


class DirectoryStore:
    """Implements `ports.PiecewiseStore`. Files get the umask's mode: objects are sealed, and others may read them.

    A disk may be mounted over the folder, or unmounted, between two puts. The second object could then name a first one
    that nobody sees, and whose sender has deleted his copy. So the first put in another folder fails: callers repeat
    all puts of what they do.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: tuple[int, int] | None = None
        """Which folder the last put was in: device and inode."""

    def put(self, key: str, content: bytes) -> None:
        """Store durably and atomically.

        Raises:
            MalformedError: not a key.
            DiskFullError: no room left.
            StorageError: the disk refused otherwise.
        """
        path = self._path(key)
        self._make_folder(path.parent)
        with self._same_folder():
            replace_durably(path, content, mode=0o666)

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store where the object is still `before`, or still absent; a lock keeps others of this machine out.

        Raises:
            MalformedError: not a key.
            ConflictError: it is something else.
            DiskFullError: no room left.
            StorageError: the disk refused otherwise.
        """
        path = self._path(key)
        self._make_folder(path.parent)
        with storage_errors("lock", path.parent), locked_folder(path.parent), self._same_folder():
            if path.exists() if before is None else self.get(key, MAXIMUM_VAULT_MANIFEST_BYTES) != before:
                raise ConflictError(f"another process replaced {key}")
            replace_durably(path, content, mode=0o666)

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens where there is none.

        Raises:
            MalformedError: not a key.
            StorageError: the disk refused.
        """
        remove_durably(self._path(key))

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return the object, or None where there is none.

        Raises:
            MalformedError: not a key.
            LimitError: longer than `maximum` bytes.
            StorageError: it could not be read, or is no file.
        """
        path = self._path(key)
        try:
            _, content = read_regular(path, maximum)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error("read", path, error) from error
        if len(content) > maximum:
            raise LimitError(f"{key} is longer than {maximum} bytes")
        return content

    def drop_cached(self, key: str) -> None:
        """Drop the kernel's copy of an object that is on the disk, so that the next read is from the disk.

        Raises:
            MalformedError: not a key.
            StorageError: it could not be read, or is no file.
        """
        path = self._path(key)
        with storage_errors("read", path), suppress(FileNotFoundError):
            drop_cached(path)

    def pieces(self, key: str, begin: int, end: int) -> Iterator[bytes] | None:
        """Give the bytes of an object from one position up to another, a chunk at a time; None where there is none.

        Raises:
            MalformedError: not a key.
            StorageError: it could not be read, or is no file; also while the bytes are taken.
        """
        path = self._path(key)
        with storage_errors("read", path):
            return _pieces(path, begin, end) if path.exists() else None

    def keys(self, prefix: str) -> Iterator[str]:
        """List the keys that begin with `prefix`, sorted; what is no object's name is passed over.

        Raises:
            StorageError: a folder could not be read.
        """
        base, folder = prefix[: prefix.rfind("/") + 1], self._root
        for name in base.split("/")[:-1]:
            folder /= name
            with storage_errors("list", folder):
                if not is_segment(name) or folder.is_symlink():
                    return iter(())
        return self._keys_below(folder, base, prefix)

    def _keys_below(self, folder: Path, base: str, prefix: str) -> Iterator[str]:
        try:
            with os.scandir(folder) as entries:
                # A folder sorts as "name/", as its keys do: "a-b" < "a/b" < "a0".
                names = sorted(
                    f"{base}{entry.name}/" if entry.is_dir(follow_symlinks=False) else f"{base}{entry.name}"
                    for entry in entries
                    if is_segment(entry.name) and not entry.is_symlink()
                )
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error("list", folder, error) from error
        for name in names:
            if name.endswith("/"):
                if name.startswith(prefix) or prefix.startswith(name):
                    yield from self._keys_below(self._root / name, name, prefix)
            elif name.startswith(prefix):
                yield name

    @contextmanager
    def _same_folder(self) -> Iterator[None]:
        self._check_folder()
        yield
        self._check_folder()

    def _check_folder(self) -> None:
        with storage_errors("look at", self._root):
            found = self._root.stat()
        before, self._folder = self._folder, (found.st_dev, found.st_ino)
        if before not in {None, self._folder}:
            raise StorageError(
                f"{self._root} is another folder than before: a disk was mounted or unmounted",
                hint="Covey tries again by itself; check that the right disk is mounted",
            )

    def _path(self, key: str) -> Path:
        check_key(key)
        return self._root / key

    def _make_folder(self, folder: Path) -> None:
        """Make a folder and its parents, each made durable in the one above it."""
        if folder.is_dir():
            return
        if folder.parent != folder:
            self._make_folder(folder.parent)
        try:
            folder.mkdir(exist_ok=True)
            synchronise(folder.parent)
        except OSError as error:
            raise storage_error("make", folder, error) from error


def _pieces(path: Path, begin: int, end: int) -> Iterator[bytes]:
    with storage_errors("read", path), open_regular(path) as (descriptor, _):
        while begin < end and (piece := os.pread(descriptor, min(CHUNK_BYTES, end - begin), begin)):
            begin += len(piece)
            yield piece
