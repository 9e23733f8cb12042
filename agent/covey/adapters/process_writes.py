"""The bytes that this process, or one of its threads, has written to storage, as Linux counts them.

`write_bytes` of /proc/self/io grows by a whole page (4 KiB) each time that this process changes a page which the disk
already has; what a truncation spares the disk is `cancelled_write_bytes`. It includes all files of the process. It does
not include what is in memory only (tmpfs), other processes, the file system's own journal, and what a card or an SSD
rewrites by itself.
"""

from __future__ import annotations

import resource
from pathlib import Path

_COUNTS = Path("/proc/self/io")
_BLOCK_BYTES = 512


def written_by_thread() -> int:
    """Return the bytes that this thread has written since its start: the same count, in a microsecond.

    Linux counts a page for the thread that changes it. What a truncation spares the disk is included.
    """
    return resource.getrusage(resource.RUSAGE_THREAD).ru_oublock * _BLOCK_BYTES


class ProcessWrites:
    """Counts since the start of the process; a caller notes which of them it has taken into account."""

    def __init__(self, counts: Path = _COUNTS) -> None:
        self._counts = counts
        self._noted = 0

    def unnoted(self) -> int | None:
        """Return the bytes written and not noted yet; None if this kernel does not count them."""
        try:
            lines = self._counts.read_text(encoding="ascii").splitlines()
            found = {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
            return max(0, found["write_bytes"] - found["cancelled_write_bytes"] - self._noted)
        except (OSError, ValueError, KeyError):
            return None

    def note(self, amount: int) -> None:
        """Leave so many bytes out from now on."""
        self._noted += amount
