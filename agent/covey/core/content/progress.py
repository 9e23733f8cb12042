"""What is here of one file, and what of it comes next: the index, by its own hash, then each chunk by the index.

Whoever brings bytes, relay, peer or store, brings them here: a chunk is verified before it is kept. What is kept is
brought to the disk in groups: as often as that takes no more than a share of the time, so that on a slow link each
chunk is there before the next one comes, and a quick one is not held up by a disk that takes as long for a chunk as for
a megabyte. A group is bounded; after a power cut the index tells what of it is there.
The whole is hashed while it comes, by who keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

from covey.core.content.records import PartRecords, WantedFile
from covey.core.crypto import blake3_hash, blake3_hasher, same
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
        return self.end if self._index is None else self._chunk_bytes(self.position)

    def whole_bytes(self, size: int) -> int:
        """Return how many of `size` bytes that come next are whole: to be verified, and kept."""
        if self._index is None or self.position + size >= self.wanted.sealed_size:
            return size if size >= self.end - self.position else 0
        return size - size % CHUNK_BYTES

    def keep(self, pieces: Sequence[bytes | memoryview], now_us: int) -> bool:
        """Keep what comes next: the index, or chunks, all of them whole, in pieces of any size.

        Returns False where the disk has no room for it. `now_us` is monotonic.

        Raises:
            WrongContentError: it is not of the file; chunks before what is not were kept.
        """
        if self._index is None:
            return self._keep_index(b"".join(pieces))
        good, kept = self._verified(pieces), True
        if good:
            kept = self._records.append(self.wanted, self.position, good)
            size = sum(map(len, good)) if kept else 0
            self.position += size
            self._open_bytes += size
        if sum(map(len, good)) != sum(map(len, pieces)):
            raise WrongContentError("a part of a file that is not of it")
        if kept and (now_us >= self._sync_after_us or self._open_bytes >= SYNC_GROUP_BYTES):
            took_us = self._records.synchronise(self.wanted, wait=False)
            self._open_bytes, self._sync_after_us = 0, now_us + (took_us or 0) * SYNC_SHARE
            return took_us is not None
        return kept

    def _keep_index(self, index: bytes) -> bool:
        if len(index) != self.end or not same(blake3_hash(index), self.wanted.index):
            raise WrongContentError("an index of a file that is not its index")
        if not self._records.save_index(self.wanted, index):
            return False
        self._index = index
        self.position = self._records.fetched(self.wanted)
        return True

    def _verified(self, pieces: Sequence[bytes | memoryview]) -> list[memoryview]:
        """Return the pieces of the chunks that come next, up to one that is not what the index says."""
        good, chunk, position = list[memoryview](), list[memoryview](), self.position
        hasher, left = blake3_hasher(), self._chunk_bytes(position)
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                some, rest = rest[:left], rest[left:]
                hasher.update(some)
                chunk.append(some)
                left -= len(some)
                if not left:
                    if not same(hasher.digest(), self._hash_at(position)):
                        return good
                    good += chunk
                    position += sum(map(len, chunk))
                    chunk, hasher, left = [], blake3_hasher(), self._chunk_bytes(position)
                    if not left:
                        return good
        return good

    def synchronise(self) -> bool:
        """Wait until what is kept is on the disk; False where that refuses."""
        return not self.position or self._records.synchronise(self.wanted, wait=True) is not None

    def _chunk_bytes(self, position: int) -> int:
        return min(CHUNK_BYTES, self.wanted.sealed_size - position)

    def _hash_at(self, position: int) -> bytes:
        first = position // CHUNK_BYTES * HASH_BYTES
        return (self._index or b"")[first : first + HASH_BYTES]
