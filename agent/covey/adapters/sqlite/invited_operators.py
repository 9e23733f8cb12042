"""The table of operators that a person has accepted with a group's invite."""

from __future__ import annotations

from collections.abc import Iterable

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey, GroupId
from covey.core.pairing.pending import InvitedOperator


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
