"""What may be given of a file: chunks whose hashes are those of its index, and no other byte (003.72).

A card that has lost a bit, and what a power cut has torn of a file on its way, so cost nobody else anything.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO

from covey.core.crypto import blake3_hash, same
from covey.core.history.files import HASH_BYTES
from covey.limits.content import CHUNK_BYTES, GIVEN_CHUNKS
from covey.ports import GivenFile


class GivenChunks:
    """One file, open; an index is a file of one chunk, which its own hash is the index of."""

    def __init__(self, file: BinaryIO, hashes: bytes, size: int, *, is_whole: bool) -> None:
        self.file = file
        self.is_whole = is_whole
        self._hashes, self._size = hashes, size
        self._read = bytearray(CHUNK_BYTES)

    def verified_to(self, position: int) -> int:
        """Return up to which byte, from a position on, the file was read just now, and is what it should be.

        That is some chunks further at most, and no further where the first of them is not here, or damaged.
        """
        number = position // CHUNK_BYTES
        good = next((each for each in range(GIVEN_CHUNKS) if not self._is_good(number + each)), GIVEN_CHUNKS)
        return min(self._size, (number + good) * CHUNK_BYTES) if good else position

    def _is_good(self, number: int) -> bool:
        expected = self._hashes[number * HASH_BYTES : (number + 1) * HASH_BYTES]
        length = min(CHUNK_BYTES, self._size - number * CHUNK_BYTES)
        if length <= 0 or not expected:
            return False
        found = memoryview(self._read)[:length]
        come = os.preadv(self.file.fileno(), [found], number * CHUNK_BYTES)
        return come == length and same(blake3_hash(found), expected)


@contextlib.contextmanager
def given_chunks(given: GivenFile) -> Iterator[GivenChunks | None]:
    """Open a file, or what has come of it; None where that is nothing."""
    hashes = _hashes(given)
    for path in (given.path, given.part):
        with contextlib.suppress(FileNotFoundError):
            with path.open("rb") as file:
                yield GivenChunks(file, hashes, given.size, is_whole=path == given.path)
            return
    yield None


def _hashes(given: GivenFile) -> bytes:
    if given.index is None:
        return given.index_hash
    try:
        index = given.index.read_bytes()
    except OSError:
        return b""
    return index if same(blake3_hash(index), given.index_hash) else b""
