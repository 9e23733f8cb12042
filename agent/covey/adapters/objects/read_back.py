"""A store that is not believed: what it says that it stored is read back and compared, before anything relies on it.

A collector's vault is the only copy of a reading once its sender was acknowledged. Disks and object stores forget what
they have confirmed, keep half of it, report an error for what they did, or do it twice. Here that is an error, the
caller does it again, and until then the sender keeps its copy. What a store tore is written again: an object that is
only the beginning of what was put can be nobody else's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.errors import ConflictError, LimitError, StorageError

if TYPE_CHECKING:
    from covey.adapters.objects.cloud import CloudStore
    from covey.adapters.objects.folder import DirectoryStore

_TRIES = 3


class ReadBackStore:
    """Implements `ports.PiecewiseStore` over a store, whose `name` is shown to people."""

    def __init__(self, store: DirectoryStore | CloudStore, name: str) -> None:
        self._store = store
        self._name = name
        self.get = store.get
        self.keys = store.keys
        self.pieces = store.pieces

    def put(self, key: str, content: bytes) -> None:
        """Store durably and atomically, and read it back.

        Raises:
            MalformedError: not a key.
            StorageError: the store refused, was not reached, or returns something else.
        """
        self._store.put(key, content)
        self._check(key, content)

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store where the object is still `before`, or still absent, and read it back.

        An object that is `content` already is no conflict: the store did it, and then did it again.

        Raises:
            MalformedError: not a key.
            ConflictError: it is something else.
            StorageError: the store refused, was not reached, or returns something else.
        """
        try:
            self._store.replace(key, content, before)
        except ConflictError:
            if self._found(key, len(content)) != content:
                raise
            return
        self._check(key, content)

    def delete(self, key: str) -> None:
        """Remove an object, and look whether it is gone.

        Raises:
            MalformedError: not a key.
            StorageError: the store refused, was not reached, or still has it.
        """
        self._store.delete(key)
        if self._store.pieces(key, 0, 1) is not None:
            raise StorageError(
                f"{self._name} says that it has removed {key}, and still has it",
                hint="check the disk or the store; the same command removes it then",
            )

    def _check(self, key: str, content: bytes) -> None:
        for _ in range(_TRIES):
            found = self._found(key, len(content))
            if found == content:
                return
            if found is None or not content.startswith(found):
                break
            self._store.replace(key, content, found)
        raise StorageError(
            f"{self._name} says that it has stored {key}, and returns something else",
            hint="check the disk or the store; nothing is lost: it is written again",
        )

    def _found(self, key: str, size: int) -> bytes | None:
        """Return the object as the medium has it, or something else where it is longer."""
        self._store.drop_cached(key)
        try:
            return self._store.get(key, size)
        except LimitError:
            return b"\0"
