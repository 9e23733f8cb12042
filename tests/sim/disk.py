"""A device's disk: a database in memory, which outlives the processes that open it.

Crashes fall between commits here; what a power cut leaves of a real file is for `tests/powercut.py` to try.
"""

from __future__ import annotations

import sqlite3
from itertools import count

_NUMBERS = count()
"""Names that processes of one device share, and no other device's."""


class Disk:
    """Holds a copy of a database until `close`."""

    def __init__(self, content: sqlite3.Connection) -> None:
        self._name = f"file:/covey-sim-{next(_NUMBERS)}?vfs=memdb"
        self._keeper = self.connect()
        content.backup(self._keeper)

    def connect(self) -> sqlite3.Connection:
        """Return another connection to the same database."""
        return sqlite3.connect(self._name, uri=True, isolation_level=None, cached_statements=64)

    def copy(self) -> Disk:
        """Return another disk with the same on it."""
        return Disk(self._keeper)

    def close(self) -> None:
        """Throw the disk away."""
        self._keeper.close()
