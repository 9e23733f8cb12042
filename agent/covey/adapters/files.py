"""Files that are whole after a power cut: replaced and removed durably, read only where they are regular ones.

All code that replaces a small file does it here, also the ingest: no other module renames a file over another.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from covey.errors import DiskFullError, StorageError, hint_of_errno

_RANDOM_BYTES = 8


def replace_durably(path: Path, content: bytes | bytearray | memoryview, mode: int) -> None:
    """Replace a file as `replace_file` does, and name for people what the disk refused.

    Raises:
        DiskFullError: no room left.
        StorageError: the disk refused otherwise. The old content stands, unless only the last fsync failed.
    """
    with storage_errors("write", path):
        replace_file(path, content, mode)


def replace_file(
    path: Path, content: bytes | bytearray | memoryview, mode: int, like: os.stat_result | None = None
) -> None:
    """Replace a file as `replace_by_parts` does, by content that is in memory."""
    replace_by_parts(path, (content,), mode, like)


def replace_by_parts(
    path: Path, parts: Iterable[bytes | bytearray | memoryview], mode: int, like: os.stat_result | None = None
) -> None:
    """Write a temporary file in the same folder, fsync it, rename it over `path`, and fsync the folder. Raises OSError.

    Temporary names begin with a dot and end in `.tmp`; a crash may leave one behind (`remove_leftovers`).

    Args:
        path: the file, which need not be there; its folder must be.
        parts: all of the new file, in order.
        mode: of the new file, less the umask.
        like: of a file whose owner, group and mode the new one gets instead.
    """
    temporary = path.with_name(f".{os.urandom(_RANDOM_BYTES).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
            if like is not None:
                made = os.fstat(descriptor)
                if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):  # which a service may not call
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            for part in parts:
                rest = memoryview(part)
                while rest:
                    rest = rest[file.write(rest) :]
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    synchronise(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed writers left in a folder. Raises OSError.

    Only for the sole writer there: another writer may still need its file.
    """
    for leftover in folder.glob(f".{'[0-9a-f]' * 2 * _RANDOM_BYTES}.tmp"):
        leftover.unlink(missing_ok=True)


def remove_durably(path: Path) -> None:
    """Remove a file, if it is there, so that it stays away.

    Raises:
        StorageError: the disk refused.
    """
    with storage_errors("remove", path):
        path.unlink(missing_ok=True)
        synchronise(path.parent)


def synchronise(path: Path) -> None:
    """Bring a file's content, or a folder's names, to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def drop_cached(path: Path) -> None:
    """Drop the kernel's copy of a file that is on the disk, so that the next read is from the disk. Raises OSError.

    Where a write to the disk failed, the copy is what was to be written, and the disk has something else.
    """
    with open_regular(path) as (descriptor, _):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep other writers of a folder's files out, by the folder: the files themselves are replaced. Raises OSError.

    The lock ends with the process.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_regular(path: Path, maximum: int) -> tuple[os.stat_result, bytes]:
    """Read a regular file up to one byte more than `maximum`, so that the caller sees what is too long.

    Raises OSError, as `open_regular`.
    """
    with open_regular(path) as (descriptor, status), open(descriptor, "rb", closefd=False) as file:
        return status, file.read(maximum + 1)


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file to read it; what it is, is asked of the file that was opened.

    Raises OSError; for a link ELOOP, for what is no regular file EINVAL or ENXIO. Never waits for a pipe.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield descriptor, status
    finally:
        os.close(descriptor)


@contextmanager
def storage_errors(verb: str, path: Path) -> Iterator[None]:
    """Raise what the disk refuses meanwhile as a StorageError."""
    try:
        yield
    except OSError as error:
        raise storage_error(verb, path, error) from error


def storage_error(verb: str, path: Path | str, error: OSError) -> StorageError:
    """Name what the disk refused, for people."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFullError(
            f"cannot {verb} {path}: no room left", hint="free space on that disk; nothing queued is lost"
        )
    return StorageError(f"cannot {verb} {path}: {error.strerror or error}", hint=hint_of_errno(error.errno))


def is_read_only(path: Path) -> bool:
    """Say whether the disk that holds a file takes no writes, by opening it to write; nothing is written.

    An ext4 that a failing card has shut down refuses that without being mounted read-only.
    """
    try:
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return True
        os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EROFS
    return False
