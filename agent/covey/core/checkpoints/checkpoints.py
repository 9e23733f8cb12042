"""Which checkpoints count (docs/protocol/history.md, "Checkpoints").

1. A checkpoint is signed by its author and by the authors of approvals, if they are *electors*: admins in the manifest
   that it names. In a mode without admins, electors are the operators of its state, and these must include the
   operators that this device's owner has pinned.
2. It counts once more than half of the electors have signed it. A void operation signs nothing.
3. It is complete, and its content equals the state that its operations result in (`state.py`). Otherwise it counts for
   nobody, whatever its signatures.
4. A device signs a proposal by itself if it is an elector, computes the same state, has pinned the operators that the
   checkpoint names, and the checkpoint covers nothing void. It considers the last proposal of each author.

Of several checkpoints that count, the last one in the history's order holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.checkpoints.covered import covered_by
from covey.core.checkpoints.state import CheckpointState, state_of
from covey.core.group.manifest import EQUAL_MODES, GroupManifest, Mode, Role
from covey.core.history.checkpoint import CheckpointPart, state_digest
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.orders.authority import Pins
from covey.core.orders.nodes import OrderNode
from covey.errors import LocalError, RemoteError

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords

MINORITY, PARTS, STATE, VOID, OPERATORS, FORGOTTEN = (
    "checkpoint_minority",
    "checkpoint_parts",
    "checkpoint_state",
    "checkpoint_void",
    "checkpoint_operators",
    "checkpoint_forgotten",
)
_WHY = {
    PARTS: "some of its parts are missing or wrong",
    STATE: "its state differs from the operations that it covers",
    VOID: "it is void, or covers void operations",
    OPERATORS: "it was made with other operators than this device's owner has pinned",
    FORGOTTEN: "this device no longer has all that it covers, and cannot judge it",
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as this device sees it: `id` is that of its last part.

    `state` is None where its parts are not whole. `code` says what stands against it, for programs; "" where it counts.
    """

    id: OperationId
    author: DeviceKey
    signers: frozenset[DeviceKey]
    electors: frozenset[DeviceKey]
    code: str
    state: CheckpointState | None = field(repr=False)
    state_bytes: int = 0
    objection: str = ""
    """What keeps this device from signing it, as a code; "" where it should, if it is an elector (rule 4)."""

    @property
    def why(self) -> str:
        """What stands against it, for people; empty where it counts."""
        if self.code == MINORITY and not self.electors:
            return "no device can sign it: the group has no admins, and no operator is pinned"
        if self.code == MINORITY:
            return f"signed by {len(self.signers)} of {len(self.electors)}; more than half have to sign it"
        return _WHY.get(self.code, "")

    @property
    def objection_text(self) -> str:
        """What keeps this device from signing it, for people."""
        return _WHY.get(self.objection, "")


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The parts of a checkpoint that are here, the last one first, and the state that they make; None: not whole."""

    last: OrderNode
    first: OrderNode
    operation: Operation
    raw: bytes | None


class Checkpoints:
    """The checkpoints of one group, by what is here; `manifest` returns one that operations name."""

    def __init__(
        self,
        records: OperationRecords,
        group_id: GroupId,
        pins: Pins,
        void: frozenset[OperationId],
        manifest: Callable[[ManifestHash], GroupManifest | None],
    ) -> None:
        self._records = records
        self._group_id = group_id
        self._pins = pins
        self._void = void
        self._manifest = manifest
        self._nodes = list(records.nodes(group_id))
        self._by_arrival = {each.arrival: each for each in self._nodes}

    def newest_first(self) -> Iterator[Checkpoint]:
        """Yield every checkpoint whose last part is here, the last one in the history's order first."""
        for node in reversed(self._nodes):
            if (operation := self._last_part(node)) is not None:
                yield self._judged(self._proposal(node, operation))

    def last_of_each_author(self) -> Iterator[Checkpoint]:
        """Yield what each author has proposed last."""
        seen: set[DeviceKey] = set()
        for node in reversed(self._nodes):
            if node.author not in seen and (operation := self._last_part(node)) is not None:
                seen.add(node.author)
                yield self._judged(self._proposal(node, operation))

    def _last_part(self, node: OrderNode) -> Operation | None:
        operation = self._operation(node) if node.kind == OperationKind.CHECKPOINT else None
        return operation if operation is not None and self._is_last(operation) else None

    def _is_last(self, operation: Operation) -> bool:
        part = CheckpointPart.from_wire(operation.body)
        return part.index + 1 == part.count

    def _operation(self, node: OrderNode) -> Operation | None:
        raw = self._records.raw(self._group_id, node.id)
        return None if raw is None else read_operation(raw, verify=False)

    def _proposal(self, last: OrderNode, operation: Operation) -> _Proposal:
        node = last
        part = CheckpointPart.from_wire(operation.body)
        contents, digest = [part.content], part.digest
        while part.index:
            before = self._by_arrival.get(node.follows[0]) if len(node.follows) == 1 else None
            if before is None or operation.parents != (before.id,) or before.kind != OperationKind.CHECKPOINT:
                return _Proposal(last, node, operation, None)
            found = self._operation(before)
            if found is None:
                return _Proposal(last, node, operation, None)
            above, node, operation = part, before, found
            part = CheckpointPart.from_wire(operation.body)
            same = (part.count, part.digest) == (above.count, above.digest) and node.author == last.author
            if not same or part.index + 1 != above.index:
                return _Proposal(last, node, operation, None)
            contents.append(part.content)
        raw = b"".join(reversed(contents))
        return _Proposal(last, node, operation, raw if state_digest(raw) == digest else None)

    def _judged(self, proposal: _Proposal) -> Checkpoint:
        manifest = self._manifest(proposal.operation.manifest)
        state = None
        if proposal.raw is not None and manifest is not None:
            try:
                state = CheckpointState.from_wire(proposal.raw)
            except RemoteError:
                state = None
        if state is None or manifest is None or proposal.raw is None:
            return _unreadable(proposal, PARTS)
        covered = covered_by(self._nodes, proposal.first.follows)
        members = [each.keys.signing_public for each in manifest.members if not each.is_board]
        try:
            made = state_of(self._records, self._group_id, covered, state.covers, state.pins, members)
        except LocalError:
            return _unreadable(proposal, FORGOTTEN)
        electors = _electors(manifest, made)
        signers = self._signers(proposal.last) & electors
        code, objection = "", ""
        if made.to_wire() != proposal.raw or proposal.operation.parents != (state.covers,):
            code = objection = STATE
        elif not self._void.isdisjoint([proposal.first.id, *(each.id for each in covered)]):
            objection = VOID
        elif state.pins != self._pins:
            objection = OPERATORS
        if proposal.last.id in self._void:
            code = VOID
        elif not code and objection == OPERATORS and not knows_admins(manifest):
            code = OPERATORS
        elif not code and 2 * len(signers) <= len(electors):
            code = MINORITY
        return Checkpoint(
            proposal.last.id,
            proposal.last.author,
            signers,
            electors,
            code,
            state,
            len(proposal.raw),
            objection,
        )

    def _signers(self, last: OrderNode) -> frozenset[DeviceKey]:
        approvals = (each for each in self._nodes if each.kind == OperationKind.APPROVAL and each.subject == last.id)
        return frozenset(each.author for each in (last, *approvals) if each.id not in self._void)


def _unreadable(proposal: _Proposal, code: str) -> Checkpoint:
    nobody: frozenset[DeviceKey] = frozenset()
    return Checkpoint(proposal.last.id, proposal.last.author, nobody, nobody, code, None, objection=code)


def knows_admins(manifest: GroupManifest) -> bool:
    """Say whether the mode of a group knows admins."""
    return manifest.mode not in {*EQUAL_MODES, Mode.ONE_TO_ONE}


def _electors(manifest: GroupManifest, state: CheckpointState) -> frozenset[DeviceKey]:
    """Return the electors (rule 1)."""
    members = [each for each in manifest.members if not each.is_board]
    if knows_admins(manifest):
        return frozenset(each.keys.signing_public for each in members if each.role is Role.ADMIN)
    return frozenset(each.keys.signing_public for each in members if each.keys.signing_public in state.operators)
