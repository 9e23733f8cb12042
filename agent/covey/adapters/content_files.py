"""The bytes of sealed files, in a folder of their own: made, stored piece by piece, read, opened.

`<hash>` is a whole sealed file, `<hash>.part` an incomplete one, `<hash>.index` the hashes of its chunks,
`<hash>.<offer>.secret` the secret of one that is for some devices only. A part is as long as what was verified; bytes
that a power cut tore at its end fail the index, and are overwritten.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from covey.adapters.content_sealing import (
    READ_BYTES,
    check_sealed_size,
    copy_to_disk,
    described,
    open_into,
    opened_file,
    seal_into,
)
from covey.adapters.files import (
    locked_folder,
    open_regular,
    replace_durably,
    storage_error,
    storage_errors,
    synchronise,
)
from covey.core.crypto import blake3_hash, blake3_hasher, same
from covey.core.history.files import HASH_BYTES, NONCE_BYTES, TAG_BYTES, ContentReference
from covey.core.ids import ContentHash
from covey.errors import DiskFullError, LocalError
from covey.limits.content import CHUNK_BYTES, CONTENT_FREE_BYTES, MAXIMUM_CONTENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.core.content.messages import WantedFile


def check_target(target: Path, *, replace: bool) -> None:
    """Check that a file may be written there.

    Raises:
        LocalError: one is there already, or the folder is not.
    """
    if target.exists() and not replace:
        raise LocalError(f"{target} already exists", hint="--force replaces it; -o PATH chooses another name")
    if not target.parent.is_dir():
        raise LocalError(f"the folder {target.parent} does not exist", hint="give -o PATH in a folder that exists")


def content_folder(state: Path) -> Path:
    """Return the folder of a state's files, next to its database."""
    return state.with_name(f"{state.stem}.content")


