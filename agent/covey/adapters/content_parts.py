"""What has come of files on their way to this device; whoever takes one, in a thread or in the loop, does so alone.

A part is brought to the disk while more of it comes: a card that takes its time holds nobody up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from covey.adapters.content_files import ContentFiles
from covey.core.content.records import WantedFile
from covey.core.ids import ContentHash
from covey.errors import StorageError
from covey.limits.content import SYNC_GROUP_BYTES


class ContentParts:
    """Implements `core/content/records.PartRecords`."""

    def __init__(self, files: ContentFiles) -> None:
        self._files = files
        self._proved: set[ContentHash] = set()
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

    def append(self, wanted: WantedFile, position: int, chunk: bytes) -> bool:
        """Keep one more chunk, durably from the next `synchronise` on; False where the disk refuses."""
        try:
            self._files.write(wanted.hash, position, chunk)
        except StorageError:
            return False
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

    def prove(self, wanted: WantedFile) -> None:
        """Read what has come of a file, and remember in this process if it has the hash that it should."""
        if self._files.verify(wanted.hash, ".part"):
            self._proved.add(wanted.hash)

    def take_proof(self, wanted: WantedFile) -> bool:
        """Say whether a file was proved, and remember it no longer."""
        is_proved = wanted.hash in self._proved
        self._proved.discard(wanted.hash)
        return is_proved


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
