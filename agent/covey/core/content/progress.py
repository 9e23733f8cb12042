"""Progress of one file's download: first its index, verified by its hash, then each chunk, verified by the index.

All sources (relay, peer, store) deliver bytes here: a chunk is verified before it is stored, and written to disk while
the next one arrives.

1. A power cut should not cost a chunk twice: the next chunk waits until this one is on disk, at most `DISK_WAIT_US` for
   a link, and `NEAR_DISK_WAIT_US` for a network. So if less than one chunk arrives while the disk writes one, and on
   any link with a fast disk, a power cut repeats at most one chunk. At a start the index shows which chunks are there.
2. Chunks that arrive faster than the disk writes, or than a gigabit, are written in groups, as often as that takes only
   a share of the time; no link delivers anything twice for that. Both bound a group; at most two are repeated.

The code that stores the file hashes it as a whole while it arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from covey.core.content.messages import WantedFile
from covey.core.crypto import blake3_hash, blake3_hasher, same
from covey.core.history.files import HASH_BYTES
from covey.core.ids import ContentHash
from covey.errors import WrongContentError
from covey.limits.content import (
    CHUNK_BYTES,
    DISK_WAIT_US,
    NEAR_DISK_WAIT_US,
    NEAR_SYNC_US,
    SYNC_GROUP_BYTES,
    SYNC_SHARE,
)

if TYPE_CHECKING:
    from covey.core.records.content import PartRecords


class FileProgress:
    """One file, of which `position` bytes are here; the index counts by itself, and is asked for under its own hash."""

    def __init__(self, wanted: WantedFile, records: PartRecords) -> None:
        self.wanted = wanted
        self.is_nearby = False
        """Whether what comes next comes from a peer of this network, not by a link."""
        self._records = records
        self._index = records.index(wanted)
        self.position = records.fetched(wanted) if self._index is not None else 0
        self._open_bytes = 0
        """Kept since what was kept before them began to be brought to the disk."""
        self._sync_after_us, self._sync_took_us = 0, 0

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
        for chunk, its_hash in self._chunks(pieces):
            if not same(its_hash, self._hash_at(self.position)):
                raise WrongContentError("the part does not belong to the file")
            if not self._keep_chunk(chunk, now_us):
                return False
        return True

    def _keep_chunk(self, chunk: Sequence[memoryview], now_us: int) -> bool:
        is_due = self._is_due(now_us)
        if not self._records.append(self.wanted, self.position, chunk):
            return False
        size = sum(map(len, chunk))
        self.position += size
        self._open_bytes += size
        if not is_due and self._open_bytes < SYNC_GROUP_BYTES:
            return True
        took_us = self._records.synchronise(self.wanted)
        self._open_bytes, self._sync_took_us, self._sync_after_us = 0, took_us or 0, now_us + NEAR_SYNC_US
        return took_us is not None

    def _is_due(self, now_us: int) -> bool:
        if not self.is_nearby:
            return self._records.has_ended(self.wanted, DISK_WAIT_US)
        if now_us < self._sync_after_us:
            return False
        has_ended = self._records.has_ended(self.wanted, NEAR_DISK_WAIT_US)
        if not has_ended:
            self._sync_after_us = now_us + self._sync_took_us * SYNC_SHARE
        return has_ended

    def _keep_index(self, index: bytes) -> bool:
        if len(index) != self.end or not same(blake3_hash(index), self.wanted.index):
            raise WrongContentError("the index does not belong to the file")
        if not self._records.save_index(self.wanted, index):
            return False
        self._index = index
        self.position = self._records.fetched(self.wanted)
        return True

    def _chunks(self, pieces: Sequence[bytes | memoryview]) -> Iterator[tuple[list[memoryview], bytes]]:
        chunk, hasher, left = list[memoryview](), blake3_hasher(), self._chunk_bytes(self.position)
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                some, rest = rest[:left], rest[left:]
                hasher.update(some)
                chunk.append(some)
                left -= len(some)
                if not left:
                    yield chunk, hasher.digest()
                    chunk, hasher, left = [], blake3_hasher(), self._chunk_bytes(self.position)

    def synchronise(self) -> bool:
        """Wait until what is kept is on the disk; False where that refuses."""
        if self._open_bytes and self._records.synchronise(self.wanted) is None:
            return False
        self._open_bytes = 0
        return self._records.settle(self.wanted)

    def _chunk_bytes(self, position: int) -> int:
        return min(CHUNK_BYTES, self.wanted.sealed_size - position)

    def _hash_at(self, position: int) -> bytes:
        first = position // CHUNK_BYTES * HASH_BYTES
        return (self._index or b"")[first : first + HASH_BYTES]
