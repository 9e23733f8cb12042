"""The history of one device's groups: writing operations, accepting others', and which of them count.

1. Operations accepted from a message are stored in the commit that received it. An operation that rests on a missing
   one is dropped, and its sender asked for everything missing. One that breaks a rule ends its author's log here, and
   affects nothing else. What is in no author's share and follows from none is dropped again (`shares.py`).
2. If a write would follow more heads than an operation may, merges come first, the first one of the highest heads: so
   each is higher than the one before it in its log. Neither void nor late operations are followed (`standing.py`). One
   write joins at most `HEADS_AT_ONCE` heads: its own log's, then the highest of each author in turn, so that no
   author's many heads exclude another's. It follows only what its bounds allow (`shares.py`, rules 4 and 6).
3. A device that was removed and added again writes nothing until a member has sent it the history, so that what it
   writes follows what it wrote before; after `OWN_PAST_US`, perhaps nobody has that.
4. A device that removes a member adds a merge in the same commit, under the manifest that removes it: of the removed
   member's operations, those that the merge follows still count, and no others (`standing.py`).

`exchange.py` decides how operations travel.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.messages import GroupSend
from covey.core.history.acceptance import Acceptance, Accepted, Waits
from covey.core.history.awaited import AwaitedLogs
from covey.core.history.bodies import GroupProfile, Merge, read_profile
from covey.core.history.body import OperationBody
from covey.core.history.exchange import HistoryExchange
from covey.core.history.kinds import OperationKind
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import Held, Log, Operation, Remains, read_operation, sign_operation
from covey.core.history.shares import HistoryShares, MayFollow, UsedBefore
from covey.core.history.standing import Standing, heads_of, weigh
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.heads import history_digest
from covey.core.wire.message import Message
from covey.errors import LimitError, LocalError, MalformedError, NotAllowedError, NotForUsError, RemoteError
from covey.limits.history import (
    FORKS_OF_ONE,
    HEADS_AT_ONCE,
    LOGS_OF_ONE,
    MAXIMUM_AUTHOR_BYTES,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_PARENTS,
)

if TYPE_CHECKING:
    from covey.core.records import Records


@dataclass(slots=True)
class Taken:
    """The results for one message's operations."""

    accepted: list[Operation] = field(default_factory=list)
    missing: set[OperationId] = field(default_factory=set)
    """Operations that accepted or waiting ones follow, and that are not here."""
    waiting: int = 0
    missing_manifest: ManifestHash | None = None
    """A manifest that a waiting one names, and that is not here."""
    refused: list[RemoteError] = field(default_factory=list)
    forks: set[DeviceKey] = field(default_factory=set)
    """Authors of accepted ones that prove a fork."""


