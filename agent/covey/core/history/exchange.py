"""How a history travels: own operations to members, and catching up with what they hold.

1. An author sends its operations to every other member that is no board. While something waits for a member, a
   further operation adds no message: it is sent when that has been acknowledged. So who is away for a year costs
   its author one row.
2. Who asks says how far it has come in each log, and is answered with what comes after that, the lowest first, as
   much as one message carries. It asks again while that brings something, and otherwise not before
   `HISTORY_PULL_US` have passed; what an answer rests on is asked for by its id then, too. Where not even the lowest
   is small enough for a relay there is no answer.
3. Who has forgotten operations that an asker lacks does not answer: the rest would wait for them at the asker, and be
   asked for again and again. Whoever keeps them answers; what others can give is in `checkpoints/newcomers.py`.

What is taken of an answer is decided in `history.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from covey.core.group.manifest import GroupManifest
from covey.core.group.messages import GroupSend
from covey.core.history.messages import HistoryPull, OperationBundle, bundle_payload_bytes
from covey.core.history.operation import Log, read_operation
from covey.core.history.records import HistoryRecords
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.link.carriage import Carriage
from covey.core.link.records import MessageClass
from covey.core.link.send_queue import SendQueue
from covey.core.membership.groups import Groups
from covey.core.membership.past import Past
from covey.core.now import Now
from covey.core.wire.message import Message, MessageType
from covey.limits.history import (
    ANNOUNCE_US,
    BUNDLE_OPERATION_BYTES,
    BUNDLE_OPERATIONS,
    HISTORY_PULL_US,
    MAXIMUM_WANTED,
)


class HistoryExchange:
    """Tells members what this device has written, asks them for what it lacks, and answers them."""

    def __init__(
        self,
        own: DeviceKey,
        groups: Groups,
        past: Past,
        records: HistoryRecords,
        queue: SendQueue,
        carriage: Carriage,
    ) -> None:
        self._own = own
        self._groups = groups
        self._past = past
        self._records = records
        self._queue = queue
        self._carriage = carriage
        self._pulled_at_us: dict[tuple[GroupId, DeviceKey], int] = {}
        self._look_at_us: int | None = 0
        """When to look next whether something is owed to a member; None: to nobody."""
        self._missing_manifests: dict[GroupId, ManifestHash] = {}
        self._asks_later: dict[GroupId, DeviceKey] = {}
        """Whom to ask for operations once a manifest that one of them names has come."""
        self._wanted: dict[tuple[GroupId, DeviceKey], tuple[OperationId, ...]] = {}
        """What a member's operations rest on that was asked too lately to be asked again."""

    def refresh(self) -> None:
        """Look at what another process wrote."""
        self._look_at_us = 0

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

    def _hearers(self, manifest: GroupManifest) -> Iterator[DeviceKey]:
        """Yield the members that are sent what this device writes."""
        for member in manifest.members:
            key = member.keys.signing_public
            if not member.is_board and key != self._own and self._groups.address(key) is not None:
                yield key

    def _send_log(self, group_id: GroupId, member: DeviceKey, log: Log, after: int, now: Now) -> None:
        bundle, last = self._bundle(group_id, {log: after}, only=log)
        place = self._queue.queue(member, MessageType.OPERATIONS, group_id, bundle.to_wire(), now)
        self._records.announcements.announced(group_id, member, place, log, last)

    def has_work(self, now: Now) -> bool:
        """Say whether something may be owed to a member that has acknowledged what was sent before."""
        return self._look_at_us is not None and now.monotonic_us >= self._look_at_us

    def maintain(self, now: Now) -> None:
        """Send members what was written while something waited for them (rule 1)."""
        log = Log(self._own, self._records.incarnations.present())
        groups = {group.group_id: group for group in self._groups.joined()}
        waiting = False
        for behind in self._records.announcements.behind(log):
            group = groups.get(behind.group_id)
            if group is None or group.member(behind.member) is None or self._groups.address(behind.member) is None:
                self._records.announcements.forget(behind.group_id, behind.member)
            elif behind.waits:
                waiting = True
            else:
                self._send_log(behind.group_id, behind.member, log, behind.number, now)
        sends = [*self._ask_late(groups, now), *self._ask_wanted(groups, now)]
        self._queue.queue_all(sends, (), now)
        waiting = waiting or bool(self._asks_later or self._wanted)
        self._look_at_us = now.monotonic_us + ANNOUNCE_US if waiting else None

    def _ask_late(self, groups: dict[GroupId, GroupManifest], now: Now) -> list[GroupSend]:
        """Ask for the operations whose manifest has come since, and on for the manifests that have not.

        A manifest may be the one that removes this device, or the member that is to be asked: then it answers no more.
        """
        sends: list[GroupSend] = []
        for group_id, member in list(self._asks_later.items()):
            group = groups.get(group_id)
            if group is None or group.member(member) is None:
                del self._asks_later[group_id], self._missing_manifests[group_id]
            elif self._records.groups.manifest(group_id, self._missing_manifests[group_id]) is not None:
                del self._asks_later[group_id], self._missing_manifests[group_id]
                sends += self.ask(group_id, member, now, progressed=True)
            else:
                sends += self._past.ask(group_id, member, now)
        return sends

    def _ask_wanted(self, groups: dict[GroupId, GroupManifest], now: Now) -> list[GroupSend]:
        """Ask for what operations rest on, whose senders were asked too lately before."""
        sends: list[GroupSend] = []
        for group_id, member in list(self._wanted):
            group = groups.get(group_id)
            if group is None or group.member(member) is None:
                del self._wanted[group_id, member]
            else:
                sends += self.ask(group_id, member, now)
        return sends

    def ask_later(self, group_id: GroupId, member: DeviceKey, manifest: ManifestHash, now: Now) -> None:
        """Ask a member again once a manifest that its operations name is here."""
        self._missing_manifests[group_id] = manifest
        self._asks_later[group_id] = member
        self._look_at_us = now.monotonic_us + ANNOUNCE_US

    def ask(
        self,
        group_id: GroupId,
        member: DeviceKey,
        now: Now,
        wanted: Iterable[OperationId] = (),
        *,
        progressed: bool = False,
    ) -> list[GroupSend]:
        """Ask a member for all that is not here; `progressed` where the last answer brought something (rule 2)."""
        records = self._records.operations
        named = (*wanted, *self._wanted.pop((group_id, member), ()))
        unknown = sorted({each for each in named if records.held(group_id, each) is None})[:MAXIMUM_WANTED]
        asked_at_us = self._pulled_at_us.get((group_id, member))
        if not progressed and asked_at_us is not None and now.monotonic_us < asked_at_us + HISTORY_PULL_US:
            if unknown:
                self._wanted[group_id, member] = tuple(unknown)
                self._look_at_us = now.monotonic_us + ANNOUNCE_US
            return []
        self._pulled_at_us = {
            key: at_us for key, at_us in self._pulled_at_us.items() if now.monotonic_us < at_us + HISTORY_PULL_US
        }
        self._pulled_at_us[group_id, member] = now.monotonic_us
        pull = HistoryPull(dict(records.logs(group_id)), tuple(unknown))
        return [GroupSend(member, MessageType.HISTORY_PULL, group_id, pull.to_wire())]

    def was_asked(self, group_id: GroupId, member: DeviceKey) -> bool:
        """Say whether a member was asked for operations lately."""
        return (group_id, member) in self._pulled_at_us

    def lacks_forgotten(self, group_id: GroupId, pull: HistoryPull) -> bool:
        """Say whether an asker lacks what was forgotten here."""
        forgotten = self._records.operations.forgotten.ends(group_id)
        return any(number > pull.ends.get(log, 0) for log, number in forgotten.items())

    def is_fed(self, member: DeviceKey) -> bool:
        """Say whether a member has not taken what it was given before."""
        return self._records.outbox.waiting_bytes(member, MessageClass.HISTORY) > BUNDLE_OPERATION_BYTES

    def answer_pull(self, message: Message) -> list[GroupSend]:
        """Give a member what it lacks; nothing while it has not taken what it was given before.

        Nothing, too, where it lacks what was forgotten here (rule 3).

        Raises:
            RemoteError: malformed.
        """
        pull = HistoryPull.from_wire(message.body)
        if self.is_fed(message.author):
            self._records.counters.count("pulls_unanswered")
            return []
        if self.lacks_forgotten(message.group_id, pull):
            self._records.counters.count("pulls_of_forgotten")
            return []
        bundle, _ = self._bundle(message.group_id, pull.ends, wanted=pull.wanted)
        if not bundle.operations:
            return []
        if not self.fits_a_relay(len(bundle.operations), sum(map(len, bundle.operations))):
            self._records.counters.count("pulls_too_large")
            return []
        return [GroupSend(message.author, MessageType.OPERATIONS, message.group_id, bundle.to_wire())]

    def _bundle(
        self,
        group_id: GroupId,
        ends: dict[Log, int],
        *,
        wanted: Iterable[OperationId] = (),
        only: Log | None = None,
    ) -> tuple[OperationBundle, int]:
        """Return what comes after the ends of some logs, as much as one message carries; and the last one's number.

        The first operation is there even where no relay takes it.
        """
        chosen: list[bytes] = []
        length, last = 0, 0
        for raw in self._missing(group_id, ends, wanted, only):
            length += len(raw)
            bounded = len(chosen) < BUNDLE_OPERATIONS and length <= BUNDLE_OPERATION_BYTES
            if chosen and not (bounded and self.fits_a_relay(len(chosen) + 1, length)):
                more = self._count_missing(group_id, ends, only) - len(chosen)
                return OperationBundle(tuple(chosen), max(1, more)), last
            chosen.append(raw)
            if only is not None:
                last = read_operation(raw, verify=False).number
        return OperationBundle(tuple(chosen)), last

    def _count_missing(self, group_id: GroupId, ends: dict[Log, int], only: Log | None) -> int:
        """Return how many operations come after the ends of logs, those that were forgotten among them."""
        logs = self._records.operations.logs(group_id)
        return sum(max(0, number - ends.get(log, 0)) for log, number in logs if only is None or log == only)

    def fits_a_relay(self, operations: int, length: int) -> bool:
        """Say whether one message carries some operations, which are `length` bytes together."""
        return bundle_payload_bytes(operations, length) <= self._carriage.maximum_payload

    def _missing(
        self, group_id: GroupId, ends: dict[Log, int], wanted: Iterable[OperationId], only: Log | None
    ) -> Iterator[bytes]:
        """Yield what comes after the ends of logs, and what is wanted by its id, the lowest first."""
        records = self._records.operations
        logs = [(log, number) for log, number in records.logs(group_id) if only is None or log == only]
        after = [records.after(group_id, log, ends.get(log, 0)) for log, number in logs if number > ends.get(log, 0)]
        named = [(each, raw) for each in wanted if (raw := records.raw(group_id, each)) is not None]
        by_name = sorted((read_operation(raw, verify=False).height, each, raw) for each, raw in named)
        before = None
        for _, operation_id, raw in heapq.merge(by_name, *after):
            if operation_id != before:
                yield raw
            before = operation_id
