"""The tables of the person's own devices, and of the operators whom a person accepted with an invite."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId
from covey.core.pairing.pending import InvitedOperator

_TABLES = ("personal_group", "own_group_obeyed", "own_group_invited", "own_group_owed", "own_device_incarnation")


class PersonalTables:
    """Which group is the person's own; implements `core/own`'s records."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pinned(self) -> GroupId | None:
        row = self._database.first("SELECT group_id FROM personal_group")
        return None if row is None else GroupId(row[0])

    def pin(self, group_id: GroupId) -> None:
        self.unpin()
        self._database.run("INSERT INTO personal_group VALUES (1, ?)", (group_id,))

    def unpin(self) -> None:
        for table in _TABLES:
            self._database.run(f"DELETE FROM {table}")  # noqa: S608 - names of this list

    def obeyed(self, group_id: GroupId) -> OperationId | None:
        row = self._database.first("SELECT operation FROM own_group_obeyed WHERE group_id = ?", (group_id,))
        return None if row is None else OperationId(row[0])

    def note_obeyed(self, group_id: GroupId, operation: OperationId) -> None:
        """Note that it was."""
        self._database.run("INSERT OR REPLACE INTO own_group_obeyed VALUES (?, ?)", (group_id, operation))

    def invited(self, group_id: GroupId, held_by: OperationId) -> set[DeviceKey]:
        rows = self._database.run(
            "SELECT device FROM own_group_invited WHERE group_id = ? AND operation = ?", (group_id, held_by)
        )
        return {DeviceKey(row[0]) for row in rows}

    def note_invited(self, group_id: GroupId, device: DeviceKey, held_by: OperationId) -> None:
        self._database.run("INSERT OR REPLACE INTO own_group_invited VALUES (?, ?, ?)", (group_id, device, held_by))
        self._database.run("DELETE FROM own_group_owed WHERE group_id = ? AND device = ?", (group_id, device))

    def note_incarnations(self, device: DeviceKey, incarnations: Collection[Incarnation]) -> bool:
        rows = self._database.run("SELECT incarnation FROM own_device_incarnation WHERE device = ?", (device,))
        known = {Incarnation(row[0]) for row in rows}
        if known != set(incarnations):
            self._database.run("DELETE FROM own_device_incarnation WHERE device = ?", (device,))
            for each in incarnations:
                self._database.run("INSERT INTO own_device_incarnation VALUES (?, ?)", (device, each))
        return bool(known) and not known.issuperset(incarnations)

    def owe_invitations(self, device: DeviceKey, groups: Iterable[GroupId]) -> None:
        self._database.run("DELETE FROM own_group_invited WHERE device = ?", (device,))
        for group_id in groups:
            self._database.run("INSERT OR IGNORE INTO own_group_owed VALUES (?, ?)", (group_id, device))

    def owed(self, group_id: GroupId) -> set[DeviceKey]:
        rows = self._database.run("SELECT device FROM own_group_owed WHERE group_id = ?", (group_id,))
        return {DeviceKey(row[0]) for row in rows}


class InvitedOperators:
    """Whom a group's invite has let order this device."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, group_id: GroupId) -> list[InvitedOperator]:
        """Return those of a group, by key."""
        rows = self._database.run(
            "SELECT operator, inviter, pinned_at FROM invited_operator WHERE group_id = ? ORDER BY operator",
            (group_id,),
        )
        return [InvitedOperator(*row) for row in rows]

    def any(self) -> bool:
        """Say whether there is one."""
        return self._database.first("SELECT 1 FROM invited_operator") is not None

    def pin(self, group_id: GroupId, operators: Iterable[DeviceKey], inviter: DeviceKey, now_us: int) -> None:
        """Keep what was accepted with a group's invite, in place of what an earlier one brought."""
        self.forget(group_id)
        for operator in sorted(set(operators)):
            self._database.run(
                "INSERT INTO invited_operator VALUES (?, ?, ?, ?)", (group_id, operator, inviter, now_us)
            )

    def forget(self, group_id: GroupId) -> None:
        """Forget those of a group."""
        self._database.run("DELETE FROM invited_operator WHERE group_id = ?", (group_id,))
