"""Report the results of orders to each recipient once, and again to one that lacks a report.

1. A recipient gets the report of a subject once, and again if it changes. While a report waits for it, no second one is
   queued: so an absent recipient costs one row.
2. A recipient whose acknowledgement shows that it lacks a delivered report gets it again: its state was restored or
   lost. In a new incarnation of this device every recipient gets its reports again, because no acknowledgement covers
   the old ones.
3. For each recipient the last `RESULTS_OF_ONE` reports of a group are remembered; no recipient keeps more.
4. A recipient that was none for a while gets everything again, because it may have forgotten the group.

The subject is an order, or none: then one report covers everything, and the next one replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, GroupId
from covey.core.link.send_queue import SendQueue
from covey.core.now import Now
from covey.core.orders.nodes import Lacked, Subject
from covey.core.wire.message import MessageType

if TYPE_CHECKING:
    from covey.core.records.orders import SentReportRecords

ALL_AT_ONCE = Subject(b"")


@dataclass(frozen=True, slots=True)
class Report:
    """A message with results of orders; of two with the same digest the second one is not sent."""

    type: MessageType
    group_id: GroupId
    subject: Subject
    digest: bytes
    body: bytes = field(repr=False)


class Reports:
    """What this device reports."""

    def __init__(self, records: SentReportRecords, queue: SendQueue) -> None:
        self._records = records
        self._queue = queue

    def has_sent(self, group_id: GroupId, recipient: DeviceKey, subject: Subject) -> bool:
        """Say whether a recipient was ever sent a report of a subject."""
        return self._records.sent(group_id, recipient, subject) is not None

    def forget_others(self, group_id: GroupId, subject: Subject, recipients: Collection[DeviceKey]) -> None:
        """Forget who else was sent a report of a subject (rule 4)."""
        self._records.forget_sent_to_others(group_id, subject, recipients)

    def send(self, recipient: DeviceKey, report: Report, now: Now, lifetime_us: int | None = None) -> bool:
        """Queue a report for a recipient that lacks it; return whether it has to wait for an earlier one (rule 1).

        Without a lifetime it waits until it is acknowledged.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        sent = self._records.sent(report.group_id, recipient, report.subject)
        if sent is not None and not sent.lacks:
            if sent.digest == report.digest:
                return False
            if sent.waits:
                return True
        place = self._queue.queue(recipient, report.type, report.group_id, report.body, now, lifetime_us=lifetime_us)
        self._records.note_sent(report.group_id, recipient, report.subject, report.digest, place)
        return False

    def send_lacked(
        self, limit: int, report_of: Callable[[Lacked], Report | None], now: Now, *, of_boards: bool = False
    ) -> None:
        """Queue reports of single orders that their recipients lack, as far as there is one to be sent again (rule 2).

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        for lacked in self._records.lacked(limit, of_boards=of_boards):
            report = report_of(lacked)
            if report is None:
                self._records.forget_sent(lacked)
            else:
                self.send(lacked.recipient, report, now)
