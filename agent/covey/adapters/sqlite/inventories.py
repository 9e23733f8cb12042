"""The newest list of packages of each device, as a collector has landed it."""

from __future__ import annotations

from collections.abc import Collection

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey


class Inventories:
    """Implements the lists that `covey fleet --has` looks through. They land again: nothing depends on them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, author: DeviceKey, seq: int, received_at_us: int, content: bytes) -> None:
        """Keep a packed list unless a newer one of the device is here. Inside a transaction."""
        self._database.run(
            "INSERT INTO inventory VALUES (?, ?, ?, ?) ON CONFLICT (author) DO UPDATE SET seq = excluded.seq, "
            "received_at = excluded.received_at, content = excluded.content WHERE excluded.seq > inventory.seq",
            (author, seq, received_at_us, content),
        )

    def forget_others(self, members: Collection[DeviceKey]) -> None:
        """Forget the lists of devices that are no members. Inside a transaction."""
        authors = [row[0] for row in self._database.run("SELECT author FROM inventory")]
        self._database.run_each(
            "DELETE FROM inventory WHERE author = ?", [(each,) for each in authors if each not in members]
        )

    def all(self) -> dict[DeviceKey, tuple[int, bytes]]:
        """Return of each device when its list came, in wall-clock microseconds, and the packed list."""
        rows = self._database.run("SELECT author, received_at, content FROM inventory ORDER BY author")
        return {DeviceKey(author): (received_at_us, content) for author, received_at_us, content in rows}