class History:
    """The history of each of this device's groups."""

    def __init__(
        self,
        identity: Identity,
        groups: Groups,
        records: Records,
        exchange: HistoryExchange,
        pinned: Callable[[GroupId], frozenset[DeviceKey]] = lambda _: frozenset(),
    ) -> None:
        """`pinned` returns the operators of a group that this device's owner has pinned."""
        self._identity = identity
        self._own = identity.signing_public
        self._groups = groups
        self._records = records
        self.exchange = exchange
        self._acceptance = Acceptance(
            records.operations,
            records.groups.manifest,
            self._present,
            pinned,
            records.groups.manifests_at,
        )
        self._awaited = AwaitedLogs()
        self._to_settle: dict[GroupId, set[DeviceKey]] = {}
        """Authors of operations that were taken though they are in no share."""
        self._judged_in = -1
        """The generation of the groups whose manifests `_acceptance` remembers."""
        self.generation = 0
        """Another number whenever a history has changed."""
        self._heads: dict[GroupId, tuple[int, set[OperationId]]] = {}
        """What is compared of each history, and of which generation of the groups that is."""
        self._digests: dict[GroupId, bytes] = {}
        self._standings: dict[GroupId, tuple[int, Standing]] = {}

    def refresh(self) -> None:
        """Take up what another process wrote."""
        self.generation += 1
        self._standings.clear()
        self._heads.clear()
        self._digests.clear()
        self._acceptance.shares.refresh()
        self.exchange.announcing.refresh()

    def _add(self, operation: Operation, accepted: Accepted, now: Now) -> None:
        group_id = operation.group_id
        is_writer = operation.author in self._writers(group_id)
        self._records.operations.add(operation, accepted.version, now.wall_us, late=not is_writer)
        self._note(group_id, operation, is_writer=is_writer)

    def _note(self, group_id: GroupId, operation: Operation | Remains, *, is_writer: bool) -> None:
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

    def _present(self, group_id: GroupId) -> GroupManifest | None:
        trust = self._groups.trust_of(group_id)
        return None if trust is None else trust.current

    def _writers(self, group_id: GroupId) -> frozenset[DeviceKey]:
        present = self._present(group_id)
        return frozenset() if present is None else present.writers

    def profile(self, group_id: GroupId) -> GroupProfile:
        """Return how a group is described, by the last operation that does and counts; empty where none has."""
        return read_profile(self.profile_operation(group_id))

    def profile_operation(self, group_id: GroupId) -> bytes | None:
        """Return the operation that describes a group: the last one that does and counts, as it was signed."""
        profiles = self._records.operations.of_kind(group_id, OperationKind.PROFILE, newest_first=True)
        void = self.standing(group_id).void
        return next((each.raw for each in profiles if each.id not in void), None)

    def _named(self, group_id: GroupId, manifest_hash: ManifestHash) -> tuple[int, frozenset[DeviceKey]]:
        """Return version and writers of a manifest; one lost to damage shows no writers."""
        found = self._acceptance.named(group_id, manifest_hash)
        if found is not None:
            return found.version, found.authors
        return 0, self._records.operations.authors(group_id)

    # -- writing ------------------------------------------------------------------------------------------------------

    def write_after_removals(self, removals: deque[GroupManifest], now: Now) -> None:
        """Say, under each manifest by which this device removed somebody, what was known then (rule 4)."""
        while removals:
            try:
                removal = removals.popleft()
                # The merge vouches for the last words of whoever is removed, so it joins them first.
                listed = {member.keys.signing_public for member in removal.members}
                removed = {*self._records.operations.authors(removal.group_id)} - listed
                self._write(removal, removal, Merge(), now, removed)
            except LocalError:  # nobody keeps more of us: the removal stands all the same
                self._records.counters.count("removals_not_written")

    def write(self, group_id: GroupId, body: OperationBody, now: Now) -> Operation:
        """Add an operation of this device to a group's history, and queue it for the members.

        Raises:
            LocalError: it is too large for an operation, or for every relay of this device, after which no member
                would get anything else that this device writes; or this device has written as much as others keep of
                it; or it awaits what it wrote before it was added again (rule 3); or the outbox is full.
            UnknownGroupError: this device is not in the group.
        """
        size = len(body.to_wire())
        if size > MAXIMUM_OPERATION_BODY_BYTES:
            raise LocalError(f"an operation must have at most {MAXIMUM_OPERATION_BODY_BYTES} bytes")
        most = self.exchange.answering.largest_body()
        if size > most:
            raise LocalError(
                f"no relay of this device accepts {size} bytes (at most {most}); nothing was written",
                hint="send it as a file: covey file put FILE; or raise the relay's message limit",
            )
        newest = self._newest_manifest(group_id)
        if self.awaits_past(group_id):
            raise LocalError(
                "this device was added to the group again, and its own earlier entries have not arrived yet",
                hint="try again when a member is online: 'covey check' shows what this device still fetches",
            )
        return self._write(self._manifest_of_last(newest) or newest, newest, body, now)

    def _write(
        self,
        manifest: GroupManifest,
        hearers: GroupManifest,
        body: OperationBody,
        now: Now,
        removed: Iterable[DeviceKey] = (),
    ) -> Operation:
        group_id = manifest.group_id
        heads = self._heads_within_bounds(group_id, self._heads_to_follow(group_id, manifest, {self._own, *removed}))
        written: list[Operation] = []
        while len(heads) > MAXIMUM_PARENTS:  # rule 2
            merge = self._append(group_id, manifest, heads[:MAXIMUM_PARENTS], Merge(), now)
            written.append(merge)
            heads = [merge.id, *heads[MAXIMUM_PARENTS:]]
        operation = self._append(group_id, manifest, heads, body, now)
        self.exchange.announcing.announce(hearers, operation.log, operation.number - len(written), now)
        return operation

    def awaits_past(self, group_id: GroupId) -> bool:
        """Say whether this device writes nothing to a group yet, as it awaits what it wrote before (rule 3)."""
        return self._records.incarnations.awaits_past(group_id)

    def is_known(self, group_id: GroupId) -> bool:
        """Say whether a member has all that this device wrote in this life; so, too, where there is no other.

        Nobody takes what comes from who is out of a group: what no member has by then, none will ever have.

        Raises:
            UnknownGroupError: this device is not in the group.
        """
        return self.exchange.announcing.is_known(self._groups.group(group_id), self._log(group_id))

    def hand_over(self, group_id: GroupId, now: Now) -> None:
        """See that some member will have what this device wrote, also where all of them came later than that.

        Raises:
            UnknownGroupError: this device is not in the group.
            LocalError: the outbox is full.
        """
        self.exchange.announcing.hand_over(self._groups.group(group_id), self._log(group_id), now)

    def _log(self, group_id: GroupId) -> Log:
        return Log(self._own, self._records.incarnations.of_log(group_id))

    def _manifest_of_last(self, newest: GroupManifest) -> GroupManifest | None:
        """Return the manifest that this device named last, if its version is later because its branch has lost since.

        New operations follow this device's earlier ones, so they must not name a manifest before that one.
        """
        records, group_id = self._records.operations, newest.group_id
        end = records.end_of(group_id, self._log(group_id))
        last = None if end is None else records.held(group_id, end.last)
        if end is None or last is None or last.manifest_version <= newest.version:
            return None
        said = records.raw(group_id, end.last)
        if said is None:
            return None
        raw = self._records.groups.manifest(group_id, read_operation(said, verify=False).manifest)
        return None if raw is None else read_manifest(raw, verify=False)

    def _newest_manifest(self, group_id: GroupId) -> GroupManifest:
        """Return the newest manifest that lists this device: the current one, or in a conflict the highest head."""
        current = self._groups.group(group_id)
        if current.raw:
            return current
        trust = self._groups.trust(group_id)
        listing = [each for each in trust.heads() if each.member(self._own) is not None]
        if not listing:  # each head removes this device, and what they come to does not
            listing = [each for each in trust.held() if each.member(self._own) is not None]
        return max(listing, key=lambda each: (each.version, each.hash), default=trust.root)

    def _heads_to_follow(
        self, group_id: GroupId, manifest: GroupManifest, first: Container[DeviceKey]
    ) -> list[OperationId]:
        """Return the heads, of what counts, that an operation under a manifest may follow (acceptance, rule 6).

        The highest one comes first. Of more than `HEADS_AT_ONCE`, the highest one is chosen, then by author (rule 2).
        """
        records = self._records.operations
        heads = {each: records.held(group_id, each) for each in self.standing(group_id).heads}
        if any(held is not None and held.manifest_version > manifest.version for held in heads.values()):
            heads = self._heads_below(group_id, manifest)
        highest_first = sorted(
            ((held.height, each, held.log.author) for each, held in heads.items() if held is not None), reverse=True
        )
        if len(highest_first) > HEADS_AT_ONCE:
            turns = Counter[DeviceKey]()
            ranked = []
            for place, (height, each, author) in enumerate(highest_first):
                turn = 0 if place == 0 or (author in first and not turns[author]) else 1 + turns[author]
                ranked.append((turn, -height, each, author))
                turns[author] += 1
            chosen = sorted(ranked)[:HEADS_AT_ONCE]
            highest_first = sorted(((-height, each, author) for _, height, each, author in chosen), reverse=True)
        return [each for _, each, _ in highest_first]

    def _heads_within_bounds(self, group_id: GroupId, heads: list[OperationId]) -> list[OperationId]:
        """Return the heads that an operation may follow (`shares.py`, rules 4 and 6), and that will not be dropped."""
        records, shares = self._records.operations, self._acceptance.shares
        suspects = records.authors_beyond(group_id, LOGS_OF_ONE, MAXIMUM_AUTHOR_BYTES)
        end = records.end_of(group_id, self._log(group_id))
        chosen: list[OperationId] = [] if end is None else [end.last]
        if not suspects and shares.may_follow(group_id, self._own, (*chosen, *heads)) is MayFollow.WITHIN:
            return heads
        for each in heads:
            operation = self._whole(group_id, each)
            is_kept = operation is None or operation.author not in suspects or shares.has(operation)
            if not is_kept or each in chosen:
                continue
            if shares.may_follow(group_id, self._own, (*chosen, each)) is MayFollow.WITHIN:
                chosen.append(each)
        found = [(each, records.held(group_id, each)) for each in chosen]
        return sorted(chosen, key=lambda each: _order_of(each, dict(found)[each]), reverse=True)

    def _whole(self, group_id: GroupId, operation_id: OperationId) -> Operation | None:
        raw = self._records.operations.raw(group_id, operation_id)
        return None if raw is None else read_operation(raw, verify=False)

    def _heads_below(self, group_id: GroupId, manifest: GroupManifest) -> dict[OperationId, Held | None]:
        """Return what an operation may follow under a manifest if heads name later ones, of a branch that has lost
        since.

        Reads from the last operation down, as far as such operations follow others.
        """
        records, standing = self._records.operations, self.standing(group_id)
        heads: dict[OperationId, Held | None] = {}
        looked_at, followed = set(standing.heads), set[OperationId]()
        for shape in records.shapes(group_id):
            if not looked_at:
                break
            held = records.held(group_id, shape.id) if shape.id in looked_at and shape.id not in followed else None
            looked_at.discard(shape.id)
            if shape.id in followed:
                followed.discard(shape.id)
                followed.update(shape.parents)
            elif held is not None and held.manifest_version <= manifest.version and shape.id not in standing.avoided:
                heads[shape.id] = held
                followed.update(shape.parents)
            elif held is not None:
                looked_at.update(shape.parents)
        return heads

    def _append(
        self, group_id: GroupId, manifest: GroupManifest, parents: Iterable[OperationId], body: OperationBody, now: Now
    ) -> Operation:
        records, log = self._records.operations, self._log(group_id)
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
            judged = self._acceptance.judge(operation, own=True)
        except LimitError as error:
            raise LocalError(f"members no longer accept history from this device: {error}") from error
        except NotAllowedError as error:
            raise LocalError(str(error), hint="'covey group members' lists the admins") from error
        assert not isinstance(judged, Waits), "what we write rests on what we hold"
        self._add(operation, judged, now)
        return operation

    # -- taking others' -----------------------------------------------------------------------------------------------

    def receive(self, message: Message, now: Now) -> tuple[Taken, list[GroupSend]]:
        """Take the operations of a message, and ask its author for what they rest on (rule 1).

        Raises:
            RemoteError: malformed.
        """
        bundle = OperationBundle.from_wire(message.body)
        taken = self.take(message.group_id, bundle.operations, now)
        if taken.missing_manifest is not None:
            self.exchange.asking.ask_later(message.group_id, message.author, taken.missing_manifest, now)
        self._records.catching_up.note(
            message.group_id,
            message.author,
            taken=len(taken.accepted),
            waiting=taken.waiting,
            more=bundle.more,
            now_us=now.wall_us,
        )
        if not (taken.waiting or bundle.more):
            if self.exchange.asking.was_asked(message.group_id, message.author):
                self._records.incarnations.end_awaiting(message.group_id)
            return taken, []
        progressed = bool(taken.accepted)
        asking = self.exchange.asking
        return taken, asking.ask(message.group_id, message.author, now, taken.missing, progressed=progressed)

    def take(self, group_id: GroupId, raws: Iterable[bytes], now: Now) -> Taken:
        """Process operations from any source, the lowest first; each accepted one is stored."""
        taken = Taken()
        if self._judged_in != self._groups.generation:
            self._judged_in = self._groups.generation
            self._acceptance.forget_named()
        operations = []
        for raw in raws:
            try:
                operations.append(read_operation(raw))
            except RemoteError as error:
                taken.refused.append(error)
        operations.sort(key=lambda each: each.height)
        followed = _Followed(operations, self._acceptance.shares)
        seen: dict[OperationId, Log] = {}
        for operation in operations:
            self._awaited.see(operation, now)
            seen[operation.id] = operation.log
            try:
                self._take_one(group_id, operation, taken, now, followed)
            except RemoteError as error:
                self._awaited.end(operation)
                taken.refused.append(error)
        taken.missing -= {each for each in taken.missing if self._awaited.is_seen(group_id, each, seen.get(each))}
        self._settle(group_id, taken, now)
        return taken

    def _settle(self, group_id: GroupId, taken: Taken, now: Now) -> None:
        """Drop what is in no share and follows from none, from the heads down (`shares.py`, rules 3 and 7)."""
        records, shares, writers = self._records.operations, self._acceptance.shares, self._writers(group_id)
        to_settle = self._to_settle.setdefault(group_id, set())
        if not taken.accepted and not to_settle:
            return
        to_settle |= {
            each.author for each in taken.accepted if records.numbered(group_id, each.log, each.number) > FORKS_OF_ONE
        }
        suspects = to_settle | records.authors_beyond(group_id, LOGS_OF_ONE, MAXIMUM_AUTHOR_BYTES)
        heads = {each: held for each in records.heads(group_id) if (held := records.held(group_id, each)) is not None}
        authors = {held.log.author for held in heads.values()}
        if not suspects & authors and authors <= writers:
            return
        dropped: set[OperationId] = set()
        unsettled: set[DeviceKey] = set()
        former: UsedBefore = {} if authors <= writers else shares.former_members(group_id, writers)
        places = {author: place for place, author in enumerate(former)}
        left = deque(sorted(heads, key=lambda each: (places.get(heads[each].log.author, -1), each)))
        last: DeviceKey | None = None
        while left:
            operation = self._whole(group_id, left.popleft())
            if operation is None or records.is_followed(group_id, operation):
                continue
            is_kept = shares.has(operation)
            if is_kept and operation.author not in writers:
                if last not in (None, operation.author) or operation.author not in former:
                    former, last = shares.former_members(group_id, writers), None
                is_kept = self._is_kept_of_former(group_id, operation, former)
            if not is_kept and self._awaited.covers(operation, now):
                unsettled.add(operation.author)
            elif not is_kept:
                dropped.add(operation.id)
                last = operation.author
                left.extendleft(records.drop(group_id, operation.id))
        self._to_settle[group_id] = unsettled
        if dropped:
            self._records.counters.count("operations_beyond_shares", len(dropped))
            taken.accepted = [each for each in taken.accepted if each.id not in dropped]
            self.generation += 1
            self._standings.clear()
            self._heads.pop(group_id, None)
            self._digests.pop(group_id, None)

    def _is_kept_of_former(self, group_id: GroupId, operation: Operation, former: UsedBefore) -> bool:
        shares = self._acceptance.shares
        if shares.has_of_former(operation, former, void=True):
            return True
        is_void = operation.id in self.standing(group_id).void
        return not is_void and shares.has_of_former(operation, former, void=False)

    def take_covered(self, group_id: GroupId, operation: Operation, taken: Taken, now: Now) -> None:
        """Take an operation that a valid checkpoint covers: those who signed that vouch for its size.

        Raises:
            RemoteError: the rule that it breaks.
        """
        self._take_one(group_id, operation, taken, now, bounded=False)

    def remember(self, group_id: GroupId, remains: Remains, taken: Taken) -> bool:
        """Keep where an operation stands whose words are forgotten; say whether it rests on nothing that is missing.

        Raises:
            RemoteError: it does not stand where it says.
        """
        records = self._records.operations
        manifest = self._acceptance.named(group_id, remains.manifest)
        if manifest is None:
            taken.missing_manifest = remains.manifest
            return False
        held = [records.held(group_id, each) for each in remains.parents]
        here = [each for each in held if each is not None]
        if len(here) < len(held):
            return False
        if remains.height != 1 + max((each.height for each in here), default=0):
            raise MalformedError("an operation's height must be one above its highest parent")
        is_writer = remains.log.author in self._writers(group_id)
        self._acceptance.shares.note(group_id, remains.log.author, remains.manifest)
        records.remember(group_id, remains, manifest.version, late=not is_writer)
        self._note(group_id, remains, is_writer=is_writer)
        return True

    def _take_one(
        self,
        group_id: GroupId,
        operation: Operation,
        taken: Taken,
        now: Now,
        followed: _Followed | None = None,
        *,
        bounded: bool = True,
    ) -> None:
        if operation.group_id != group_id:
            raise NotForUsError("the operation belongs to another group")
        records = self._records.operations
        if records.held(group_id, operation.id) is not None:
            return
        try:
            judged = self._acceptance.judge(operation, bounded=bounded)
        except LimitError:
            is_awaited = self._awaited.covers(operation, now)
            if not is_awaited and (followed is None or operation.id not in followed):
                raise
            judged = self._acceptance.judge(operation, followed=True)
            if is_awaited:
                self._awaited.take(operation, now)
            self._to_settle.setdefault(group_id, set()).add(operation.author)
        if isinstance(judged, Waits):
            taken.waiting += 1
            if judged.operations and (self._acceptance.shares.has(operation) or self._awaited.covers(operation, now)):
                self._awaited.await_for(operation, set(judged.operations) & set(operation.parents), now)
            if judged.manifest:
                taken.missing_manifest = operation.manifest
            taken.missing.update(judged.operations)
            return
        self._add(operation, judged, now)
        self._awaited.end(operation)
        if records.numbered(group_id, operation.log, operation.number) > 1:
            taken.forks.add(operation.author)
        taken.missing.discard(operation.id)
        taken.accepted.append(operation)


def _order_of(operation_id: OperationId, held: Held | None) -> tuple[int, OperationId]:
    return (0 if held is None else held.height), operation_id


class _Followed:
    """Which operations of one message others follow that come with them, and are in the shares of their authors."""

    def __init__(self, lowest_first: list[Operation], shares: HistoryShares) -> None:
        self._lowest_first = lowest_first
        self._shares = shares
        self._ids: set[OperationId] | None = None

    def __contains__(self, operation_id: OperationId) -> bool:
        if self._ids is None:  # hardly any message needs to know
            self._ids = set()
            for each in reversed(self._lowest_first):
                if each.id in self._ids or self._shares.has(each):
                    self._ids.update(each.parents, () if each.previous is None else (each.previous,))
        return operation_id in self._ids
