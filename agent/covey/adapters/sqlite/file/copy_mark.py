"""Detect a restored or copied state by a file next to the database that is written once.

The database knows the file's name, its inode and when the kernel last changed it (`ctime`), and its own inode. No
archive and no copying program can set that time, whichever inodes they write: `tar` into the same place, `cp` over the
same files and `rsync` all show. Rules:

    1. A mark is a new file under a random name. The database names it in a commit; only then the one before is removed.
       So after any crash the file that the database names is there.
    2. If the named file is missing or differs, the state is a copy. Other changes of the time (`chown`, a hard link)
       look like a copy too: that costs only an incarnation.
    3. The agent changes the mark at its start and its end, so that a database that is restored alone shows, too.

An image of the whole disk restores the same inodes and times: its recipients notice (docs/protocol/groups.md, "Restored
and damaged states"; ADR 47).
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.files import storage_errors, synchronise

_NAME_BYTES = 8
_SUFFIX = "-mark-"


@dataclass(frozen=True, slots=True)
class CopyMark:
    """The marks of one database."""

    path: Path

    def there(self) -> bool:
        """Say whether there has been a database here."""
        return bool(self._files())

    def make(self) -> bytes:
        """Make a mark; return what the database is to hold from the next commit on.

        Raises:
            DiskFullError: no room left.
            StorageError: the disk refused otherwise.
        """
        name = secrets.token_bytes(_NAME_BYTES)
        file = self._file(name)
        with storage_errors("write", file):
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            synchronise(self.path.parent)
            return self._as_is(name)

    def holds(self, mark: bytes) -> bool:
        """Say whether what the database holds is so (rule 2).

        Raises:
            StorageError: the disk refused.
        """
        name = mark[:_NAME_BYTES]
        with storage_errors("look at", self._file(name)):
            try:
                return self._as_is(name) == mark
            except FileNotFoundError:
                return False

    def remove_others(self, mark: bytes) -> None:
        """Remove the previous marks, once the database holds this one.

        Raises:
            StorageError: the disk refused.
        """
        for file in self._files():
            if file != self._file(mark[:_NAME_BYTES]):
                with storage_errors("remove", file):
                    file.unlink(missing_ok=True)

    def _as_is(self, name: bytes) -> bytes:
        """Return name, inode and time of a mark, and the database's inode. Raises OSError.

        Devices' numbers change with the order of plugging in: they say nothing.
        """
        about = self._file(name).stat()
        numbers = (about.st_ino, about.st_ctime_ns, self.path.stat().st_ino)
        return name + b"".join(number.to_bytes(8, signed=True) for number in numbers)

    def _file(self, name: bytes) -> Path:
        return self.path.with_name(f"{self.path.name}{_SUFFIX}{name.hex()}")

    def _files(self) -> list[Path]:
        return list(self.path.parent.glob(f"{self.path.name}{_SUFFIX}*"))
