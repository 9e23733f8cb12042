"""A file that reserves room on the disk: when the disk is full it is deleted, so that what frees room can still be
written.

A full disk refuses deletes, too: they grow the write-ahead log. So acknowledgements could not empty the outbox, for
want of the room that they would free; nor could a state be opened whose process was killed there. Rules:

    1. Any operation refused for want of room, including opening the state, first releases the reserved space.
    2. It is made again as soon as the disk has room for it.
    3. Until then the store accepts nothing new (`Database.lean`), unless there is room inside: a database never
       shrinks, and its free pages are used before the file grows.

`PRAGMA auto_vacuum = INCREMENTAL` would return that room to the disk, for 6 to 7 % more bytes written for each message.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from covey.limits.storage import RESERVED_BYTES
from covey.limits.units import MIB

if TYPE_CHECKING:
    from pathlib import Path

_RETRY_S = 10.0
_ROOM_BYTES = RESERVED_BYTES + MIB
"""What must be free, on the disk or in the database, for something new."""
_ROOM_TO_MAKE_BYTES = RESERVED_BYTES + 2 * MIB
"""Free disk space needed: a log in addition to the reserved space, which would otherwise be made and dropped in turns.
"""


class ReservedSpace:
    """One such file, shared by the processes of a device."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked_at = -_RETRY_S

    def suffices(self, unused_bytes: Callable[[], int]) -> bool:
        """Say whether there is room for something new; `unused_bytes` of the database hold nothing.

        Where the file is not there, it is made if the disk has room again.
        """
        if os.access(self._path, os.F_OK) or self._made():
            return True
        return self._disk_bytes() + unused_bytes() >= _ROOM_BYTES

    def drop(self) -> bool:
        """Give its room to what must be written; False where that was done before."""
        try:
            self._path.unlink()
        except OSError:
            return False
        self._asked_at = time.monotonic()
        return True

    def _disk_bytes(self) -> int:
        about = os.statvfs(self._path.parent)
        return about.f_bavail * about.f_frsize

    def _made(self) -> bool:
        now = time.monotonic()
        if now - self._asked_at < _RETRY_S:
            return False
        self._asked_at = now
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        try:
            if self._disk_bytes() < _ROOM_TO_MAKE_BYTES:
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
