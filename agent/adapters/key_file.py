"""Secrets at rest: files of mode 0600 in folders of mode 0700, replaced whole and durably, refused when laxer.

Who can read the owner's files is the owner (or root). So ownership and modes are what there is, unless a passphrase is
wanted (`identity_file.py`), and they are checked each time on the file that was opened, not on its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from agent.errors import ConfigurationError, DiskFullError, StorageError

_SHARED = stat.S_IRWXG | stat.S_IRWXO


def write_secret(path: Path, content: bytes | bytearray) -> None:
    """Replace a secret as a whole: after a crash the file holds the old content or the new, never less.

    Raises:
        DiskFullError: no room left.
        StorageError: the disk refused otherwise. The old content stands, unless only the last fsync failed.
    """
    replace_durably(path, content, mode=0o600)


def read_secret(path: Path, maximum: int) -> bytearray:
    """Read a secret that is a regular file of ours, closed to all others, of at most `maximum` bytes.

    The buffer is the only copy: a caller that is done with it wipes it.

    Raises:
        ConfigurationError: it is missing, a link, somebody else's, open to others, or too long; the hint helps.
        StorageError: the disk refused.
    """
    name = shlex.quote(str(path))
    try:
        status, content = _read_into_buffer(path, maximum)
    except FileNotFoundError as error:
        raise ConfigurationError(f"{path} is missing", hint="`covey init` makes a device's keys") from error
    except PermissionError as error:
        raise ConfigurationError(f"{path} may not be read", hint=_owner_hint(name)) from error
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EINVAL, errno.ENXIO}:
            raise ConfigurationError(
                f"{path} is not a regular file", hint="put the file itself in its place"
            ) from error
        raise storage_error("read", path, error) from error
    _check_private(path, status, "600")
    if len(content) > maximum:
        raise ConfigurationError(f"{path} is longer than {maximum} bytes", hint="restore the right file from a backup")
    return content


def read_credential(name: str, maximum: int) -> bytearray | None:
    """Read what the service manager hands to this service (systemd's LoadCredential); None where it hands nothing.

    Whose it is and who may read it is the manager's business: it lies in a folder made for this service alone.

    Raises:
        ConfigurationError: longer than `maximum` bytes, or not readable.
    """
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return None
    path = Path(folder, name)
    try:
        _, content = _read_into_buffer(path, maximum)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > maximum:
        raise ConfigurationError(f"{path} is longer than {maximum} bytes")
    return content


def remove_durably(path: Path) -> None:
    """Remove a file, if it is there, so that it stays away.

    Raises:
        StorageError: the disk refused.
    """
    try:
        path.unlink(missing_ok=True)
        synchronise_folder(path.parent)
    except OSError as error:
        raise storage_error("remove", path, error) from error


def private_folder(path: Path) -> None:
    """Make sure that a folder exists which is ours alone (0700). A link to such a folder will do (systemd makes them).

    Raises:
        ConfigurationError: it is no folder, somebody else's, or open to others; the hint says what to do.
        StorageError: it could not be made.
    """
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            synchronise_folder(path.parent)
        status = path.stat()
    except PermissionError as error:
        raise ConfigurationError(
            f"{path} may not be made or reached", hint=_owner_hint(shlex.quote(str(path)))
        ) from error
    except OSError as error:
        raise storage_error("make", path, error) from error
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError(f"{path} is not a folder", hint="name another folder, or move the file away")
    _check_private(path, status, "700")


def replace_durably(path: Path, content: bytes | bytearray, mode: int) -> None:
    """Write a temporary file beside `path`, fsync it, rename it over `path`, and fsync the folder.

    Temporary names begin with a dot and end in `.tmp`; a crash may leave one behind.

    Raises:
        DiskFullError, StorageError: as for `write_secret`.
    """
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
                rest = memoryview(content)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(descriptor)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        synchronise_folder(path.parent)
    except OSError as error:
        raise storage_error("write", path, error) from error


def read_regular(path: Path, maximum: int) -> tuple[os.stat_result, bytes]:
    """Read a regular file up to one byte more than `maximum`, so that the caller sees what is too long.

    Raises OSError; for a link ELOOP, for what is no regular file EINVAL or ENXIO. Never waits for a pipe.
    """
    with _regular(path) as (descriptor, status), open(descriptor, "rb", closefd=False) as file:
        return status, file.read(maximum + 1)


def _read_into_buffer(path: Path, maximum: int) -> tuple[os.stat_result, bytearray]:
    """Do the same without a copy that could not be wiped."""
    with _regular(path) as (descriptor, status):
        content = bytearray(maximum + 1)
        length = 0
        while length < len(content) and (count := os.readv(descriptor, [memoryview(content)[length:]])):
            length += count
        del content[length:]
        return status, content


@contextlib.contextmanager
def _regular(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield descriptor, status
    finally:
        os.close(descriptor)


def synchronise_folder(folder: Path) -> None:
    """Make the folder's names durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def storage_error(verb: str, path: Path | str, error: OSError) -> StorageError:
    """Name what the disk refused, for people."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFullError(
            f"cannot {verb} {path}: no room left", hint="free space on that disk; nothing queued is lost"
        )
    return StorageError(f"cannot {verb} {path}: {error.strerror or error}")


def _check_private(path: Path, status: os.stat_result, mode: str) -> None:
    name = shlex.quote(str(path))
    if status.st_uid != os.geteuid():
        raise ConfigurationError(
            f"{path} belongs to user {status.st_uid}, and this is user {os.geteuid()}", hint=_owner_hint(name)
        )
    if status.st_mode & _SHARED:
        raise ConfigurationError(
            f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})", hint=f"chmod {mode} {name}"
        )


def _owner_hint(name: str) -> str:
    return f"run as the user who owns it, or: chown {os.geteuid()} {name}"
