"""A file that takes up room until the disk has none: then it goes, and what makes room can still be written.

A full disk refuses deletes, too: they grow the write-ahead log. So acknowledgements could not empty the outbox, for
want of the room that they would make. While the reserved space is gone, the store takes nothing
new (`Database.lean`).
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from covey.limits.storage import RESERVED_BYTES
from covey.limits.units import MIB

if TYPE_CHECKING:
    from pathlib import Path

_RETRY_S = 10.0
_ROOM_BYTES = MIB
"""What must be free beside the reserved space, so that it is not made and dropped in turns."""


class ReservedSpace:
    """One such file, shared by the processes of a device."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked_at = -_RETRY_S

    def there(self) -> bool:
        """Say whether the file is there; where it is not, make it if the disk has room again."""
        if os.access(self._path, os.F_OK):
            return True
        now = time.monotonic()
        if now - self._asked_at < _RETRY_S:
            return False
        self._asked_at = now
        return self._make()

    def drop(self) -> bool:
        """Give its room to what must be written; False where that was done before."""
        try:
            self._path.unlink()
        except OSError:
            return False
        self._asked_at = time.monotonic()
        return True

    def _make(self) -> bool:
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        try:
            about = os.statvfs(self._path.parent)
            if about.f_bavail * about.f_frsize < RESERVED_BYTES + _ROOM_BYTES:
                return False
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(self._path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return False
        return True
