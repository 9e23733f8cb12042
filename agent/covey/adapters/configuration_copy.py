"""A second copy of `config.toml`, from which an agent restores the file that a disk has damaged.

1. The copy names the digest of its content, and when the file had that content: its modification time.
2. The file is damaged if it differs from the copy although nobody has written to it since; if it is missing; if the
   disk cannot read it; or if it holds bytes that no editor writes: zeros, or what is not UTF-8.
3. A file that somebody has changed is theirs: what is wrong in it is for them to mend, and nothing is restored.
4. A damaged file is set aside before it is restored. A copy that is damaged itself restores nothing, and is replaced.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covey.adapters.journal import report
from covey.adapters.keys.key_file import copy_of, read_secret, write_secret
from covey.errors import ConfigurationError, StorageError
from covey.limits.storage import MAXIMUM_CONFIGURATION_BYTES

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = re.compile(rb"# A copy of config\.toml of ([0-9]{1,20}), digest ([0-9a-f]{32})\. Do not edit\.\n")
_DISK_REFUSES = {errno.EIO, errno.EUCLEAN, errno.EBADMSG}
_ZERO = b"\0"


class _Copy(NamedTuple):
    """A copy that is whole."""

    modified_ns: int
    content: bytes


class _Present(NamedTuple):
    """What is there of the file; `content` is None where the disk cannot read it."""

    modified_ns: int
    content: bytes | None


def restore_configuration(path: Path) -> None:
    """Restore a damaged configuration from its copy, and report that; whatever cannot be done stays as it is."""
    copy = _read_copy(path)
    if copy is None:
        return
    try:
        present = _read(path)
    except OSError:  # another user's: its reader says so
        return
    why = _damage(present, copy)
    if not why:
        return
    with suppress(StorageError):
        if present is not None and present.content is not None:
            write_secret(damaged_file(path), present.content)
        write_secret(path, copy.content)
        report("error", f"{path} {why}: restored from its copy")
        keep_configuration(path)


def keep_configuration(path: Path) -> None:
    """Have the copy hold what the file holds, which has just been read or written without a mistake."""
    with suppress(OSError, StorageError):
        present = _read(path)
        if present is None or present.content is None:
            return
        head = f"# A copy of config.toml of {present.modified_ns}, digest {_digest(present.content)}. Do not edit.\n"
        if _read_copy(path) != _Copy(present.modified_ns, present.content):
            write_secret(copy_of(path), head.encode() + present.content)


def damaged_file(path: Path) -> Path:
    """Return where a damaged configuration is set aside."""
    return path.with_name(f"{path.name}.damaged")


def _damage(present: _Present | None, copy: _Copy) -> str:
    """Say what is wrong with the file; empty where it is whole, or somebody else's work."""
    if present is None:
        return "was missing"
    if present.content is None:
        return "could not be read from the disk"
    if present.content == copy.content:
        return ""
    if present.modified_ns == copy.modified_ns or _ZERO in present.content:
        return "was damaged"
    try:
        present.content.decode()
    except UnicodeDecodeError:
        return "was damaged"
    return ""


def _read(path: Path) -> _Present | None:
    """Return the file as it is; None where there is none. Raises OSError.

    Its time is asked last, of the file that was read: what somebody changes meanwhile never looks older than it is.
    """
    try:
        with path.open("rb") as file:
            content = file.read()
            return _Present(os.fstat(file.fileno()).st_mtime_ns, content)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _DISK_REFUSES:
            return _Present(0, None)
        raise


def _read_copy(path: Path) -> _Copy | None:
    try:
        raw = bytes(read_secret(copy_of(path), MAXIMUM_CONFIGURATION_BYTES))
    except (ConfigurationError, StorageError):
        return None
    found = _HEAD.match(raw)
    content = raw[found.end() :] if found else b""
    if found is None or found[2].decode() != _digest(content):
        return None
    return _Copy(int(found[1]), content)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
