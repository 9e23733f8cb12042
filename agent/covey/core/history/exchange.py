"""How a history travels: own operations to members, and catching up with what they hold.

1. An author sends its operations to every other member that is no board. While something waits for a member, a
   further operation adds no message: it is sent when that has been acknowledged. So who is away for a year costs
   its author one row.
2. Who asks says how far it has come in each log, and is answered with what comes after that, the lowest first, as
   much as one message carries. To who takes that, it names logs by tags. It asks again while that brings something,
   and otherwise not before `HISTORY_PULL_US` have passed; what an answer rests on is asked for by its id then, too.
   Where not even the lowest is small enough for a relay there is no answer.
3. Who has forgotten operations that an asker lacks does not answer: the rest would wait for them at the asker, and be
   asked for again and again. Whoever keeps them answers; what others can give is in `checkpoints/newcomers.py`.
4. Who is asked with tags sees by these what the asker has, and asks back for that alone: so two that differ on both
   sides compare their logs once.

What is taken of an answer is decided in `history.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from covey.core.group.manifest import GroupManifest
from covey.core.group.messages import GroupSend
from covey.core.history.messages import LOG_SALT_BYTES, HistoryPull, OperationBundle, bundle_payload_bytes
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
    ANNOUNCE_PAUSE_US,
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
        self._announce_at_us: int | None = 0
        """When to look next whether something is owed to a member; None: to nobody."""
        self._announced_at_us = 0
        """When that was looked at last."""
        self._look_at_us: int | None = None
        """When to look next whether a member is to be asked; None: nobody is."""
        self._missing_manifests: dict[GroupId, ManifestHash] = {}
        self._asks_later: dict[GroupId, DeviceKey] = {}
        """Whom to ask for operations once a manifest that one of them names has come."""
        self._asks_at_us: dict[GroupId, tuple[DeviceKey, int]] = {}
        """Whom to ask for operations once more, and when."""
        self._asked: set[tuple[GroupId, DeviceKey]] = set()
        """Who was asked since the start: an answer may come after a day."""
        self._taking_tags: set[DeviceKey] = set()
        """Who has said that it takes requests that name logs by tags."""
        self._wanted: dict[tuple[GroupId, DeviceKey], tuple[OperationId, ...]] = {}
        """What a member's operations rest on that was asked too lately to be asked again."""

    def refresh(self) -> None:
        """Look at what another process wrote."""
        self._announce_at_us = 0

    def acknowledged(self) -> None:
        """Look sooner at what was held back, as a member has acknowledged something."""
        if self._announce_at_us is not None:
            self._announce_at_us = min(self._announce_at_us, self._announced_at_us + ANNOUNCE_PAUSE_US)

    def announce(self, manifest: GroupManifest, log: Log, first: int, now: Now) -> None:
        """Queue what was written from a number on for every member for whom nothing waits (rule 1)."""
        announcements = self._records.announcements
        for key in self._hearers(manifest):
            sent = announcements.of(manifest.group_id, key, log)
            if sent is not None and sent.waits:
                self._announce_at_us = now.monotonic_us + ANNOUNCE_US
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
        bundle = self._bundle(group_id, HistoryPull({log: after}, only=True))
        last = read_operation(bundle.operations[-1], verify=False).number if bundle.operations else 0
        place = self._queue.queue(member, MessageType.OPERATIONS, group_id, bundle.to_wire(), now)
        self._records.announcements.announced(group_id, member, place, log, last)

    def has_work(self, now: Now) -> bool:
        """Say whether something may be owed to a member that has acknowledged what was sent before, or be asked for."""
        return _is_due(self._announce_at_us, now) or _is_due(self._look_at_us, now)

    def maintain(self, now: Now) -> None:
        """Send members what was written while something waited for them (rule 1), and ask whom it was too soon to ask.

        What is held back is looked at whenever a member may have acknowledged what was sent before.
        """
        groups = {group.group_id: group for group in self._groups.joined()}
        if _is_due(self._announce_at_us, now):
            self._announce_held_back(groups, now)
        if _is_due(self._look_at_us, now):
            sends = [*self._ask_late(groups, now), *self._ask_wanted(groups, now), *self._ask_once_more(groups, now)]
            self._queue.queue_all(sends, (), now)
            looks = [at_us for _, at_us in self._asks_at_us.values()]
            if self._asks_later or self._wanted:
                looks.append(now.monotonic_us + ANNOUNCE_US)
            self._look_at_us = min(looks, default=None)

    def _announce_held_back(self, groups: dict[GroupId, GroupManifest], now: Now) -> None:
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
        self._announced_at_us = now.monotonic_us
        self._announce_at_us = now.monotonic_us + ANNOUNCE_US if waiting else None

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

    def _ask_once_more(self, groups: dict[GroupId, GroupManifest], now: Now) -> list[GroupSend]:
        """Ask those whose time has come."""
        sends: list[GroupSend] = []
        for group_id, (member, at_us) in list(self._asks_at_us.items()):
            group = groups.get(group_id)
            if group is None or group.member(member) is None:
                del self._asks_at_us[group_id]
            elif _is_due(at_us, now):
                del self._asks_at_us[group_id]
                sends += self.ask(group_id, member, now, progressed=True)
        return sends

    def ask_at(self, group_id: GroupId, member: DeviceKey, at_us: int) -> None:
        """Ask a member once more at a time of the monotonic clock; nobody else who was to be asked so in the group."""
        self._asks_at_us[group_id] = member, at_us
        self._look_by(at_us)

    def ask_later(self, group_id: GroupId, member: DeviceKey, manifest: ManifestHash, now: Now) -> None:
        """Ask a member again once a manifest that its operations name is here."""
        self._missing_manifests[group_id] = manifest
        self._asks_later[group_id] = member
        self._look_by(now.monotonic_us + ANNOUNCE_US)

    def _look_by(self, at_us: int) -> None:
        """Look whom to ask at a time at the latest: what comes meanwhile does not put it off."""
        self._look_at_us = at_us if self._look_at_us is None else min(self._look_at_us, at_us)

    def ask(
        self,
        group_id: GroupId,
        member: DeviceKey,
        now: Now,
        wanted: Iterable[OperationId] = (),
        *,
        progressed: bool = False,
        behind: dict[Log, int] | None = None,
    ) -> list[GroupSend]:
        """Ask a member for all that is not here; `progressed` where the last answer brought something (rule 2).

        `behind` are the logs alone of which it is to send something, and how far they have come here.
        """
        records = self._records.operations
        named = (*wanted, *self._wanted.pop((group_id, member), ()))
        unknown = sorted({each for each in named if records.held(group_id, each) is None})[:MAXIMUM_WANTED]
        asked_at_us = self._pulled_at_us.get((group_id, member))
        if not progressed and asked_at_us is not None and now.monotonic_us < asked_at_us + HISTORY_PULL_US:
            if unknown:
                self._wanted[group_id, member] = tuple(unknown)
                self._look_by(now.monotonic_us + ANNOUNCE_US)
            return []
        self._pulled_at_us = {
            key: at_us for key, at_us in self._pulled_at_us.items() if now.monotonic_us < at_us + HISTORY_PULL_US
        }
        self._pulled_at_us[group_id, member] = now.monotonic_us
        self._asked.add((group_id, member))
        pull = HistoryPull(behind or dict(records.logs(group_id)), tuple(unknown), only=behind is not None)
        if member in self._taking_tags:
            pull = pull.with_tags(now.wall_us.to_bytes(LOG_SALT_BYTES, "big"))
        return [GroupSend(member, MessageType.HISTORY_PULL, group_id, pull.to_wire())]

    def note_tags(self, member: DeviceKey, *, takes: bool) -> None:
        """Note whether a member takes requests that name logs by tags."""
        (self._taking_tags.add if takes else self._taking_tags.discard)(member)

    def read_pull(self, message: Message) -> HistoryPull:
        """Read a request, as far as it names logs that are here.

        Raises:
            RemoteError: malformed.
        """
        pull = HistoryPull.from_wire(message.body)
        return pull.among(log for log, _ in self._records.operations.logs(message.group_id))

    def ask_back(self, message: Message, now: Now) -> list[GroupSend]:
        """Ask who has asked with tags for what it has said that it has, and this device has not (rule 4).

        Raises:
            RemoteError: malformed.
        """
        asked, group_id = HistoryPull.from_wire(message.body), message.group_id
        if asked.tagged is None or asked.only:
            return []  # so nobody asks back who was asked back
        self.note_tags(message.author, takes=True)
        own = dict(self._records.operations.logs(group_id))
        behind = {log: own[log] for log, number in asked.among(own).ends.items() if number > own[log]}
        return self.ask(group_id, message.author, now, behind=behind) if behind else []

    def was_asked(self, group_id: GroupId, member: DeviceKey) -> bool:
        """Say whether a member was asked for operations since the start."""
        return (group_id, member) in self._asked

    def lacks_forgotten(self, group_id: GroupId, pull: HistoryPull) -> bool:
        """Say whether an asker lacks what was forgotten here."""
        forgotten = self._records.operations.forgotten.ends(group_id)
        return any(number > pull.end_of(log) for log, number in forgotten.items())

    def is_fed(self, member: DeviceKey) -> bool:
        """Say whether a member has not taken what it was given before."""
        return self._records.outbox.waiting_bytes(member, MessageClass.HISTORY) > BUNDLE_OPERATION_BYTES

    def answer_pull(self, message: Message) -> list[GroupSend]:
        """Give a member what it lacks; nothing while it has not taken what it was given before.

        Nothing, too, where it lacks what was forgotten here (rule 3).

        Raises:
            RemoteError: malformed.
        """
        pull = self.read_pull(message)
        if self.is_fed(message.author):
            self._records.counters.count("pulls_unanswered")
            return []
        if self.lacks_forgotten(message.group_id, pull):
            self._records.counters.count("pulls_of_forgotten")
            return []
        bundle = self._bundle(message.group_id, pull)
        if not bundle.operations:
            return []
        if not self.fits_a_relay(len(bundle.operations), sum(map(len, bundle.operations))):
            self._records.counters.count("pulls_too_large")
            return []
        return [GroupSend(message.author, MessageType.OPERATIONS, message.group_id, bundle.to_wire())]

    def _bundle(self, group_id: GroupId, pull: HistoryPull) -> OperationBundle:
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

    def _count_missing(self, group_id: GroupId, pull: HistoryPull) -> int:
        """Return how many operations come after the ends of logs, those that were forgotten among them."""
        return sum(max(0, number - pull.end_of(log)) for log, number in self._records.operations.logs(group_id))

    def fits_a_relay(self, operations: int, length: int) -> bool:
        """Say whether one message carries some operations, which are `length` bytes together."""
        return bundle_payload_bytes(operations, length) <= self._carriage.maximum_payload

    def _missing(self, group_id: GroupId, pull: HistoryPull) -> Iterator[bytes]:
        """Yield what comes after the ends of logs, and what is wanted by its id, the lowest first."""
        records = self._records.operations
        logs = [log for log, number in records.logs(group_id) if number > pull.end_of(log)]
        after = [records.after(group_id, log, pull.end_of(log)) for log in logs]
        named = [(each, raw) for each in pull.wanted if (raw := records.raw(group_id, each)) is not None]
        by_name = sorted((read_operation(raw, verify=False).height, each, raw) for each, raw in named)
        before = None
        for _, operation_id, raw in heapq.merge(by_name, *after):
            if operation_id != before:
                yield raw
            before = operation_id


def _is_due(at_us: int | None, now: Now) -> bool:
    return at_us is not None and now.monotonic_us >= at_us
