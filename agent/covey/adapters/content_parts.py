"""Files that are being downloaded; one thread or the loop owns each of them at a time.

A part is written to disk while more arrives: a slow card delays nobody. The whole file is hashed from arriving bytes,
so that it need not be read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Queue
from typing import Any

from covey.adapters.content_files import ContentFiles
from covey.core.content.messages import WantedFile
from covey.core.crypto import blake3_hasher, same
from covey.core.ids import ContentHash
from covey.errors import StorageError
from covey.limits.content import FETCHES_AT_ONCE, SYNC_GROUP_BYTES


class ContentParts:
    """Implements `core/content/records.PartRecords`."""

    def __init__(self, files: ContentFiles) -> None:
        self._files = files
        self._hashed: dict[ContentHash, _Hashed] = {}
        self._disk = _Disk()
        self._begun: dict[ContentHash, _Synchronising] = {}

    def index(self, wanted: WantedFile) -> bytes | None:
        """Return the hashes of a file's chunks, verified; None where they are not here."""
        return self._files.index(wanted.hash, wanted.index)

    def save_index(self, wanted: WantedFile, index: bytes) -> bool:
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
        """Keep one more chunk, durably from the next `synchronise` on; False where the disk refuses."""
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

    def synchronise(self, wanted: WantedFile) -> int | None:
        """Begin to bring the chunks of a file to the disk; return how long the last one took, None where it refuses."""
        took_us = self._ended(wanted)
        try:
            self._files.need_room(SYNC_GROUP_BYTES)
        except StorageError:
            return None
        if took_us is not None:
            self._begun[wanted.hash] = self._disk.begin(lambda: self._files.synchronise_part(wanted.hash))
        return took_us

    def has_ended(self, wanted: WantedFile, wait_us: int) -> bool:
        """Say whether what was begun last has ended, or does within so long."""
        begun = self._begun.get(wanted.hash)
        return begun is None or begun.ends_within(wait_us)

    def settle(self, wanted: WantedFile) -> bool:
        """Wait for the end of what was begun last; False where the disk has refused."""
        return self._ended(wanted) is not None

    def _ended(self, wanted: WantedFile) -> int | None:
        begun = self._begun.pop(wanted.hash, None)
        return 0 if begun is None else begun.end()

    def take_proof(self, wanted: WantedFile) -> bool:
        """Say whether all of a file has come in this process and has the hash that it should; once: it is whole."""
        self._begun.pop(wanted.hash, None)  # its part may be gone before that: no refusal of the disk
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


class _Disk:
    """Brings files to the disk in a thread of its own, begun with the first one, one after the other."""

    def __init__(self) -> None:
        self._tasks: Queue[_Synchronising] = Queue()
        self._thread: threading.Thread | None = None

    def begin(self, synchronise: Callable[[], int]) -> _Synchronising:
        """Begin to bring one there, when those before it are."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="files to disk", daemon=True)
            self._thread.start()
        begun = _Synchronising(synchronise)
        self._tasks.put(begun)
        return begun

    def _run(self) -> None:
        while True:
            self._tasks.get().run()


class _Synchronising:
    """One that was begun."""

    def __init__(self, synchronise: Callable[[], int]) -> None:
        self._synchronise = synchronise
        self._took_us: int | None = None
        self._running = threading.Lock()
        self._running.acquire()

    def run(self) -> None:
        """Do it."""
        try:
            self._took_us = self._synchronise()
        except StorageError:
            self._took_us = None
        finally:
            self._running.release()

    def ends_within(self, wait_us: int) -> bool:
        """Say whether it has ended, or does within so long."""
        ended = self._running.acquire(timeout=wait_us / 1e6)
        if ended:
            self._running.release()
        return ended

    def end(self) -> int | None:
        """Wait for its end; return the microseconds that it took, None where the disk refused."""
        with self._running:
            return self._took_us
