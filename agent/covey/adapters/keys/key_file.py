"""Secrets at rest: files of mode 0600 in folders of mode 0700, replaced whole and durably, refused when laxer.

Who can read the owner's files is the owner (or root). So ownership and modes are what there is, unless a passphrase is
wanted (`passphrase.py`), and they are checked each time on the file that was opened, not on its name.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from covey.adapters.files import (
    locked_folder,
    open_regular,
    replace_durably,
    storage_error,
    storage_errors,
    synchronise,
)
from covey.adapters.journal import report
from covey.core.crypto import wipe
from covey.errors import ConfigurationError, StorageError

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
    try:
        status, content = _read_into_buffer(path, maximum)
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{path} is missing", hint="name an existing file, or restore it; 'covey init' creates a new device's keys"
        ) from error
    except PermissionError as error:
        raise ConfigurationError(f"{path} cannot be read: permission denied", hint=_as_owner(path)) from error
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EINVAL, errno.ENXIO}:
            raise ConfigurationError(
                f"{path} is not a regular file", hint="replace it by the file itself, not a link"
            ) from error
        raise storage_error("read", path, error) from error
    _check_private(path, status, "600")
    if len(content) > maximum:
        raise ConfigurationError(f"{path} is longer than {maximum} bytes", hint="restore the right file from a backup")
    return content


def write_secret_twice(path: Path, content: bytes | bytearray, *, only_first: bool = False) -> None:
    """Replace a secret and its second copy, from which `mend_secret` restores it.

    With `only_first` nothing is replaced: if there is one already, which another process may just have written, it
    stays.

    Raises:
        DiskFullError: no room left.
        StorageError: the disk refused otherwise.
    """
    with storage_errors("write", path), locked_folder(path.parent):
        if only_first and any(each.exists() for each in (path, copy_of(path))):
            return
        write_secret(path, content)
        write_secret(copy_of(path), content)


def read_secret_twice(path: Path, maximum: int) -> list[bytearray]:
    """Read a secret that was written twice: what the file holds, and what its copy holds if that differs.

    Raises:
        ConfigurationError: the file is there and not as it should be, or neither is there; as of `read_secret`.
        StorageError: neither can be read.
    """
    found: list[bytearray] = []
    copy = copy_of(path)
    try:
        found.append(read_secret(path, maximum))
    except (ConfigurationError, StorageError) as error:
        is_lost = isinstance(error, StorageError) or not path.exists() or _is_too_long(path, maximum)
        if not (is_lost and copy.exists()):
            raise
        return [read_secret(copy, maximum)]
    with suppress(ConfigurationError, StorageError):
        second = read_secret(copy, maximum)
        if second != found[0]:
            found.append(second)
        else:
            wipe(second)
    return found


def _is_too_long(path: Path, maximum: int) -> bool:
    with suppress(OSError):
        return path.is_file() and path.stat().st_size > maximum
    return False


def mend_secret(path: Path, right: bytes | bytearray, found: Sequence[bytes | bytearray]) -> None:
    """Have a secret and its copy hold what turned out to be right among what `read_secret_twice` had found.

    Another process may have replaced the secret since: then that is right, and nothing is mended. A disk that refuses
    leaves the mending to the next time.
    """
    if all(_holds(each, right) for each in (path, copy_of(path))):
        return
    with suppress(ConfigurationError, StorageError, OSError), locked_folder(path.parent):
        present = read_secret_twice(path, max(map(len, found)))
        is_unchanged = present == found
        for secret in present:
            wipe(secret)
        if not is_unchanged:
            return
        for each in (path, copy_of(path)):
            if not _holds(each, right):
                write_secret(each, right)
                if each == path:
                    report("warning", f"{path} was missing or damaged: restored from its second copy")


def replace_found(path: Path, content: bytes | bytearray, found: Sequence[bytes | bytearray]) -> None:
    """Replace a secret and its copy, unless another process has replaced what `read_secret_twice` had found.

    A disk that refuses leaves it to the next time.
    """
    with suppress(ConfigurationError, StorageError, OSError), locked_folder(path.parent):
        if read_secret_twice(path, max(map(len, found))) == found:
            write_secret(path, content)
            write_secret(copy_of(path), content)


def _holds(path: Path, content: bytes | bytearray) -> bool:
    with suppress(ConfigurationError, StorageError):
        if path.exists():
            held = read_secret(path, len(content))
            is_right = held == content
            wipe(held)
            return is_right
    return False


def copy_of(path: Path) -> Path:
    """Return where the copy of a secret is."""
    return path.with_name(f"{path.name}.copy")


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
            synchronise(path.parent)
        status = path.stat()
    except PermissionError as error:
        raise ConfigurationError(
            f"{path} cannot be created or opened: permission denied", hint=f"{_as_owner(path)}; or name another folder"
        ) from error
    except OSError as error:
        raise storage_error("make", path, error) from error
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError(f"{path} is not a folder", hint="name another folder, or move that file away")
    _check_private(path, status, "700")


def _read_into_buffer(path: Path, maximum: int) -> tuple[os.stat_result, bytearray]:
    """Read up to one byte more than `maximum`, without a copy that could not be wiped. Raises OSError."""
    with open_regular(path) as (descriptor, status):
        content = bytearray(min(maximum, status.st_size) + 1)  # it is replaced as a whole, and does not grow
        length = 0
        while length < len(content) and (count := os.readv(descriptor, [memoryview(content)[length:]])):
            length += count
        del content[length:]
        return status, content


def _check_private(path: Path, status: os.stat_result, mode: str) -> None:
    name = shlex.quote(str(path))
    if status.st_uid != os.geteuid():
        # A file of another user in our own folder was put there by mistake. In any other case its owner's agent needs
        # it: a file or folder that changed hands would stop that agent.
        is_ours = stat.S_ISREG(status.st_mode) and path.parent.stat().st_uid == os.geteuid()
        raise ConfigurationError(
            f"{path} belongs to user {_user(status.st_uid)}, and this command runs as user {_user(os.geteuid())}",
            hint=f"sudo chown {os.geteuid()} {name}" if is_ours else _as_owner(path),
        )
    if status.st_mode & _SHARED:
        raise ConfigurationError(
            f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})", hint=f"chmod {mode} {name}"
        )


def _as_owner(path: Path) -> str:
    for each in (path, *path.parents):
        try:
            owner = each.stat().st_uid
        except OSError:  # missing, or behind a folder that this user may not enter
            continue
        return f"run the command as the user who owns {each}: sudo -u {shlex.quote(_user(owner))} covey …"
    return "run the command as the user who owns it"


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"  # as sudo takes it
