"""Report the results of settings to others, and store the reports of others.

A report covers all settings, so the last one counts: in one incarnation the one with the higher number; another
incarnation's is newer. `orders/reports.py` decides who receives it, and when again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.ids import DeviceKey, GroupId
from covey.core.now import Now
from covey.core.orders.reports import ALL_AT_ONCE, Report, Reports
from covey.core.settings.states import KeptReport, ReportedSetting, SettingReport
from covey.core.wire.message import Message, MessageType

if TYPE_CHECKING:
    from covey.core.records.orders import SettingReportRecords

_DOMAIN = b"covey/1 report"


class SettingReporting:
    """Reports, of this device and of others."""

    def __init__(self, records: SettingReportRecords, reports: Reports) -> None:
        self._records = records
        self._reports = reports

    def queue(
        self, group_id: GroupId, recipients: Collection[DeviceKey], settings: Iterable[ReportedSetting], now: Now
    ) -> bool:
        """Queue a report for those who lack it; return whether one has to wait (`orders/reports.py`, rule 1).

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        settings = tuple(sorted(settings, key=lambda each: each.key))
        body = SettingReport(settings).to_wire()
        report = Report(MessageType.SETTING_REPORT, group_id, ALL_AT_ONCE, crypto.digest(_DOMAIN, body), body)
        self._reports.forget_others(group_id, ALL_AT_ONCE, recipients)
        waiting = False
        for recipient in recipients:
            if settings or self._reports.has_sent(group_id, recipient, ALL_AT_ONCE):
                waiting |= self._reports.send(recipient, report, now)
        return waiting

    def receive(self, message: Message, now: Now) -> None:
        """Keep what a member reports, unless it is older than what is kept.

        Raises:
            RemoteError: malformed.
        """
        SettingReport.from_wire(message.body)
        kept = self._records.of(message.group_id, message.author)
        if kept is not None and kept.incarnation == message.incarnation and kept.seq >= message.seq:
            return
        report = KeptReport(message.incarnation, message.seq, now.wall_us, message.body)
        self._records.keep(message.group_id, message.author, report)