class ContentFiles:
    """A folder of sealed files. Hashes name its files, as hex, so no name comes from anybody else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from looking for what nobody knows of, while something is made that nobody knows of yet."""
        self._make_folder()
        with locked_folder(self._folder):
            yield

    # -- making and opening -------------------------------------------------------------------------------------------

    def seal(
        self, source: int, size: int, key: bytes, nonce: bytes, associated: bytes, moves: Callable[[int], None]
    ) -> ContentReference:
        """Seal the `size` bytes of a descriptor into the folder, durably, and return by what the file is known.

        `moves` hears how many bytes are done.

        Raises:
            DiskFullError: no room for it.
        """
        assert len(nonce) == NONCE_BYTES
        temporary = self._folder / f".{os.urandom(8).hex()}.tmp"
        try:
            self.need_room(size + TAG_BYTES)
            with storage_errors("write", temporary):
                seal_into(source, size, temporary, key, nonce, associated)
            reference, index = described(temporary, size, nonce, moves)
            self._keep(temporary, reference, index)
        finally:
            temporary.unlink(missing_ok=True)
        return reference

    def take(
        self, source: Path, expected: Callable[[ContentHash], ContentReference | None], moves: Callable[[int], None]
    ) -> ContentReference:
        """Take a sealed file that was carried here by hand, whole or not at all; `expected` finds it by its hash.

        `moves` hears how many bytes were copied.

        Raises:
            DiskFullError: no room for it.
            LocalError: it cannot be read, or is no file that is expected: perhaps half of one.
        """
        self._make_folder()
        temporary = self._folder / f".{os.urandom(8).hex()}.tmp"
        try:
            with opened_file(source, MAXIMUM_CONTENT_BYTES + TAG_BYTES) as (descriptor, size):
                self.need_room(size)
                with storage_errors("write", temporary):
                    copy_to_disk(descriptor, temporary, moves)
            taken, index = described(temporary, size - TAG_BYTES, b"", lambda _: None)
            found = expected(taken.hash)
            if found is None or not same(found.index, taken.index):
                raise LocalError(
                    f"{source} is not a complete file that a member of the group offers",
                    hint="'covey file export' writes such a file; this device learns of offers with the group's "
                    "history",
                )
            self._keep(temporary, found, index)
            return found
        finally:
            temporary.unlink(missing_ok=True)

    def copy_out(
        self, content: ContentHash, target: Path, moves: Callable[[int], None], *, replace: bool = False
    ) -> None:
        """Write a whole file, as it is sealed, to `target`: only members of its group can open it.

        `moves` hears how many bytes were written.

        Raises:
            LocalError: `target` is there already, or the file is not here whole.
            StorageError: the disk refused.
        """
        check_target(target, replace=replace)
        temporary = target.with_name(f".{os.urandom(8).hex()}.tmp")
        try:
            with storage_errors("write", target):
                with open_regular(self.path(content)) as (sealed, _):
                    copy_to_disk(sealed, temporary, moves)
                temporary.replace(target)
                synchronise(target.parent)
        finally:
            temporary.unlink(missing_ok=True)

    def _keep(self, temporary: Path, reference: ContentReference, index: bytes) -> None:
        replace_durably(self.path(reference.hash, ".index"), index, 0o600)
        with storage_errors("write", temporary):
            temporary.replace(self.path(reference.hash))
            synchronise(self._folder)
        self.path(reference.hash, ".part").unlink(missing_ok=True)

    def open_into(
        self, reference: ContentReference, key: bytes, associated: bytes, target: Path, *, replace: bool = False
    ) -> None:
        """Write what a whole file holds to a file `target`, of mode 0600, all of it or nothing.

        Raises:
            DecryptionError: it was not sealed with this key for this place.
            LocalError: `target` is there already, and not to be replaced.
            StorageError: the disk refused.
        """
        check_target(target, replace=replace)
        temporary = target.with_name(f".{os.urandom(8).hex()}.tmp")
        try:
            with storage_errors("write", target):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(temporary, flags, 0o600), "rb+", buffering=0) as made:  # noqa: PTH123 - a descriptor
                    with open_regular(self.path(reference.hash)) as (sealed, status):
                        check_sealed_size(status.st_size, reference)
                        open_into(sealed, made.fileno(), reference, key, associated)
                    os.fsync(made.fileno())
                temporary.replace(target)
                synchronise(target.parent)
        finally:
            temporary.unlink(missing_ok=True)

    def scratch(self, size: int) -> BinaryIO:
        """Return a file of no name, for so many bytes, which is gone when it is closed, or the power is.

        Raises:
            DiskFullError: no room for it.
            StorageError: the disk refused.
        """
        self.need_room(size)
        path = self._folder / f".{os.urandom(8).hex()}.tmp"
        with storage_errors("make", path):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            made = open(os.open(path, flags, 0o600), "rb+")  # noqa: PTH123, SIM115 - a descriptor; the caller closes it
            path.unlink()
        return made

    def open_scratch(self, reference: ContentReference, key: bytes, associated: bytes) -> BinaryIO:
        """Return what a whole file holds, as a file of no name.

        Raises:
            DecryptionError: it was not sealed with this key for this place.
            DiskFullError: no room for it.
            StorageError: the disk refused.
        """
        made = self.scratch(reference.size)
        try:
            with storage_errors("write", self._folder), open_regular(self.path(reference.hash)) as (sealed, status):
                check_sealed_size(status.st_size, reference)
                open_into(sealed, made.fileno(), reference, key, associated)
        except BaseException:
            made.close()
            raise
        return made

    def need_room(self, size: int) -> None:
        """Check that so many bytes fit, and leave what everything else needs.

        Raises:
            DiskFullError: they do not.
        """
        self._make_folder()
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        if free < size + CONTENT_FREE_BYTES:
            raise DiskFullError(
                f"no room for a file of {size} bytes: {free} bytes are free, and Covey keeps {CONTENT_FREE_BYTES} "
                "of them free",
                hint="'covey file list' lists local copies, 'covey file delete' deletes one",
            )

    # -- what is here -------------------------------------------------------------------------------------------------

    def is_whole(self, content: ContentHash) -> bool:
        """Say whether a file is here whole."""
        return self.path(content).exists()

    def read(self, content: ContentHash, index: bytes, position: int, size: int) -> bytes | None:
        """Return bytes of one chunk of a whole file; None where it is not here, or not what its index says (003.72)."""
        number, skipped = divmod(position, CHUNK_BYTES)
        try:
            with open_regular(self.path(content)) as (descriptor, _):
                chunk = os.pread(descriptor, CHUNK_BYTES, number * CHUNK_BYTES)
        except OSError:
            return None
        expected = index[number * HASH_BYTES : (number + 1) * HASH_BYTES]
        return chunk[skipped : skipped + size] if same(blake3_hash(chunk), expected) else None

    def verify(self, content: ContentHash, moves: Callable[[int], None] = lambda _: None) -> bool:
        """Read a file, and say whether it is what its hash says; `moves` hears how many bytes were read."""
        hasher, done = blake3_hasher(), 0
        try:
            with open_regular(self.path(content)) as (descriptor, _):
                while piece := os.read(descriptor, READ_BYTES):
                    hasher.update(piece)
                    done += len(piece)
                    moves(done)
        except OSError:
            return False
        return same(hasher.digest(), content)

    def make_part(self, reference: ContentReference | WantedFile) -> None:
        """Have a whole file be one on its way again, of which what agrees with its index is here.

        Raises:
            StorageError: the disk refused.
        """
        path = self.path(reference.hash)
        with storage_errors("write", path), suppress(FileNotFoundError):
            if path.stat().st_size > reference.sealed_size:
                os.truncate(path, reference.sealed_size)
            path.replace(self.path(reference.hash, ".part"))
            synchronise(self._folder)

    def remove_all(self) -> None:
        """Remove the folder with all that is in it."""
        import shutil  # more than half a MiB with its compressors, for what hardly any agent ever does

        with storage_errors("remove", self._folder), suppress(FileNotFoundError):
            shutil.rmtree(self._folder)

    def remove(self, content: ContentHash) -> None:
        """Remove all there is of a file."""
        for path in self._folder.glob(f"{content.hex()}*"):
            path.unlink(missing_ok=True)

    @property
    def exist(self) -> bool:
        """Whether there was ever any."""
        return self._folder.is_dir()

    def remove_others(self, known: set[ContentHash]) -> None:
        """Remove what lies here and is not known. Under the lock."""
        names = {each.hex() for each in known}
        for path in self._folder.iterdir():
            if path.name.partition(".")[0] not in names:
                path.unlink(missing_ok=True)

    def used_bytes(self) -> int:
        """Return what the folder takes."""
        return sum(path.stat().st_size for path in self._folder.iterdir()) if self._folder.is_dir() else 0

    # -- on its way ---------------------------------------------------------------------------------------------------

    def index(self, content: ContentHash, index_hash: ContentHash) -> bytes | None:
        """Return the hashes of a file's chunks; None where they are not here."""
        try:
            raw = self.path(content, ".index").read_bytes()
        except OSError:
            return None
        return raw if same(blake3_hash(raw), index_hash) else None

    def save_index(self, content: ContentHash, index: bytes) -> None:
        """Keep the hashes of a file's chunks durably."""
        self._make_folder()
        replace_durably(self.path(content, ".index"), index, 0o600)

    def fetched(self, content: ContentHash, index: bytes, sealed_size: int) -> int:
        """Return how many bytes of a file have come: as far as they follow its index. What is torn is written over.

        Nothing is cut off: another process of this device may be writing the next chunk.
        """
        path = self.path(content, ".part")
        if not path.exists():
            return 0
        with storage_errors("read", path), path.open("rb") as part:
            position = 0
            while chunk := part.read(CHUNK_BYTES):
                at = position // CHUNK_BYTES * HASH_BYTES
                is_chunk = len(chunk) == min(CHUNK_BYTES, sealed_size - position)
                if not is_chunk or not same(blake3_hash(chunk), index[at : at + HASH_BYTES]):
                    break
                position += len(chunk)
        return position

    def come(self, content: ContentHash) -> int:
        """Return how long a file's part is, as it lies there, or the file that it has become."""
        for suffix in (".part", ""):
            with suppress(OSError):
                return self.path(content, suffix).stat().st_size
        return 0

    def write(self, content: ContentHash, position: int, *pieces: bytes | memoryview) -> None:
        """Keep more chunks, durably from the next `synchronise_part` on.

        Raises:
            StorageError: the disk refused; the next `fetched` finds where it ends.
        """
        with self._opened_part(content, os.O_CREAT) as descriptor:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    written = os.pwrite(descriptor, rest, position)
                    position, rest = position + written, rest[written:]

    def hash_part(self, content: ContentHash, size: int, hasher: Any) -> bool:
        """Have the first bytes that have come of a file hashed; False where they cannot be read."""
        try:
            with open_regular(self.path(content, ".part")) as (descriptor, _):
                while size and (piece := os.read(descriptor, min(size, READ_BYTES))):
                    hasher.update(piece)
                    size -= len(piece)
        except OSError:
            return False
        return not size

    def synchronise_part(self, content: ContentHash) -> int:
        """Bring what has come of a file to the disk; return the microseconds that took.

        Raises:
            StorageError: the disk refused; the next `fetched` finds where it ends.
        """
        since = time.monotonic()
        if self.path(content, ".part").exists():
            with self._opened_part(content) as descriptor:
                os.fdatasync(descriptor)
        return int((time.monotonic() - since) * 1e6)

    @contextmanager
    def _opened_part(self, content: ContentHash, flags: int = 0) -> Iterator[int]:
        path = self.path(content, ".part")
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error("write", path, error) from error

    def complete(self, content: ContentHash, *, is_proved: bool = False) -> bool:
        """Take a part of which all has come for whole, if its hash is what it should be; else remove it.

        `is_proved`: what came has that hash.
        """
        path = self.path(content, ".part")
        if path.exists():
            self.synchronise_part(content)
            with storage_errors("write", path):
                path.replace(self.path(content))
                synchronise(self._folder)
        if is_proved or self.verify(content):
            return True
        self.remove(content)
        return False

    def _make_folder(self) -> None:
        with storage_errors("make", self._folder):
            self._folder.mkdir(mode=0o700, exist_ok=True)

    def path(self, content: ContentHash, suffix: str = "") -> Path:
        """Return where a file is, or is to be, or what belongs to it."""
        assert len(content) == HASH_BYTES
        return self._folder / f"{content.hex()}{suffix}"
