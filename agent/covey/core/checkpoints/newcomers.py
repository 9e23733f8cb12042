"""Give a newcomer a checkpoint in place of deleted history (docs/protocol/history.md, "Newcomers").

1. A device that is asked for operations that it has forgotten answers with the graph of the last checkpoint that counts
   here (`graph.py`), part by part, with the operations that it still holds, and with the checkpoint's proof.
2. The asker accepts only what it asked for. It believes a graph if its hash is in the state of a checkpoint signed by
   more than half of the electors, counting only signers that the group lists now. Electors are the admins in the
   checkpoint's manifest and the admins listed now; in a mode without admins, the operators that the asker's owner has
   pinned and those of the state. So no removed member and no minority can invent a past.
3. The asker waits `GRAPH_WAIT_US` for a member that has kept everything, and then asks the member that offered the
   graph. Each member that delivers operations meanwhile restarts the wait, up to `GRAPH_WAIT_LONGEST_US` in total. Only
   running time counts, whatever clocks do and however often the agent restarts.
4. The asker treats as forgotten only operations that others are never judged by, including orders that the checkpoint
   settles, but not the profile that the state names. Everything else must arrive complete, and passes the rules of
   operations; until then the asker does not proceed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from covey.core.checkpoints.checkpoints import VOID, Checkpoint, Checkpoints, knows_admins
from covey.core.checkpoints.covered import covered_by, settled, weigh_covered
from covey.core.checkpoints.graph import HistoryGraph, covered_graph, digest_of_parts, divided, part_digest
from covey.core.checkpoints.state import CheckpointState
from covey.core.group.manifest import GroupManifest, Role, read_manifest
from covey.core.group.messages import GroupSend
from covey.core.history.checkpoint import DIGEST_BYTES, CheckpointPart, state_digest
from covey.core.history.history import History, Taken
from covey.core.history.kinds import OperationKind
from covey.core.history.messages import HistoryPull
from covey.core.history.operation import OfferWait, Operation, Remains, read_operation
from covey.core.history.orders import Approval
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.core.wire.message import Message, MessageType
from covey.errors import MalformedError, NotAllowedError, RemoteError
from covey.limits.history import (
    BUNDLE_OPERATION_BYTES,
    GRAPH_COUNT_US,
    GRAPH_PARTS_AT_ONCE,
    GRAPH_WAIT_LONGEST_US,
    GRAPH_WAIT_US,
    MAXIMUM_PROOF,
)

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.history import OperationRecords

_OVERHEAD_BYTES = 8
"""Of one item of a message, at most."""


def nobody_pinned(_: GroupId) -> Pins:
    """Pin nobody."""
    return Pins(frozenset())


class Newcomers:
    """Gives the graphs of what is forgotten here, and takes those of others."""

    def __init__(self, groups: Groups, history: History, records: Records, pins: Callable[[GroupId], Pins]) -> None:
        self._groups = groups
        self._history = history
        self._asking, self._answering = history.exchange.asking, history.exchange.answering
        self._records = records
        self._pins = pins
        self._begun: set[GroupId] = set()
        """Of which graphs something was taken, and not all of it."""
        self._counted_at_us: dict[GroupId, int] | None = None
        """Up to when this process's waits for somebody who has kept everything are stored; None: it has just begun."""
        self._given: set[GroupId] = set()
        """In which groups somebody gave operations since the last offer: no wait goes on before the next one."""

    # -- giving -------------------------------------------------------------------------------------------------------

    def answer(self, message: Message) -> list[GroupSend]:
        """Give a member the next parts of the graph, if it lacks what was forgotten here (rule 1).

        Raises:
            RemoteError: malformed.
        """
        group_id = message.group_id
        if not self._records.operations.forgotten_ends(group_id):
            return []
        pull = self._answering.read_pull(message)
        if not self._answering.lacks_forgotten(group_id, pull) or self._answering.is_fed(group_id, message.author):
            return []
        base = self._base(group_id)
        if base is None:
            return []
        graph = self._graph(group_id, base, pull)
        if graph is None:
            return []
        self._records.counters.count("graphs_given")
        return [GroupSend(message.author, MessageType.HISTORY_GRAPH, group_id, graph.to_wire())]

    def _base(self, group_id: GroupId) -> Checkpoint | None:
        void = self._history.standing(group_id).void
        found = Checkpoints(
            self._records.operations, group_id, self._pins(group_id), void, lambda each: self._manifest(group_id, each)
        )
        return next((each for each in found.newest_first() if _counts(each)), None)

    def _manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> GroupManifest | None:
        raw = self._records.groups.manifest(group_id, manifest_hash)
        return None if raw is None else read_manifest(raw, verify=False)

    def _graph(self, group_id: GroupId, base: Checkpoint, pull: HistoryPull) -> HistoryGraph | None:
        assert base.state is not None, "it counts"
        wanted, operations = set(pull.wanted), self._records.operations

        def is_lacking(it: Remains) -> bool:
            return it.number > pull.end_of(it.log) or it.id in wanted

        hashes, first = bytearray(), 0
        parts: list[tuple[Remains, ...]] = []
        graph = covered_graph(operations, group_id, base.state.covers, _settled_by(operations, group_id, base.state))
        for index, part in enumerate(divided(graph)):
            hashes += part_digest(part)
            if parts or any(map(is_lacking, part)):
                first = first if parts else index
                if len(parts) < GRAPH_PARTS_AT_ONCE:
                    parts.append(part)
        if not parts:
            return None
        proof = tuple(self._proof(group_id, base))
        length = sum(map(len, proof)) + len(hashes)
        remains: list[Remains] = []
        whole: list[bytes] = []
        items, count = len(proof), 0
        for part in parts:
            length += sum(map(_length, part))
            items += len(part)
            if remains and not self._fits(items, length):
                break
            remains += part
            for each in part:
                raw = operations.raw(group_id, each.id) if is_lacking(each) else None
                length, items = length + len(raw or b""), items + 1
                if not self._fits(items, length):
                    break
                whole += [] if raw is None else [raw]
                count += 1
            if count < len(remains):
                break
        if not count:
            self._records.counters.count("pulls_too_large")
            return None
        return HistoryGraph(proof, bytes(hashes), first, count, tuple(remains), tuple(whole))

    def _fits(self, items: int, length: int) -> bool:
        return length <= BUNDLE_OPERATION_BYTES and self._answering.fits_a_relay(items, length)

    def _proof(self, group_id: GroupId, base: Checkpoint) -> Iterator[bytes]:
        parts: list[bytes] = []
        found: OperationId | None = base.id
        while found is not None:
            raw = self._records.operations.raw(group_id, found)
            assert raw is not None, "it counts"
            parts.append(raw)
            operation = read_operation(raw, verify=False)
            found = operation.parents[0] if CheckpointPart.from_wire(operation.body).index else None
        yield from reversed(parts)
        room, given = MAXIMUM_PROOF - len(parts), {base.author}
        for node in self._records.operations.nodes(group_id):
            if node.kind == OperationKind.APPROVAL and node.subject == base.id and node.author in base.signers - given:
                raw = self._records.operations.raw(group_id, node.id)
                given.add(node.author)
                if raw is not None and room:
                    room -= 1
                    yield raw

    # -- taking -------------------------------------------------------------------------------------------------------

    def progressed(self, group_id: GroupId) -> None:
        """Note that a member delivered whole operations: the wait restarts with the next offer (rule 3)."""
        wait = self._records.catching_up.offer_wait(group_id)
        if wait is not None and wait.since_given_us is not None:
            self._records.catching_up.note_offer(group_id, OfferWait(None, wait.whole_us))
        self._given.add(group_id)

    def has_work(self, now: Now) -> bool:
        """Say whether it is to be stored how long a wait has lasted, or which ones go on is not known yet."""
        if self._counted_at_us is None:
            return True
        rest = self._given | self._begun
        goes_on = (at_us for group_id, at_us in self._counted_at_us.items() if group_id not in rest)
        return any(now.monotonic_us >= at_us + GRAPH_COUNT_US for at_us in goes_on)

    def maintain(self, now: Now) -> None:
        """Store how long the waits that go on have lasted: a restart loses `GRAPH_COUNT_US` at most."""
        for group_id in list(self._counted(now)):
            if not self._groups.is_in(group_id):
                self._end_wait(group_id, now)
            elif group_id not in self._given and group_id not in self._begun:
                self._count(group_id, now)

    def receive(self, message: Message, now: Now) -> tuple[Taken, list[GroupSend]]:
        """Take what remains of forgotten operations (rules 2 to 4), and ask for what comes after it.

        Raises:
            RemoteError: malformed.
        """
        group_id, taken = message.group_id, Taken()
        if not self._asking.was_asked(group_id, message.author):
            self._records.counters.count("graphs_unasked")
            return taken, []
        graph = HistoryGraph.from_wire(message.body)
        try:
            state = self._proved(group_id, graph, taken)
        except RemoteError as error:
            taken.refused.append(error)
            return taken, []
        if state is None:
            assert taken.missing_manifest is not None, "that is why"
            self._asking.ask_later(group_id, message.author, taken.missing_manifest, now)
            return taken, []
        rest_us = self._rest_us(group_id, now) if self._lacks(group_id, graph) else 0
        if rest_us:
            self._asking.ask_at(group_id, message.author, now.monotonic_us + rest_us)
            self._note(message, 0, now, more=max(1, graph.rest))
            return taken, []
        came = self._take(group_id, state, graph, taken, now)
        parts, behind = len(graph.hashes) // DIGEST_BYTES, graph.first + len(list(divided(graph.remains)))
        more = behind < parts or graph.count < len(graph.remains)
        if more or self._lacks(group_id, graph):
            self._begun.add(group_id)
        else:
            self._begun.discard(group_id)
            self._end_wait(group_id, now)
        self._note(message, came, now, more=max(1, graph.rest - graph.count) if more and came else 0)
        asked = self._asking.ask(group_id, message.author, now, taken.missing, progressed=bool(came))
        return taken, asked

    def _lacks(self, group_id: GroupId, graph: HistoryGraph) -> bool:
        held = self._records.operations.held
        return any(held(group_id, each.id) is None for each in graph.remains[: graph.count])

    def _rest_us(self, group_id: GroupId, now: Now) -> int:
        """Return how long to wait for a member that has kept everything (rule 3); 0 once that is over."""
        if group_id in self._begun:
            return 0
        wait = self._count(group_id, now)
        return max(0, min(GRAPH_WAIT_US - (wait.since_given_us or 0), GRAPH_WAIT_LONGEST_US - wait.whole_us))

    def _counted(self, now: Now) -> dict[GroupId, int]:
        if self._counted_at_us is None:
            self._counted_at_us = dict.fromkeys(self._records.catching_up.offered(), now.monotonic_us)
        return self._counted_at_us

    def _count(self, group_id: GroupId, now: Now) -> OfferWait:
        counted = self._counted(now)
        elapsed_us = min(now.monotonic_us - counted.get(group_id, now.monotonic_us), GRAPH_WAIT_US)
        wait = self._records.catching_up.offer_wait(group_id) or OfferWait(None, 0)
        since_given_us = 0 if wait.since_given_us is None else wait.since_given_us + elapsed_us
        wait = OfferWait(since_given_us, wait.whole_us + elapsed_us)
        counted[group_id] = now.monotonic_us
        self._given.discard(group_id)
        self._records.catching_up.note_offer(group_id, wait)
        return wait

    def _end_wait(self, group_id: GroupId, now: Now) -> None:
        self._counted(now).pop(group_id, None)
        self._given.discard(group_id)
        self._records.catching_up.forget_offer(group_id)

    def _note(self, message: Message, came: int, now: Now, *, more: int) -> None:
        self._records.catching_up.note(
            message.group_id, message.author, taken=came, waiting=0, more=more, now_us=now.wall_us
        )

    def _take(self, group_id: GroupId, state: CheckpointState, graph: HistoryGraph, taken: Taken, now: Now) -> int:
        profile = None if state.profile is None else state.profile.operation
        operations = self._records.operations
        whole = {each.id: each for each in map(read_operation, graph.operations)}
        came = 0
        for each in graph.remains[: graph.count]:
            if operations.held(group_id, each.id) is not None:
                continue
            try:
                if each.id in whole:
                    self._history.take_covered(group_id, whole[each.id], taken, now)
                elif each.judged or each.id == profile:
                    taken.missing.add(each.id)
                else:
                    self._history.remember(group_id, each, taken)
            except RemoteError as error:
                taken.refused.append(error)
            if operations.held(group_id, each.id) is None:
                break
            came += 1
        return came

    def _proved(self, group_id: GroupId, graph: HistoryGraph, taken: Taken) -> CheckpointState | None:
        """Return the state that names a graph, of a checkpoint that counts for who knows its signers alone (rule 2).

        None where its manifest is not here yet.

        Raises:
            RemoteError: it is not whole, signed by too few, or names another graph.
        """
        operations = [read_operation(raw) for raw in graph.proof]
        if any(each.group_id != group_id for each in operations):
            raise MalformedError("the proof belongs to another group")
        parts = [each for each in operations if each.kind == OperationKind.CHECKPOINT]
        state = _state_of(parts)
        if state.graph != digest_of_parts(graph.hashes):
            raise MalformedError("the graph does not match its checkpoint")
        present, named = self._groups.group(group_id), self._manifest(group_id, parts[-1].manifest)
        if named is None:
            taken.missing_manifest = parts[-1].manifest
            return None
        approvals = [each for each in operations if each.kind == OperationKind.APPROVAL]
        approved = [each.author for each in approvals if Approval.from_wire(each.body).order == parts[-1].id]
        signers = {parts[-1].author, *approved} & _writers(present)
        if knows_admins(named):
            electors = [_admins(named), _admins(present)]
        else:
            electors = [set(self._pins(group_id).operators), state.operators.keys() & _writers(named)]
        if any(2 * len(signers & each) <= len(each) for each in electors):
            raise NotAllowedError("the checkpoint lacks a majority of admins, or of operators pinned on this device")
        return state


