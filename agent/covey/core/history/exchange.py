"""How a history travels: own operations to members, and catching up with what they hold, by asking (`asking.py`).

An author sends its operations to every other member except boards. While one waits for a member, a further operation
adds no message: it is sent once the first is acknowledged. So a member that is away for a year costs its author one
row. The device checks what it held back whenever a member may have acknowledged an earlier message.

How a device answers members that ask for what they lack:

1. The asker states how far it has come in each log. The answer is what comes after that, lowest first, as much as one
   message carries. If not even the lowest fits a relay, there is no answer.
2. A member that has not yet acknowledged the last answer gets no further one.
3. A device that has forgotten operations that an asker lacks does not answer: the rest would wait for them at the
   asker, and be requested again and again. A member that has kept them answers; `checkpoints/newcomers.py` says what
   others can give.

`history.py` decides what is accepted of an answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest
from covey.core.group.messages import GroupSend
from covey.core.history.asking import HistoryAsking
from covey.core.history.messages import HistoryPull, OperationBundle, bundle_payload_bytes
from covey.core.history.operation import Behind, Log, read_operation
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.carriage import Carriage
from covey.core.link.queued import MessageClass
from covey.core.link.send_queue import SendQueue, more_waits
from covey.core.membership.groups import Groups
from covey.core.membership.past import Past
from covey.core.now import Now
from covey.core.wire.message import Message, MessageType
from covey.limits.history import (
    ANNOUNCE_MEMBERS,
    ANNOUNCE_PAUSE_US,
    ANNOUNCE_US,
    BUNDLE_OPERATION_BYTES,
    BUNDLE_OPERATIONS,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_OPERATION_BYTES,
)

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
        self._look_at_all_us = 0
        """When to look at all members, and not only at those that have acknowledged something."""
        self._answered: set[DeviceKey] = set()
        """The members that have, since the last look."""

    def refresh(self) -> None:
        """Look at what another process wrote."""
        self._look_at_us = self._look_at_all_us = 0

    def acknowledged(self, member: DeviceKey) -> None:
        """Look sooner at what was held back, as a member has acknowledged something."""
        if self._look_at_us is not None:
            self._answered.add(member)
            self._look_at_us = min(self._look_at_us, self._looked_at_us + ANNOUNCE_PAUSE_US)

    def announce(self, manifest: GroupManifest, log: Log, first: int, now: Now) -> None:
        """Queue operations from a number on for every member for which nothing waits (rule 1)."""
        announcements = self._records.announcements
        for key in self._hearers(manifest):
            sent = announcements.of(manifest.group_id, key, log)
            if sent is not None and sent.waits:
                self._look_at_us = self._look_at_all_us = now.monotonic_us + ANNOUNCE_US
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
        looks_at_all = now.monotonic_us >= self._look_at_all_us
        answered, self._answered = sorted(self._answered), set()
        waiting = 0
        for group, log, behind in self._behind(groups.values(), None if looks_at_all else answered):
            if group.member(behind.member) is None or self._groups.address(behind.member) is None:
                self._records.announcements.forget(group.group_id, behind.member)
            elif behind.waits:
                waiting += 1
            else:
                self._send_log(group.group_id, behind.member, log, behind.number, now)
        self._looked_at_us = now.monotonic_us
        if looks_at_all:
            self._look_at_all_us = now.monotonic_us + ANNOUNCE_US * (1 + waiting // ANNOUNCE_MEMBERS)
            self._look_at_us = self._look_at_all_us if waiting else None
        else:
            self._look_at_us = self._look_at_all_us

    def _behind(
        self, groups: Iterable[GroupManifest], members: Sequence[DeviceKey] | None
    ) -> Iterator[tuple[GroupManifest, Log, Behind]]:
        """Yield what was held back in groups from these members; None: from all."""
        behind = self._records.announcements.behind
        for group in groups:
            chosen = None if members is None else [each for each in members if group.member(each) is not None]
            if chosen is None or chosen:
                log = Log(self._own, self._records.incarnations.of_log(group.group_id))
                found = [behind(group.group_id, log, each) for each in ([None] if chosen is None else chosen)]
                yield from ((group, log, each) for of_one in found for each in of_one)

    def _hearers(self, manifest: GroupManifest) -> Iterator[DeviceKey]:
        for member in manifest.members:
            key = member.keys.signing_public
            if not member.is_board and key != self._own and self._groups.address(key) is not None:
                yield key

    def _send_log(self, group_id: GroupId, member: DeviceKey, log: Log, after: int, now: Now) -> None:
        bundle = self._answering.bundle(group_id, HistoryPull({log: after}, only=True))
        last = read_operation(bundle.operations[-1], verify=False).number if bundle.operations else 0
        place = self._queue.queue(member, MessageType.OPERATIONS, group_id, bundle.to_wire(), now)
        self._records.announcements.announced(group_id, member, place, log, last)


_AROUND_BODY = MAXIMUM_OPERATION_BYTES - MAXIMUM_OPERATION_BODY_BYTES

if TYPE_CHECKING:
    from covey.core.records import Records


class HistoryAnswering:
    """Gives members what they lack."""

    def __init__(self, records: Records, carriage: Carriage) -> None:
        self._records = records
        self._carriage = carriage

    def read_pull(self, message: Message) -> HistoryPull:
        """Read a request, as far as it names logs that are here.

        Raises:
            RemoteError: malformed.
        """
        return self._among(message.group_id, HistoryPull.from_wire(message.body))

    def _among(self, group_id: GroupId, pull: HistoryPull) -> HistoryPull:
        return pull.among(log for log, _ in self._records.operations.logs(group_id)) if pull.tagged else pull

    def lacks_forgotten(self, group_id: GroupId, pull: HistoryPull) -> bool:
        """Say whether an asker lacks what was forgotten here."""
        forgotten = self._records.operations.forgotten_ends(group_id)
        return any(number > pull.end_of(log) for log, number in forgotten.items())

    def is_fed(self, group_id: GroupId, member: DeviceKey) -> bool:
        """Say whether a member has not taken what it was given before of a group's history."""
        return more_waits(self._records.outbox, member, MessageClass.HISTORY, group_id, BUNDLE_OPERATION_BYTES)

    def answer(self, message: Message, asked: HistoryPull) -> list[GroupSend]:
        """Give a member that has asked what it lacks, by the rules."""
        pull = self._among(message.group_id, asked)
        if self.is_fed(message.group_id, message.author):
            self._records.counters.count("pulls_unanswered")
            return []
        if self.lacks_forgotten(message.group_id, pull):
            self._records.counters.count("pulls_of_forgotten")
            return []
        bundle = self.bundle(message.group_id, pull)
        if not bundle.operations:
            return []
        if not self.fits_a_relay(len(bundle.operations), sum(map(len, bundle.operations))):
            self._records.counters.count("pulls_too_large")
            return []
        return [GroupSend(message.author, MessageType.OPERATIONS, message.group_id, bundle.to_wire())]

    def bundle(self, group_id: GroupId, pull: HistoryPull) -> OperationBundle:
        """Return what an asker lacks, as much as one message carries.

        The first operation is there even where no relay takes it.
        """
        chosen: list[bytes] = []
        length = 0
        for raw in self._missing(group_id, pull):
            length += len(raw)
            bounded = len(chosen) < BUNDLE_OPERATIONS and length <= BUNDLE_OPERATION_BYTES
            if chosen and not (bounded and self.fits_a_relay(len(chosen) + 1, length)):
                return OperationBundle(tuple(chosen), max(1, self._count_missing(group_id, pull) - len(chosen)))
            chosen.append(raw)
        return OperationBundle(tuple(chosen))

    def fits_a_relay(self, operations: int, length: int) -> bool:
        """Say whether one message carries some operations, which are `length` bytes together."""
        return bundle_payload_bytes(operations, length) <= self._carriage.maximum_payload

    def largest_body(self) -> int:
        """Return how large the body of an operation may be, in bytes, so that a relay of this device carries it."""
        fitting, too_large = 0, MAXIMUM_OPERATION_BODY_BYTES + 1
        while too_large - fitting > 1:  # padding makes the size of a message a staircase
            middle = (fitting + too_large) // 2
            if self.fits_a_relay(1, middle + _AROUND_BODY):
                fitting = middle
            else:
                too_large = middle
        return fitting

    def _count_missing(self, group_id: GroupId, pull: HistoryPull) -> int:
        return sum(max(0, number - pull.end_of(log)) for log, number in self._records.operations.logs(group_id))

    def _missing(self, group_id: GroupId, pull: HistoryPull) -> Iterator[bytes]:
        records = self._records.operations
        logs = [log for log, number in records.logs(group_id) if number > pull.end_of(log)]
        after = [records.after(group_id, log, pull.end_of(log)) for log in logs]
        named = [(each, raw) for each in pull.wanted if (raw := records.raw(group_id, each)) is not None]
        by_name = sorted((read_operation(raw, verify=False).height, each, raw) for each, raw in named)
        yield from (raw for _, _, raw in by_name)  # first: the asker learns from them which logs it lacks
        given = {operation_id for _, operation_id, _ in by_name}
        for _, operation_id, raw in heapq.merge(*after):
            if operation_id not in given:
                yield raw


class HistoryExchange:
    """Tells members what this device has written, asks them for what it lacks, and answers them."""

    def __init__(
        self,
        own: DeviceKey,
        groups: Groups,
        past: Past,
        records: Records,
        queue: SendQueue,
        carriage: Carriage,
    ) -> None:
        self._groups = groups
        self._queue = queue
        self.answering = HistoryAnswering(records, carriage)
        self.asking = HistoryAsking(past, records)
        self.announcing = HistoryAnnouncing(own, groups, records, queue, self.answering)

    def has_work(self, now: Now) -> bool:
        """Say whether something may be owed to a member that has acknowledged what was sent before, or be asked for."""
        return self.announcing.has_work(now) or self.asking.has_work(now)

    def maintain(self, now: Now) -> None:
        """Send members operations held back while something waited, and ask members that could not be asked earlier."""
        groups = {group.group_id: group for group in self._groups.joined()}
        if self.announcing.has_work(now):
            self.announcing.maintain(groups, now)
        if self.asking.has_work(now):
            self._queue.queue_all(self.asking.maintain(groups, now), (), now)
