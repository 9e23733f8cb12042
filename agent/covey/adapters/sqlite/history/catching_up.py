"""The tables of histories that are being fetched: sources, progress, and how long the rest is offered."""

from __future__ import annotations

from typing import NamedTuple

from covey.adapters.sqlite.database import Database
from covey.core.history.operation import OfferWait
from covey.core.ids import DeviceKey, GroupId

_HELD = "SELECT coalesce(sum(last), 0) FROM operation_log WHERE group_id = ?"


class CatchUp(NamedTuple):
    """Operations from one member since it began to send more than fits one message, or some that wait.

    `waiting` operations of its last message rest on missing ones; it has about `more` others, less those that have
    arrived since from any member.
    """

    member: DeviceKey
    taken: int
    waiting: int
    more: int
    seen_at_us: int


class CatchingUp:
    """The members that deliver missing history, and how long graphs have been offered."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, group_id: GroupId, member: DeviceKey, *, taken: int, waiting: int, more: int, now_us: int) -> None:
        if waiting or more:
            self._database.run(
                "INSERT INTO catching_up (group_id, member, taken, waiting, more, seen_at, held) "  # noqa: S608
                f"VALUES (?, ?, ?, ?, ?, ?, ({_HELD})) ON CONFLICT DO UPDATE SET "
                "taken = taken + excluded.taken, waiting = excluded.waiting, more = excluded.more, "
                "seen_at = excluded.seen_at, held = excluded.held",
                (group_id, member, taken, waiting, more, now_us, group_id),
            )
        else:
            self._database.run("DELETE FROM catching_up WHERE group_id = ? AND member = ?", (group_id, member))

    def of(self, group_id: GroupId) -> list[CatchUp]:
        """Return the members that deliver a group's missing history, most recently active first."""
        rows = self._database.run(
            f"SELECT member, taken, waiting, more, seen_at, ({_HELD}) - held FROM catching_up "  # noqa: S608
            "WHERE group_id = ? ORDER BY seen_at DESC",
            (group_id, group_id),
        )
        return [
            CatchUp(DeviceKey(member), taken, waiting, max(0, more - came), at_us)
            for member, taken, waiting, more, at_us, came in rows
            if waiting + more > came
        ]

    def offered(self) -> list[GroupId]:
        rows = self._database.run("SELECT group_id FROM graph_offer WHERE since_given IS NOT NULL")
        return [GroupId(group_id) for (group_id,) in rows]

    def offer_wait(self, group_id: GroupId) -> OfferWait | None:
        row = self._database.first("SELECT since_given, whole FROM graph_offer WHERE group_id = ?", (group_id,))
        return None if row is None else OfferWait(*row)

    def note_offer(self, group_id: GroupId, wait: OfferWait) -> None:
        row = group_id, wait.since_given_us, wait.whole_us
        self._database.run("INSERT OR REPLACE INTO graph_offer VALUES (?, ?, ?)", row)

    def forget_offer(self, group_id: GroupId) -> None:
        self._database.run("DELETE FROM graph_offer WHERE group_id = ?", (group_id,))
