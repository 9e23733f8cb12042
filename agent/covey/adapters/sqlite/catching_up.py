"""The tables of histories that are being fetched: from whom, how much has come, and since when the rest is offered."""

from __future__ import annotations

from typing import NamedTuple

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey, GroupId


class CatchUp(NamedTuple):
    """What a member has brought since it began to bring more than fits into one message, or what waits.

    `waiting` operations of its last message rest on what is not here; it has about `more` others.
    """

    member: DeviceKey
    taken: int
    waiting: int
    more: int
    seen_at_us: int


class CatchingUp:
    """The members from whom histories are being fetched."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, group_id: GroupId, member: DeviceKey, *, taken: int, waiting: int, more: int, now_us: int) -> None:
        """Note what a message of a member has brought; nothing is kept of one that leaves nothing to fetch."""
        if waiting or more:
            self._database.run(
                "INSERT INTO catching_up VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "taken = taken + excluded.taken, waiting = excluded.waiting, more = excluded.more, "
                "heard_at = excluded.heard_at",
                (group_id, member, taken, waiting, more, now_us),
            )
        else:
            self._database.run("DELETE FROM catching_up WHERE group_id = ? AND member = ?", (group_id, member))

    def of(self, group_id: GroupId) -> list[CatchUp]:
        """Return from whom a group's history is being fetched, who was heard last first."""
        rows = self._database.run(
            "SELECT member, taken, waiting, more, heard_at FROM catching_up WHERE group_id = ? ORDER BY heard_at DESC",
            (group_id,),
        )
        return [CatchUp(DeviceKey(row[0]), *row[1:]) for row in rows]


class GraphOffers:
    """Since when each group's graph has been offered, in microseconds of the wall clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def since_us(self, group_id: GroupId) -> int | None:
        """Return since when it has been offered; None where it was not."""
        row = self._database.first("SELECT since FROM graph_offer WHERE group_id = ?", (group_id,))
        return None if row is None else int(row[0])

    def note(self, group_id: GroupId, since_us: int) -> None:
        """Note since when it has been offered."""
        self._database.run("INSERT OR REPLACE INTO graph_offer VALUES (?, ?)", (group_id, since_us))

    def forget(self, group_id: GroupId) -> None:
        """Forget that it was offered."""
        self._database.run("DELETE FROM graph_offer WHERE group_id = ?", (group_id,))
