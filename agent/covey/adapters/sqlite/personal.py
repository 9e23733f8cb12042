"""The tables of the person's own devices: which group is theirs, and what was done about its history."""

from __future__ import annotations

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey, GroupId, OperationId


class PersonalTables:
    """Which group is the person's own; implements `core/own`'s records."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pinned(self) -> GroupId | None:
        """Return the personal group that a person has named on this device."""
        row = self._database.first("SELECT group_id FROM personal_group")
        return None if row is None else GroupId(row[0])

    def pin(self, group_id: GroupId) -> None:
        """Name it, and forget what was done about another one."""
        self.unpin()
        self._database.run("INSERT INTO personal_group VALUES (1, ?)", (group_id,))

    def unpin(self) -> None:
        """Name none any more."""
        for table in ("personal_group", "own_group_obeyed", "own_group_invited"):
            self._database.run(f"DELETE FROM {table}")  # noqa: S608 - names of this list

    def obeyed(self, group_id: GroupId) -> OperationId | None:
        """Return by which operation a group was left or erased here last."""
        row = self._database.first("SELECT operation FROM own_group_obeyed WHERE group_id = ?", (group_id,))
        return None if row is None else OperationId(row[0])

    def note_obeyed(self, group_id: GroupId, operation: OperationId) -> None:
        """Note that it was."""
        self._database.run("INSERT OR REPLACE INTO own_group_obeyed VALUES (?, ?)", (group_id, operation))

    def invited(self, group_id: GroupId) -> set[DeviceKey]:
        """Return which own devices this one has invited to a group."""
        rows = self._database.run("SELECT device FROM own_group_invited WHERE group_id = ?", (group_id,))
        return {DeviceKey(row[0]) for row in rows}

    def note_invited(self, group_id: GroupId, device: DeviceKey) -> None:
        """Note that it has."""
        self._database.run("INSERT OR IGNORE INTO own_group_invited VALUES (?, ?)", (group_id, device))
