"""What is here of one file, and what of it comes next: the index, by its own hash, then each chunk by the index.

Whoever brings bytes, relay, peer or store, brings them here: a chunk is verified before it is kept. What is kept is
brought to the disk in groups: as often as that takes no more than a share of the time, so that on a slow link each
chunk is there before the next one comes, and a quick one is not held up by a disk that takes as long for a chunk as for
a megabyte. A group is bounded; after a power cut the index tells what of it is there.
"""

from __future__ import annotations

from covey.core.content.records import PartRecords, WantedFile
from covey.core.crypto import blake3_hash, same
from covey.core.history.files import HASH_BYTES
from covey.core.ids import ContentHash
from covey.errors import WrongContentError
from covey.limits.content import CHUNK_BYTES, SYNC_GROUP_BYTES, SYNC_SHARE


class FileProgress:
    """One file, of which `position` bytes are here; the index counts by itself, and is asked for under its own hash."""

    def __init__(self, wanted: WantedFile, records: PartRecords) -> None:
        self.wanted = wanted
        self._records = records
        self._index = records.index(wanted)
        self.position = records.fetched(wanted) if self._index is not None else 0
        self._open_bytes = 0
        """Kept, and not known to be on the disk."""
        self._sync_after_us = 0

    @property
    def is_complete(self) -> bool:
        """Whether all chunks are here."""
        return self._index is not None and self.position == self.wanted.sealed_size

    @property
    def has_index(self) -> bool:
        """Whether the chunks can be verified."""
        return self._index is not None

    @property
    def hash(self) -> ContentHash:
        """Of what comes next: the index, or the file."""
        return self.wanted.index if self._index is None else self.wanted.hash

    @property
    def end(self) -> int:
        """The bytes of what comes next."""
        chunks = -(-self.wanted.sealed_size // CHUNK_BYTES)
        return chunks * HASH_BYTES if self._index is None else self.wanted.sealed_size

    @property
    def next_bytes(self) -> int:
        """How many bytes are verified at once next."""
        return self.end if self._index is None else min(CHUNK_BYTES, self.wanted.sealed_size - self.position)

    def keep(self, chunk: bytes, now_us: int) -> bool:
        """Keep what comes next, all of it; False where the disk has no room for it. `now_us` is monotonic.

        Raises:
            WrongContentError: it is not of the file.
        """
        if len(chunk) != self.next_bytes or not same(blake3_hash(chunk), self._next_hash):
            raise WrongContentError("a part of a file that is not of it")
        if self._index is None:
            if not self._records.save_index(self.wanted, chunk):
                return False
            self._index = chunk
            self.position = self._records.fetched(self.wanted)
        else:
            if not self._records.append(self.wanted, self.position, chunk):
                return False
            self.position += len(chunk)
            self._open_bytes += len(chunk)
            if now_us >= self._sync_after_us or self._open_bytes >= SYNC_GROUP_BYTES:
                took_us = self._records.synchronise(self.wanted, wait=False)
                self._open_bytes, self._sync_after_us = 0, now_us + (took_us or 0) * SYNC_SHARE
                return took_us is not None
        return True

    def synchronise(self) -> bool:
        """Wait until what is kept is on the disk; False where that refuses."""
        return not self.position or self._records.synchronise(self.wanted, wait=True) is not None

    def prove(self) -> None:
        """Compare the hash of the whole, so that `complete` need not: that takes a while, and need not be in a turn."""
        self._records.prove(self.wanted)

    @property
    def _next_hash(self) -> bytes:
        if self._index is None:
            return self.wanted.index
        first = self.position // CHUNK_BYTES * HASH_BYTES
        return self._index[first : first + HASH_BYTES]
