"""How a device tells members what it has written.

An author sends its operations to every other member that is no board. While something waits for a member, a further
operation adds no message: it is sent when that has been acknowledged. So who is away for a year costs its author one
row. What is held back is looked at whenever a member may have acknowledged what was sent before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest
from covey.core.history.answering import HistoryAnswering
from covey.core.history.messages import HistoryPull
from covey.core.history.operation import Log, read_operation
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.send_queue import SendQueue
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.message import MessageType
from covey.limits.history import ANNOUNCE_PAUSE_US, ANNOUNCE_US

if TYPE_CHECKING:
    from covey.core.records import Records


class HistoryAnnouncing:
    """Sends own operations to members."""

    def __init__(
        self, own: DeviceKey, groups: Groups, records: Records, queue: SendQueue, answering: HistoryAnswering
    ) -> None:
        self._own = own
        self._groups = groups
        self._records = records
        self._queue = queue
        self._answering = answering
        self._look_at_us: int | None = 0
        """When to look next whether something is owed to a member; None: to nobody."""
        self._looked_at_us = 0
        """When that was looked at last."""

    def refresh(self) -> None:
        """Look at what another process wrote."""
        self._look_at_us = 0

    def acknowledged(self) -> None:
        """Look sooner at what was held back, as a member has acknowledged something."""
        if self._look_at_us is not None:
            self._look_at_us = min(self._look_at_us, self._looked_at_us + ANNOUNCE_PAUSE_US)

    def announce(self, manifest: GroupManifest, log: Log, first: int, now: Now) -> None:
        """Queue what was written from a number on for every member for whom nothing waits (rule 1)."""
        announcements = self._records.announcements
        for key in self._hearers(manifest):
            sent = announcements.of(manifest.group_id, key, log)
            if sent is not None and sent.waits:
                self._look_at_us = now.monotonic_us + ANNOUNCE_US
            else:
                self._send_log(manifest.group_id, key, log, first - 1 if sent is None else sent.number, now)

    def is_known(self, manifest: GroupManifest, log: Log) -> bool:
        """Say whether a member has acknowledged all of a log of ours; so, too, where nobody else could."""
        end, others = self._records.operations.end_of(manifest.group_id, log), list(self._hearers(manifest))
        sent = [self._records.announcements.of(manifest.group_id, key, log) for key in others]
        known = (each is not None and not each.waits and each.number >= end.number for each in sent if end is not None)
        return end is None or not others or any(known)

    def hand_over(self, manifest: GroupManifest, log: Log, now: Now) -> None:
        """Send a log of ours to members that all came later than what it says, and may not have asked for it yet."""
        others = list(self._hearers(manifest))
        if any(self._records.announcements.of(manifest.group_id, key, log) is not None for key in others):
            return
        for key in others:
            self._send_log(manifest.group_id, key, log, 0, now)

    def has_work(self, now: Now) -> bool:
        """Say whether something may be owed to a member that has acknowledged what was sent before."""
        return self._look_at_us is not None and now.monotonic_us >= self._look_at_us

    def maintain(self, groups: Mapping[GroupId, GroupManifest], now: Now) -> None:
        """Send members of these groups what was written while something waited for them."""
        log = Log(self._own, self._records.incarnations.present())
        waiting = False
        for behind in self._records.announcements.behind(log):
            group = groups.get(behind.group_id)
            if group is None or group.member(behind.member) is None or self._groups.address(behind.member) is None:
                self._records.announcements.forget(behind.group_id, behind.member)
            elif behind.waits:
                waiting = True
            else:
                self._send_log(behind.group_id, behind.member, log, behind.number, now)
        self._looked_at_us = now.monotonic_us
        self._look_at_us = now.monotonic_us + ANNOUNCE_US if waiting else None

    def _hearers(self, manifest: GroupManifest) -> Iterator[DeviceKey]:
        """Yield the members that are sent what this device writes."""
        for member in manifest.members:
            key = member.keys.signing_public
            if not member.is_board and key != self._own and self._groups.address(key) is not None:
                yield key

    def _send_log(self, group_id: GroupId, member: DeviceKey, log: Log, after: int, now: Now) -> None:
        bundle = self._answering.bundle(group_id, HistoryPull({log: after}, only=True))
        last = read_operation(bundle.operations[-1], verify=False).number if bundle.operations else 0
        place = self._queue.queue(member, MessageType.OPERATIONS, group_id, bundle.to_wire(), now)
        self._records.announcements.announced(group_id, member, place, log, last)
