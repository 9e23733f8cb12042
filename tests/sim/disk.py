"""A device's disk: a database in memory, which outlives the processes that open it.

Crashes fall between commits here; what a power cut leaves of a real file is for `tests/powercut.py` to try.
"""

from __future__ import annotations

import sqlite3
from itertools import count

_NUMBERS = count()
"""Names that processes of one device share, and no other device's."""


class _Connection(sqlite3.Connection):
    """One of a disk's connections: `close` rolls back, and leaves it to the next process, with its statements."""

    in_use = False

    def close(self) -> None:
        """End what a process has begun; closing twice does no more than once."""
        if self.in_use:
            self.in_use = False
            self.rollback()

    def throw_away(self) -> None:
        """Close it for good."""
        self.in_use = False
        super().close()


class Disk:
    """Holds a copy of a database until `close`."""

    def __init__(self, content: sqlite3.Connection) -> None:
        self._name = f"file:/covey-sim-{next(_NUMBERS)}?vfs=memdb"
        self._connections: list[_Connection] = []
        self._keeper = self.connect()
        content.backup(self._keeper)

    def connect(self) -> sqlite3.Connection:
        """Return another connection to the same database: one that a process has left, or a new one."""
        connection = next((each for each in self._connections if not each.in_use), None)
        if connection is None:
            connection = sqlite3.connect(
                self._name, uri=True, isolation_level=None, cached_statements=128, factory=_Connection
            )
            self._connections.append(connection)
        connection.in_use = True
        return connection

    def copy(self) -> Disk:
        """Return another disk with the same on it."""
        return Disk(self._keeper)

    def close(self) -> None:
        """Throw the disk away."""
        for connection in self._connections:
            connection.throw_away()
