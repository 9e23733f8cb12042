"""Telling others what has become of the settings that this device was given, and keeping what they tell.

1. A report says all of it, so the last one counts. Of two of one incarnation that is the one with the higher number;
   another incarnation's is newer.
2. While a report waits for a member, a further change adds none: what then holds is sent when that has been
   acknowledged. So who is away costs one row.
3. Whose acknowledgement shows that it lacks the report that it had is told again: its state was restored or lost. So is
   everybody once this device is in another incarnation: no acknowledgement speaks of what was sent before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from covey.core import crypto
from covey.core.ids import DeviceKey, GroupId, Incarnation, Place
from covey.core.link.send_queue import SendQueue
from covey.core.now import Now
from covey.core.settings.states import ReportedSetting, SettingReport
from covey.core.wire.message import Message, MessageType

_DOMAIN = b"covey/1 report"


@dataclass(frozen=True, slots=True)
class SentReport:
    """The digest of a report that a member was sent; `waits` says that it has not acknowledged it yet.

    Empty where it lacks that report, or may: it goes again (rule 3).
    """

    digest: bytes
    waits: bool


@dataclass(frozen=True, slots=True)
class KeptReport:
    """A device's report as it came: the message's place among its author's, and its body."""

    incarnation: Incarnation
    seq: int
    received_at_us: int
    body: bytes = field(repr=False)


class SettingReportRecords(Protocol):
    """What was reported, and to whom."""

    def sent(self, group_id: GroupId, member: DeviceKey) -> SentReport | None:
        """Return what a member was told last; None where that is nothing."""

    def note_sent(self, group_id: GroupId, member: DeviceKey, digest: bytes, place: Place) -> None:
        """Note that a report waits for a member, at a place of its queue."""

    def note_lacking(self, member: DeviceKey, first: int, last: int) -> None:
        """Note that a member lacks what was sent at some places of its queue, both included."""

    def of(self, group_id: GroupId, device: DeviceKey) -> KeptReport | None:
        """Return what a device has last reported."""

    def keep(self, group_id: GroupId, device: DeviceKey, report: KeptReport) -> None:
        """Keep what a device reports, in place of what it reported before."""


class SettingReporting:
    """Reports, of this device and of others."""

    def __init__(self, records: SettingReportRecords, queue: SendQueue) -> None:
        self._records = records
        self._queue = queue

    def queue(
        self, group_id: GroupId, recipients: Iterable[DeviceKey], settings: Iterable[ReportedSetting], now: Now
    ) -> bool:
        """Queue a report for those who have not been sent the same; return whether one has to wait (rule 2).

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        settings = tuple(sorted(settings, key=lambda each: each.key))
        body = SettingReport(settings).to_wire()
        digest = crypto.digest(_DOMAIN, body)
        waiting = False
        for recipient in recipients:
            sent = self._records.sent(group_id, recipient)
            if sent.digest == digest if sent is not None else not settings:
                continue
            if sent is not None and sent.waits:
                waiting = True
                continue
            place = self._queue.queue(recipient, MessageType.SETTING_REPORT, group_id, body, now)
            self._records.note_sent(group_id, recipient, digest, place)
        return waiting

    def receive(self, message: Message, now: Now) -> None:
        """Keep what a member reports (rule 1).

        Raises:
            RemoteError: malformed.
        """
        SettingReport.from_wire(message.body)
        kept = self._records.of(message.group_id, message.author)
        if kept is not None and kept.incarnation == message.incarnation and kept.seq >= message.seq:
            return
        report = KeptReport(message.incarnation, message.seq, now.wall_us, message.body)
        self._records.keep(message.group_id, message.author, report)
