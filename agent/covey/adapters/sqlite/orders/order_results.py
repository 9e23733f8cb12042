"""The tables of reports on orders: received ones, and ones that this device sent."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.events import EventTable
from covey.adapters.sqlite.rows import PLACE_BITS
from covey.core.actions.received import without_output
from covey.core.actions.results import KeptResult, OrderResult
from covey.core.ids import DeviceKey, GroupId, OperationId, Place
from covey.core.orders.nodes import Lacked, SentReport, Subject
from covey.core.orders.reports import ALL_AT_ONCE
from covey.errors import DamagedStateError, RemoteError
from covey.limits.actions import RESULTS_OF_ONE

_COLUMNS = "id, device, received_at, judged, output_bytes, output_kept, body"


class OrderResultTables:
    """The results that have come."""

    def __init__(self, database: Database, events: EventTable) -> None:
        self._database = database
        self._events = events

    def keep(
        self, group_id: GroupId, device: DeviceKey, result: OrderResult, now_us: int, share: int, *, judged: bool
    ) -> bool:
        """Keep the first result of an order by a device, and of its outputs the last `share` bytes.

        What a board has signed takes the place of what was said in its stead.
        """
        if result.signature is not None:
            self._drop_unsigned(group_id, device, result.order)
        row = self._database.first(
            "INSERT INTO order_result (group_id, operation, device, received_at, judged, output_bytes, output_kept, "
            "body) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
            (
                *(group_id, result.order, device, now_us, int(judged)),
                *(len(result.output), int(bool(result.output)), without_output(result).to_wire()),
            ),
        )
        if row is None:
            return False
        if result.output:
            self._database.run("INSERT OR REPLACE INTO order_output VALUES (?, ?)", (row[0], result.output))
        self._make_room(group_id, device, share)
        self._events.order_result(group_id, device, result.order, now_us)
        return True

    def _drop_unsigned(self, group_id: GroupId, board: DeviceKey, operation: OperationId) -> None:
        kept = self.of_device(group_id, operation, board)
        if kept is not None and kept.result.signature is None:
            self._database.run("DELETE FROM order_result WHERE id = ?", (kept.id,))

    def _make_room(self, group_id: GroupId, device: DeviceKey, share: int) -> None:
        of_device = "FROM order_result WHERE group_id = ? AND device = ?"
        oldest = self._database.run(
            f"SELECT id, output_kept {of_device} ORDER BY id DESC LIMIT -1 OFFSET ?",
            (group_id, device, RESULTS_OF_ONE),
        )
        for identifier, _ in oldest:
            self._drop_output(identifier)
            self._database.run("DELETE FROM order_result WHERE id = ?", (identifier,))
        outputs = self._database.run(
            f"SELECT id, output_bytes {of_device} AND output_kept ORDER BY id DESC",
            (group_id, device),
        )
        for identifier, length in outputs:
            share -= length
            if share < 0:
                self._drop_output(identifier)

    def _drop_output(self, identifier: int) -> None:
        self._database.run("UPDATE order_result SET output_kept = 0 WHERE id = ? AND output_kept", (identifier,))
        self._database.run("DELETE FROM order_output WHERE id = ?", (identifier,))

    def of_order(self, group_id: GroupId, operation: OperationId) -> list[KeptResult]:
        """Return what devices have reported of an order, in the order in which it came."""
        rows = self._database.run(
            f"SELECT {_COLUMNS} FROM order_result WHERE group_id = ? AND operation = ? ORDER BY id",  # noqa: S608
            (group_id, operation),
        )
        return [_kept(row) for row in rows]

    def of_device(self, group_id: GroupId, operation: OperationId, device: DeviceKey) -> KeptResult | None:
        row = self._database.first(
            f"SELECT {_COLUMNS} FROM order_result WHERE group_id = ? AND operation = ? AND device = ?",  # noqa: S608
            (group_id, operation, device),
        )
        return None if row is None else _kept(row)

    def all(self, group_id: GroupId) -> Iterator[KeptResult]:
        """Yield all that was reported in a group, order by order."""
        rows = self._database.each(
            f"SELECT {_COLUMNS} FROM order_result WHERE group_id = ? ORDER BY operation, id",  # noqa: S608 - our names
            (group_id,),
        )
        return (_kept(row) for row in rows)

    def output(self, identifier: int) -> bytes | None:
        """Return the output of a result; None where it has gone, or there was none."""
        row = self._database.first("SELECT output FROM order_output WHERE id = ?", (identifier,))
        return None if row is None else row[0]

    def forget(self, group_id: GroupId) -> None:
        """Forget what was reported in a group."""
        of_group = "SELECT id FROM order_result WHERE group_id = ?"
        self._database.run(f"DELETE FROM order_output WHERE id IN ({of_group})", (group_id,))  # noqa: S608 - our names
        self._database.run("DELETE FROM order_result WHERE group_id = ?", (group_id,))


def _kept(row: tuple[int, DeviceKey, int, int, int, int, bytes]) -> KeptResult:
    identifier, device, received_at_us, judged, output_bytes, output_kept, body = row
    try:
        result = OrderResult.from_wire(body)
    except RemoteError as error:
        raise DamagedStateError("a result in the state database is damaged") from error
    return KeptResult(identifier, device, received_at_us, bool(judged), output_bytes, bool(output_kept), result)


_ORDER_BYTES = 32
_WAITS = f"EXISTS (SELECT 1 FROM outbox WHERE outbox.id = peer.id << {PLACE_BITS} | sent_report.place)"  # noqa: S608 - ours
_LACKS = f"(sent_report.place <= peer.base AND NOT {_WAITS})"
"""Not of this incarnation: what an earlier one sent, its recipient can lack without saying so. Place 0 is of none."""

_WITH_PEER = "FROM sent_report JOIN peer ON peer.signing_public = sent_report.recipient"


class SentReportTable:
    """The reports sent to each recipient."""

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
