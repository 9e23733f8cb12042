"""What has come of files on their way to this device; whoever takes one, in a thread or in the loop, does so alone.

A part is brought to the disk while more of it comes: a card that takes its time holds nobody up. Its whole is hashed
beside, from what came, so that it need not be read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from covey.adapters.content_files import ContentFiles
from covey.core.content.records import WantedFile
from covey.core.crypto import blake3_hasher, same
from covey.core.ids import ContentHash
from covey.errors import StorageError
from covey.limits.content import FETCHES_AT_ONCE, SYNC_GROUP_BYTES


class ContentParts:
    """Implements `core/content/records.PartRecords`."""

    def __init__(self, files: ContentFiles) -> None:
        self._files = files
        self._hashed: dict[ContentHash, _Hashed] = {}
        self._synchronising: dict[ContentHash, _Synchronising] = {}

    def index(self, wanted: WantedFile) -> bytes | None:
        """Return the hashes of a file's chunks, verified; None where they are not here."""
        return self._files.index(wanted.hash, wanted.index)

    def save_index(self, wanted: WantedFile, index: bytes) -> bool:
        """Keep the hashes of a file's chunks durably; False where the file has no room, or the disk refuses."""
        try:
            self._files.need_room(wanted.sealed_size)
            self._files.save_index(wanted.hash, index)
        except StorageError:
            return False
        return True

    def fetched(self, wanted: WantedFile) -> int:
        """Return how many verified bytes of a file have come."""
        index = self.index(wanted)
        if index is None:
            return 0
        if self._files.is_whole(wanted.hash):  # the power went between the file's name and the commit
            return wanted.sealed_size
        return self._files.fetched(wanted.hash, index, wanted.sealed_size)

    def append(self, wanted: WantedFile, position: int, pieces: Sequence[memoryview]) -> bool:
        """Keep more chunks, durably from the next `synchronise` on; False where the disk refuses."""
        try:
            self._files.write(wanted.hash, position, *pieces)
        except StorageError:
            return False
        hashed = self._hashed.pop(wanted.hash, None)
        if hashed is None or hashed.position != position:
            hashed = _Hashed(position, lambda hasher: self._files.hash_part(wanted.hash, position, hasher))
        hashed.add(pieces)
        self._hashed[wanted.hash] = hashed
        for oldest in list(self._hashed)[:-FETCHES_AT_ONCE]:  # those that nothing has come of for longest
            self._hashed.pop(oldest, None)  # another thread may just have taken it
        return True

    def synchronise(self, wanted: WantedFile, *, wait: bool) -> int | None:
        """Begin to bring the chunks of a file to the disk, or wait for it; return how long the last one took.

        Returns None where the disk refuses.
        """
        before = self._synchronising.pop(wanted.hash, None)
        took_us = before.end() if before is not None else 0
        try:
            self._files.need_room(SYNC_GROUP_BYTES)
        except StorageError:
            return None
        if took_us is None:
            return None
        begun = _Synchronising(lambda: self._files.synchronise_part(wanted.hash))
        if wait:
            return begun.end()
        self._synchronising[wanted.hash] = begun
        return took_us

    def take_proof(self, wanted: WantedFile) -> bool:
        """Say whether all of a file has come in this process and has the hash that it should; once."""
        hashed = self._hashed.pop(wanted.hash, None)
        if hashed is None or hashed.position != wanted.sealed_size or not hashed.is_sound:
            return False
        return same(hashed.hasher.digest(), wanted.hash)


class _Hashed:
    """The hash of what has come of a file, in order, up to `position`; `is_sound`: of all of it."""

    def __init__(self, position: int, hash_before: Callable[[Any], bool]) -> None:
        self.position = position
        self.hasher = blake3_hasher()
        self.is_sound = hash_before(self.hasher)

    def add(self, pieces: Sequence[memoryview]) -> None:
        """Take what follows."""
        for piece in pieces:
            self.hasher.update(piece)
            self.position += len(piece)


class _Synchronising:
    """One, in a thread of its own, begun when it is made."""

    def __init__(self, synchronise: Callable[[], int]) -> None:
        self._synchronise = synchronise
        self._took_us: int | None = None
        self._thread = threading.Thread(target=self._run, name="file to disk", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._took_us = self._synchronise()
        except StorageError:
            self._took_us = None

    def end(self) -> int | None:
        """Wait for its end; return the microseconds that it took, None where the disk refused."""
        self._thread.join()
        return self._took_us
