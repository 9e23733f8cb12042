"""The table of what this device has reported of orders, and to whom."""

from __future__ import annotations

from collections.abc import Collection

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.rows import PLACE_BITS
from covey.core.ids import DeviceKey, GroupId, Place
from covey.core.orders.nodes import Lacked, SentReport, Subject
from covey.core.orders.reports import ALL_AT_ONCE
from covey.limits.actions import RESULTS_OF_ONE

_ORDER_BYTES = 32
_WAITS = f"EXISTS (SELECT 1 FROM outbox WHERE outbox.id = peer.id << {PLACE_BITS} | sent_report.place)"  # noqa: S608 - ours
_LACKS = f"(sent_report.place <= peer.base AND NOT {_WAITS})"
"""Not of this incarnation: what an earlier one sent, its recipient can lack without saying so. Place 0 is of none."""

_WITH_PEER = "FROM sent_report JOIN peer ON peer.signing_public = sent_report.recipient"


class SentReportTable:
    """What was reported to whom."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sent(self, group_id: GroupId, recipient: DeviceKey, subject: Subject) -> SentReport | None:
        row = self._database.first(
            f"SELECT digest, {_WAITS}, {_LACKS} {_WITH_PEER} WHERE group_id = ? AND recipient = ? AND subject = ?",
            (group_id, recipient, subject),
        )
        return None if row is None else SentReport(row[0], waits=bool(row[1]), lacks=bool(row[2]))

    def note_sent(self, group_id: GroupId, recipient: DeviceKey, subject: Subject, digest: bytes, place: Place) -> None:
        """Note that a report waits for a recipient, at a place of its queue."""
        self._database.run(
            "INSERT INTO sent_report (group_id, recipient, subject, digest, place) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET digest = excluded.digest, place = excluded.place",
            (group_id, recipient, subject, digest, place),
        )
        if subject != ALL_AT_ONCE:
            self._database.run(
                "DELETE FROM sent_report WHERE id IN (SELECT id FROM sent_report WHERE group_id = ? "
                "AND recipient = ? AND subject != ? ORDER BY id DESC LIMIT -1 OFFSET ?)",
                (group_id, recipient, ALL_AT_ONCE, RESULTS_OF_ONE),
            )

    def note_lacking(self, recipient: DeviceKey, first: int, last: int) -> None:
        self._database.run(
            "UPDATE sent_report SET place = 0 WHERE recipient = ? AND place BETWEEN ? AND ?",
            (recipient, first, last),
        )

    def lacked(self, limit: int, *, of_boards: bool) -> list[Lacked]:
        rows = self._database.run(
            f"SELECT group_id, recipient, subject {_WITH_PEER} WHERE {_LACKS} AND subject != ? "
            "AND (length(subject) > ?) = ? ORDER BY sent_report.id LIMIT ?",
            (ALL_AT_ONCE, _ORDER_BYTES, of_boards, limit),
        )
        return [Lacked(*row) for row in rows]

    def forget_sent(self, lacked: Lacked) -> None:
        self._database.run(
            "DELETE FROM sent_report WHERE group_id = ? AND recipient = ? AND subject = ?",
            (lacked.group_id, lacked.recipient, lacked.subject),
        )

    def forget_sent_to_others(self, group_id: GroupId, subject: Subject, recipients: Collection[DeviceKey]) -> None:
        known = self._database.run(
            "SELECT recipient FROM sent_report WHERE group_id = ? AND subject = ?", (group_id, subject)
        )
        for (recipient,) in known:
            if recipient not in recipients:
                self.forget_sent(Lacked(group_id, recipient, subject))

    def forget(self, group_id: GroupId) -> None:
        """Forget what was reported in a group."""
        self._database.run("DELETE FROM sent_report WHERE group_id = ?", (group_id,))