def _settled_by(operations: OperationRecords, group_id: GroupId, state: CheckpointState) -> frozenset[OperationId]:
    covered = covered_by(operations.nodes(group_id), operations.frontier(group_id, state.covers))
    return settled(operations, group_id, covered, weigh_covered(operations, group_id, covered, state.pins))


def _counts(found: Checkpoint) -> bool:
    return not found.code and found.objection != VOID and found.state is not None


def _length(it: Remains) -> int:
    return 160 + (2 + len(it.id)) * len(it.parents) + len(it.target)


def _state_of(operations: list[Operation]) -> CheckpointState:
    """Put the parts of a checkpoint together, the first one first.

    Raises:
        MalformedError: they are not those of one checkpoint.
    """
    parts = [CheckpointPart.from_wire(each.body) for each in operations]
    raw = b"".join(part.content for part in parts)
    for index, (part, operation) in enumerate(zip(parts, operations, strict=True)):
        follows = operation.parents == (operations[index - 1].id,) if index else len(operation.parents) == 1
        alike = (part.index, part.count, part.digest) == (index, len(parts), parts[0].digest)
        if not (alike and follows and operation.author == operations[0].author):
            raise MalformedError("the proof's parts do not follow each other")
    if not parts or state_digest(raw) != parts[0].digest:
        raise MalformedError("the proof contains no checkpoint")
    state = CheckpointState.from_wire(raw)
    if operations[0].parents != (state.covers,):
        raise MalformedError("the checkpoint does not cover the operations that it follows")
    return state


def _writers(manifest: GroupManifest) -> set[DeviceKey]:
    return {each.keys.signing_public for each in manifest.members if not each.is_board}


def _admins(manifest: GroupManifest) -> set[DeviceKey]:
    return {each.keys.signing_public for each in manifest.members if not each.is_board and each.role is Role.ADMIN}
