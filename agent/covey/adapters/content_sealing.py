"""A file's sealed bytes: made and opened from map to map, hashed, copied.

100 MiB of them cost no memory that the system could not have back (measured, ADR 58).
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.adapters.files import storage_errors
from covey.core.crypto import aead_open_into, aead_seal_into, blake3_hash, blake3_hasher
from covey.core.history.files import TAG_BYTES, ContentReference
from covey.core.ids import ContentHash
from covey.errors import DecryptionError, LocalError
from covey.limits.content import CHUNK_BYTES, MAXIMUM_CONTENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

READ_BYTES = 1024 * 1024
"""Of a file at once."""


@contextmanager
def opened_file(source: Path, most: int = MAXIMUM_CONTENT_BYTES) -> Iterator[tuple[int, int]]:
    """Open a person's file; yield its descriptor and size.

    Raises:
        LocalError: no regular file, not to be read, or larger than `most` bytes.
    """
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise LocalError(f"{source} cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise LocalError(
                f"{source} is not a regular file", hint="pack a folder into one file: tar czf NAME.tgz FOLDER"
            )
        if status.st_size > most:
            raise LocalError(f"{source} has {status.st_size} bytes", hint=f"at most {most}")
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def copy_to_disk(source: int, target: Path, moves: Callable[[int], None]) -> None:
    """Copy a descriptor's file into a new file, and bring it to the disk; `moves` hears how many bytes are copied."""
    with target.open("xb") as made:
        os.fchmod(made.fileno(), 0o600)
        position = 0
        while piece := os.pread(source, READ_BYTES, position):
            made.write(piece)
            position += len(piece)
            moves(position)
        made.flush()
        os.fsync(made.fileno())


def seal_into(source: int, size: int, target: Path, key: bytes, nonce: bytes, associated: bytes) -> None:
    """Seal `size` bytes of a descriptor into a new file: ciphertext, then tag."""
    with target.open("xb+") as made:
        os.fchmod(made.fileno(), 0o600)
        made.truncate(size + TAG_BYTES)
        with mmap.mmap(made.fileno(), size + TAG_BYTES) as sealed, _mapped(source, size) as plain:
            aead_seal_into(sealed, plain, size, associated, nonce, key)
            sealed.flush()
        os.fsync(made.fileno())


def open_into(source: int, target: int, reference: ContentReference, key: bytes, associated: bytes) -> None:
    """Open a sealed file into a descriptor.

    Raises:
        DecryptionError: another key, another place, or tampering.
    """
    mapped_size = max(1, reference.size)  # nothing cannot be mapped
    os.ftruncate(target, mapped_size)
    with _mapped(source, reference.sealed_size) as sealed, mmap.mmap(target, mapped_size) as plain:
        aead_open_into(plain, sealed, reference.sealed_size, associated, reference.nonce, key)
        plain.flush()
    os.ftruncate(target, reference.size)


def check_sealed_size(size: int, reference: ContentReference) -> None:
    """Check that a sealed file is as large as it was offered.

    Raises:
        DecryptionError: it is not.
    """
    if size != reference.sealed_size:
        raise DecryptionError("the file does not have the size that its offer states")


@contextmanager
def _mapped(descriptor: int, size: int) -> Iterator[Any]:
    if not size:
        yield b""
        return
    with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as mapped:
        yield mapped


def described(path: Path, size: int, nonce: bytes, moves: Callable[[int], None]) -> tuple[ContentReference, bytes]:
    """Return by what a sealed file is known, and the hashes of its chunks."""
    hasher, index, done = blake3_hasher(), bytearray(), 0
    with storage_errors("read", path), path.open("rb") as sealed:
        while chunk := sealed.read(CHUNK_BYTES):
            hasher.update(chunk)
            index += blake3_hash(chunk)
            done += len(chunk)
            moves(done)
    index_hash = ContentHash(blake3_hash(bytes(index)))
    return ContentReference(ContentHash(hasher.digest()), index_hash, nonce, size), bytes(index)
