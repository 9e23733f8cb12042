"""The history of one device's groups: writing operations, taking others', and catching up.

1. An author sends its operations to every other member that is no board. While something waits for a member, a
   further operation adds no message: it is sent when that has been acknowledged. So who is away for a year costs
   its author one row.
2. What is taken of a message is stored in the commit by which it came. An operation that rests on one that is not
   here is dropped, and its sender asked for all that is missing; one that breaks a rule ends its author's log here,
   and takes nothing else along.
3. Who asks says how far it has come in each log, and is answered with what comes after that, the lowest first, as
   much as one message carries. It asks again while that brings something, and otherwise not before
   `HISTORY_PULL_US` have passed; what an answer rests on is asked for by its id then, too.
4. Where more operations than one may follow are heads, merges come first, the first one of the highest heads: so
   each is higher than the one before it in its log. Neither what is void nor what came
   late is followed (`standing.py`).
5. Who removes a member adds a merge in the same commit, under the manifest that removes it: what that follows of the
   removed member's still counts, and nothing else does (`standing.py`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest
from covey.core.group.messages import GroupSend
from covey.core.history.acceptance import Acceptance, Waits
from covey.core.history.bodies import Body, GroupProfile, Merge, read_profile
from covey.core.history.kinds import OperationKind
from covey.core.history.messages import HistoryPull, OperationBundle
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.records import HistoryRecords
from covey.core.history.standing import Standing, heads_of, weigh
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.link.send_queue import SendQueue
from covey.core.membership.groups import Groups
from covey.core.membership.past import Past
from covey.core.now import Now
from covey.core.wire.heads import history_digest
from covey.core.wire.message import Message, MessageType
from covey.errors import LimitError, LocalError, NotAllowedError, NotForUsError, RemoteError
from covey.limits.history import (
    ANNOUNCE_US,
    BUNDLE_OPERATION_BYTES,
    BUNDLE_OPERATIONS,
    HISTORY_PULL_US,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_PARENTS,
    MAXIMUM_WANTED,
)


@dataclass(slots=True)
class Taken:
    """What became of the operations of one message."""

    accepted: list[Operation] = field(default_factory=list)
    missing: set[OperationId] = field(default_factory=set)
    """Operations that accepted or waiting ones follow, and that are not here."""
    waiting: int = 0
    for_manifest: bool = False
    refused: list[RemoteError] = field(default_factory=list)


class History:
    """The history of each of this device's groups."""

    def __init__(
        self, identity: Identity, groups: Groups, past: Past, records: HistoryRecords, queue: SendQueue
    ) -> None:
        self._identity = identity
        self._own = identity.signing_public
        self._groups = groups
        self._records = records
        self._queue = queue
        self._past = past
        self._acceptance = Acceptance(records)
        self._pulled_at_us: dict[tuple[GroupId, DeviceKey], int] = {}
        self._look_at_us: int | None = 0
        """When to look next whether something is owed to a member; None: to nobody."""
        self._missing_manifests: dict[GroupId, ManifestHash] = {}
        self._asks_later: dict[GroupId, DeviceKey] = {}
        """Whom to ask for operations once a manifest that one of them names has come."""
        self._wanted: dict[tuple[GroupId, DeviceKey], tuple[OperationId, ...]] = {}
        """What a member's operations rest on that was asked too lately to be asked again."""
        self.generation = 0
        """Another number whenever a history has changed."""
        self._heads: dict[GroupId, tuple[int, set[OperationId]]] = {}
        """What is compared of each history, and of which generation of the groups that is."""
        self._digests: dict[GroupId, bytes] = {}
        self._standings: dict[GroupId, tuple[int, Standing]] = {}
        self._writers_by_group: dict[GroupId, frozenset[DeviceKey]] = {}
        self._writers_of_generation = -1

    def refresh(self) -> None:
        """Take up what another process wrote."""
        self.generation += 1
        self._standings.clear()
        self._heads.clear()
        self._digests.clear()
        self._look_at_us = 0

    def _add(self, operation: Operation, manifest_version: int, now: Now) -> None:
        """Keep an operation."""
        group_id = operation.group_id
        is_writer = operation.author in self._writers(group_id)
        self._records.operations.add(operation, manifest_version, now.wall_us, late=not is_writer)
        self.generation += 1
        self._standings.clear()
        if is_writer and group_id in self._heads:
            self._digests.pop(group_id, None)
            heads = self._heads[group_id][1]
            heads.difference_update(operation.parents)
            heads.add(operation.id)

    def digest(self, group_id: GroupId) -> bytes:
        """Return the digest of a history's heads, as members compare them (`wire/heads.py`, `standing.heads_of`)."""
        found = self._heads.get(group_id)
        if found is None or found[0] != self._groups.generation:
            heads = heads_of(self._records.operations, group_id, self._writers(group_id))
            self._heads[group_id] = self._groups.generation, heads
            self._digests[group_id] = history_digest(heads)
        elif group_id not in self._digests:
            self._digests[group_id] = history_digest(found[1])
        return self._digests[group_id]

    def standing(self, group_id: GroupId) -> Standing:
        """Return which operations of a group are void, and what the next one follows (`standing.py`)."""
        found = self._standings.get(group_id)
        if found is None or found[0] != self._groups.generation:
            writers = self._writers(group_id)
            standing = weigh(self._records.operations, group_id, writers, lambda each: self._named(group_id, each))
            found = self._standings[group_id] = self._groups.generation, standing
        return found[1]

    def _writers(self, group_id: GroupId) -> frozenset[DeviceKey]:
        """Return the members that a group lists now, boards apart."""
        if self._writers_of_generation != self._groups.generation:
            self._writers_of_generation = self._groups.generation
            self._writers_by_group.clear()
        if group_id not in self._writers_by_group:
            trust = self._groups.trust_of(group_id)
            members = trust.current.members if trust is not None and trust.current is not None else ()
            writers = frozenset(member.keys.signing_public for member in members if not member.is_board)
            self._writers_by_group[group_id] = writers
        return self._writers_by_group[group_id]

    def profile(self, group_id: GroupId) -> GroupProfile:
        """Return how a group is described, by the last operation that does and counts; empty where none has."""
        profiles = self._records.operations.of_kind(group_id, OperationKind.PROFILE, newest_first=True)
        void = self.standing(group_id).void
        return read_profile(next((each.raw for each in profiles if each.id not in void), None))

    def _named(self, group_id: GroupId, manifest_hash: ManifestHash) -> tuple[int, frozenset[DeviceKey]]:
        """Return version and writers of a manifest; one that was lost to damage shows nothing of anybody."""
        found = self._acceptance.named(group_id, manifest_hash)
        if found is not None:
            return found.version, found.authors
        return 0, frozenset(log.author for log, _ in self._records.operations.logs(group_id))

    # -- writing ------------------------------------------------------------------------------------------------------

    def write_after_removals(self, removals: deque[GroupManifest], now: Now) -> None:
        """Say, under each manifest by which this device removed somebody, what was known then (rule 5)."""
        while removals:
            try:
                self._write(removals.popleft(), Merge(), now)
            except LocalError:  # nobody keeps more of us: the removal stands all the same
                self._records.counters.count("removals_not_written")

    def write(self, group_id: GroupId, body: Body, now: Now) -> Operation:
        """Add an operation of this device to a group's history, and queue it for the members.

        Raises:
            LocalError: it is too large, or this device has written as much as others keep of it; or the outbox is full.
            UnknownGroupError: this device is not in the group.
        """
        if len(body.to_wire()) > MAXIMUM_OPERATION_BODY_BYTES:
            raise LocalError(f"an operation holds at most {MAXIMUM_OPERATION_BODY_BYTES} bytes")
        return self._write(self._manifest_to_name(group_id), body, now)

    def _write(self, manifest: GroupManifest, body: Body, now: Now) -> Operation:
        group_id = manifest.group_id
        heads = self._heads_to_follow(group_id, manifest)
        written: list[Operation] = []
        while len(heads) > MAXIMUM_PARENTS:  # rule 4
            merge = self._append(group_id, manifest, heads[:MAXIMUM_PARENTS], Merge(), now)
            written.append(merge)
            heads = [merge.id, *heads[MAXIMUM_PARENTS:]]
        operation = self._append(group_id, manifest, heads, body, now)
        self._announce(manifest, operation.log, operation.number - len(written), now)
        return operation

    def _manifest_to_name(self, group_id: GroupId) -> GroupManifest:
        """Return the newest manifest that lists this device: what holds, or in a conflict the highest of the heads."""
        current = self._groups.group(group_id)
        if current.raw:
            return current
        heads = self._groups.trust(group_id).heads()
        return max(
            (head for head in heads if head.member(self._own) is not None),
            key=lambda head: (head.version, head.hash),
            default=self._groups.trust(group_id).root,
        )

    def _heads_to_follow(self, group_id: GroupId, manifest: GroupManifest) -> list[OperationId]:
        """Return the heads, of what counts, that an operation under a manifest may follow (acceptance, rule 6)."""
        records = self._records.operations
        heads = [(each, records.held(group_id, each)) for each in self.standing(group_id).heads]
        held_heads = [(held.height, each, held) for each, held in heads if held is not None]
        highest_first = sorted(held_heads, key=lambda head: head[:2], reverse=True)
        return [each for _, each, held in highest_first if held.manifest_version <= manifest.version]

    def _append(
        self, group_id: GroupId, manifest: GroupManifest, parents: Iterable[OperationId], body: Body, now: Now
    ) -> Operation:
        records = self._records.operations
        log = Log(self._own, self._records.incarnations.present())
        end = records.end_of(group_id, log)
        parents = tuple(sorted(parents))
        held = [records.held(group_id, each) for each in parents]
        height = 1 + max((each.height for each in held if each is not None), default=0)
        number, previous = (1, None) if end is None else (end.number + 1, end.last)
        operation = sign_operation(
            Operation(
                group_id,
                log,
                number,
                previous,
                parents,
                height,
                manifest.hash,
                now.wall_us,
                int(body.kind),
                body.to_wire(),
            ),
            self._identity,
        )
        try:
            judged = self._acceptance.judge(operation)
        except LimitError as error:
            raise LocalError(f"others keep no more of this device's history: {error}") from error
        except NotAllowedError as error:
            raise LocalError(str(error), hint="'covey group members' lists the admins") from error
        assert not isinstance(judged, Waits), "what we write rests on what we hold"
        self._add(operation, judged.version, now)
        return operation

    # -- telling others -----------------------------------------------------------------------------------------------

    def _announce(self, manifest: GroupManifest, log: Log, first: int, now: Now) -> None:
        """Queue what was written from a number on for every member for whom nothing waits (rule 1)."""
        announcements = self._records.announcements
        for member in manifest.members:
            key = member.keys.signing_public
            if member.is_board or key == self._own or self._groups.address(key) is None:
                continue
            sent = announcements.of(manifest.group_id, key, log)
            if sent is not None and sent.waits:
                self._look_at_us = now.monotonic_us + ANNOUNCE_US
            else:
                self._send_log(manifest.group_id, key, log, first - 1 if sent is None else sent.number, now)

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
        sends = [*self._ask_late(now), *self._ask_wanted(groups, now)]
        self._queue.queue_all(sends, (), now)
        waiting = waiting or bool(self._asks_later or self._wanted)
        self._look_at_us = now.monotonic_us + ANNOUNCE_US if waiting else None

    def _ask_late(self, now: Now) -> list[GroupSend]:
        """Ask for the operations whose manifest has come since, and on for the manifests that have not."""
        sends: list[GroupSend] = []
        for group_id, member in list(self._asks_later.items()):
            if self._acceptance.named(group_id, self._missing_manifests[group_id]) is not None:
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

    # -- taking others' -----------------------------------------------------------------------------------------------

    def receive(self, message: Message, now: Now) -> tuple[Taken, list[GroupSend]]:
        """Take the operations of a message, and ask its author for what they rest on (rules 2 and 3).

        Raises:
            RemoteError: malformed.
        """
        bundle = OperationBundle.from_wire(message.body)
        taken = self.take(message.group_id, bundle.operations, now)
        if taken.for_manifest:
            self._asks_later[message.group_id] = message.author
            self._look_at_us = now.monotonic_us + ANNOUNCE_US
        if not (taken.waiting or bundle.more):
            return taken, []
        return taken, self.ask(message.group_id, message.author, now, taken.missing, progressed=bool(taken.accepted))

    def take(self, group_id: GroupId, raws: Iterable[bytes], now: Now) -> Taken:
        """Take operations, whoever brings them; each that is taken is stored."""
        taken = Taken()
        operations = []
        for raw in raws:
            try:
                operations.append(read_operation(raw))
            except RemoteError as error:
                taken.refused.append(error)
        wanted = _followed_by_others(operations)
        for operation in operations:
            try:
                self._take_one(group_id, operation, taken, now, wanted=operation.id in wanted)
            except RemoteError as error:
                taken.refused.append(error)
        return taken

    def _take_one(self, group_id: GroupId, operation: Operation, taken: Taken, now: Now, *, wanted: bool) -> None:
        if operation.group_id != group_id:
            raise NotForUsError("an operation of another group")
        records = self._records.operations
        if records.held(group_id, operation.id) is not None:
            return
        judged = self._acceptance.judge(operation, wanted=wanted)
        if isinstance(judged, Waits):
            taken.waiting += 1
            if judged.manifest:
                taken.for_manifest = True
                self._missing_manifests[group_id] = operation.manifest
            taken.missing.update(judged.operations)
            return
        self._add(operation, judged.version, now)
        taken.missing.discard(operation.id)
        taken.accepted.append(operation)

    # -- catching up --------------------------------------------------------------------------------------------------

    def ask(
        self,
        group_id: GroupId,
        member: DeviceKey,
        now: Now,
        wanted: Iterable[OperationId] = (),
        *,
        progressed: bool = False,
    ) -> list[GroupSend]:
        """Ask a member for all that is not here; `progressed` where the last answer brought something (rule 3)."""
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

    def answer_pull(self, message: Message) -> list[GroupSend]:
        """Give a member what it lacks; nothing while it has not taken what it was given before.

        Raises:
            RemoteError: malformed.
        """
        pull = HistoryPull.from_wire(message.body)
        if self._records.outbox.control_bytes(message.author) > BUNDLE_OPERATION_BYTES:
            self._records.counters.count("pulls_unanswered")
            return []
        bundle, _ = self._bundle(message.group_id, pull.ends, wanted=pull.wanted)
        if not bundle.operations:
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
        """Return what comes after the ends of some logs, as much as one message carries; and the last one's number."""
        chosen: list[bytes] = []
        length, last = 0, 0
        for raw in self._missing(group_id, ends, wanted, only):
            if len(chosen) == BUNDLE_OPERATIONS or (chosen and length + len(raw) > BUNDLE_OPERATION_BYTES):
                return OperationBundle(tuple(chosen), more=True), last
            chosen.append(raw)
            length += len(raw)
            if only is not None:
                last = read_operation(raw, verify=False).number
        return OperationBundle(tuple(chosen)), last

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


def _followed_by_others(operations: list[Operation]) -> set[OperationId]:
    """Return those that an operation of another author follows, directly or not (acceptance, rule 8)."""
    by_id = {operation.id: operation for operation in operations}
    wanted: set[OperationId] = set()
    for operation in reversed(operations):
        for parent in (by_id[each] for each in operation.parents if each in by_id):
            if operation.id in wanted or operation.author != parent.author:
                wanted.add(parent.id)
    return wanted
