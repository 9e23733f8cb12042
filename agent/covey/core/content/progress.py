"""What is here of one file, and what of it comes next: the index, by its own hash, then each chunk by the index.

Whoever brings bytes, relay, peer or store, brings them here: a chunk is verified before it is kept, and kept durably
before the next one counts.
"""

from __future__ import annotations

from covey.core.content.records import ContentRecords, WantedFile
from covey.core.crypto import blake3_hash, same
from covey.core.history.files import HASH_BYTES
from covey.core.ids import ContentHash
from covey.errors import WrongContentError
from covey.limits.content import CHUNK_BYTES


class FileProgress:
    """One file, of which `position` bytes are here; the index counts by itself, and is asked for under its own hash."""

    def __init__(self, wanted: WantedFile, records: ContentRecords) -> None:
        self.wanted = wanted
        self._records = records
        self._index = records.index(wanted)
        self.position = records.fetched(wanted) if self._index is not None else 0

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

    def keep(self, chunk: bytes) -> bool:
        """Keep what comes next, all of it; False where the disk has no room for it.

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
        return True

    @property
    def _next_hash(self) -> bytes:
        if self._index is None:
            return self.wanted.index
        first = self.position // CHUNK_BYTES * HASH_BYTES
        return self._index[first : first + HASH_BYTES]
