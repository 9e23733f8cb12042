"""Whose word counts, found in another way: the rules of docs/protocol/ ("Orders") as they stand there, with sets.

Nothing here is fast, kept, or shared with what devices do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from covey.core.history.bodies import read_body
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation
from covey.core.history.orders import Approval, CommandOrder, OperatorChange, SettingOrder
from covey.core.ids import DeviceKey, OperationId
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY

_Removals = frozenset[OperationId] | None
"""Those that count; None while these are found (rule 2)."""


@dataclass
class Judgement:
    """What some operations come to for whoever has pinned these; `looked_at` is how many changes of a log count."""

    operations: Collection[Operation]
    pins: Pins
    members: Collection[DeviceKey]
    void: Collection[OperationId]
    looked_at: int
    _known: dict[OperationId, frozenset[OperationId]] = field(default_factory=dict)
    _operators: dict[tuple[frozenset[OperationId], _Removals], frozenset[DeviceKey]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        in_order = sorted(self.operations, key=lambda each: (each.height, each.id))
        for each in in_order:
            parents = frozenset(each.parents)
            self._known[each.id] = parents.union(*(self._known[parent] for parent in parents))
        said = [each for each in in_order if each.id not in self.void]
        candidates, changes = set(self.pins.operators), []
        for each in said:
            body = read_body(each)
            if isinstance(body, OperatorChange) and each.author in candidates:
                candidates |= {body.key} if body.added else set()
                changes.append(each)
        changes = self._first(changes)
        approvals = [each for each in said if each.kind == OperationKind.APPROVAL and each.author in candidates]
        of_changes = self._first(_of(approvals, {each.id for each in changes}))
        self._changes = {each.id: each for each in changes}
        self._orders = [
            each
            for each in said
            if each.kind in {OperationKind.SETTING, OperationKind.COMMAND} and each.author in candidates
        ]
        self._signing: dict[OperationId, list[Operation]] = {each.id: [each] for each in (*changes, *self._orders)}
        if self.pins.threshold > 1:
            for each in (*of_changes, *_of(approvals, {order.id for order in self._orders})):
                self._signing[_subject(each)].append(each)
        self._removing = {
            each.id: body.key
            for each in changes
            if isinstance(body := read_body(each), OperatorChange) and not body.added
        }
        self._everything = frozenset(self._known)
        self._final = self._removals(self._everything)

    def _first(self, operations: Iterable[Operation]) -> list[Operation]:
        """Return those that are looked at (rule 6)."""
        logs: dict[Log, list[Operation]] = {}
        operations = list(operations)
        for each in operations:
            logs.setdefault(each.log, []).append(each)
        first = {
            each.id
            for log in logs.values()
            for each in sorted(log, key=lambda each: (each.number, each.id))[: self.looked_at]
        }
        return [each for each in operations if each.id in first]

    @property
    def operators(self) -> frozenset[DeviceKey]:
        """Who is one now."""
        return self._operators_by(self._everything, self._final)

    @property
    def counting(self) -> list[Operation]:
        """The settings and commands that count, in the history's order; a wave where one of its plan does (rule 7)."""
        present = frozenset(self.members)
        signers = {each.id: self._signers(each, self._everything, self._final) & present for each in self._orders}
        enough = {each.id for each in self._orders if self._enough(each, signers[each.id])}
        plans = {_plan(each) for each in self._orders if each.id in enough} - {None}
        return [
            each
            for each in self._orders
            if each.id in enough or (_plan(each) in plans and each.author in signers[each.id])
        ]

    @property
    def holding(self) -> list[Operation]:
        """Those that count and are not settings which their own author has replaced (rule 8)."""
        replaced = {
            earlier.id
            for number, later in enumerate(self._orders)
            if later.id in self._replacing
            for earlier in self._orders[:number]
            if earlier.author == later.author and _takes_the_place(read_body(later), read_body(earlier))
        }
        return [each for each in self.counting if each.id not in replaced]

    @property
    def _replacing(self) -> frozenset[OperationId]:
        """What enough have ever signed, whoever is removed, void or gone by now."""
        whole = Judgement(self.operations, self.pins, (), (), self.looked_at)
        return frozenset(
            each.id for each in whole._orders if whole._enough(each, whole._signers(each, whole._everything, None))
        )

    @property
    def removed(self) -> dict[DeviceKey, list[OperationId]]:
        """The removals that count, by whom they remove."""
        found: dict[DeviceKey, list[OperationId]] = {}
        for each in self._final:
            found.setdefault(self._removing[each], []).append(each)
        return found

    def follows(self, later: OperationId, earlier: OperationId) -> bool:
        """Say whether an operation follows another one, directly or not."""
        return earlier in self._known[later]

    def _enough(self, subject: Operation, signers: frozenset[DeviceKey]) -> bool:
        return subject.author in signers and len(signers) >= max(1, self.pins.threshold)

    def _signers(self, subject: Operation, known: frozenset[OperationId], removals: _Removals) -> frozenset[DeviceKey]:
        """Return who has signed something (rule 1), but for whom a removal beside that removes (rule 3)."""
        return frozenset(
            each.author
            for each in self._signing[subject.id]
            if each.id in known
            and not any(self._beside(each, removal) for removal in removals or ())
            and each.author in self._operators_by(self._known[each.id], removals)
        )

    def _beside(self, signature: Operation, removal: OperationId) -> bool:
        return (
            self._removing[removal] == signature.author
            and signature.id != removal
            and not self.follows(signature.id, removal)
            and not self.follows(removal, signature.id)
        )

    def _removals(self, known: frozenset[OperationId]) -> frozenset[OperationId]:
        """Return the removals that count by what is known (rule 2)."""
        return frozenset(
            each
            for each in self._removing
            if each in known and self._enough(self._changes[each], self._signers(self._changes[each], known, None))
        )

    def _operators_by(self, known: frozenset[OperationId], removals: _Removals) -> frozenset[DeviceKey]:
        """Return the operators by what is known (rules 1 and 4)."""
        known &= frozenset(self._signing) | {each.id for of in self._signing.values() for each in of}
        if (known, removals) not in self._operators:
            self._operators[known, removals] = self._find_operators(known, removals)
        return self._operators[known, removals]

    def _find_operators(self, known: frozenset[OperationId], removals: _Removals) -> frozenset[DeviceKey]:
        gone = (self._removals(known) if removals is None else removals) & known
        added: dict[DeviceKey, list[OperationId]] = {key: [] for key in self.pins.operators}
        for each in self._changes.values():
            body = read_body(each)
            assert isinstance(body, OperatorChange)
            if body.added and each.id in known and self._enough(each, self._signers(each, known, removals)):
                added.setdefault(body.key, []).append(each.id)
        return frozenset(
            key
            for key, additions in added.items()
            if all(
                any(self.follows(addition, removal) for addition in additions)
                for removal in gone
                if self._removing[removal] == key
            )
        )


def _takes_the_place(later: OperationBody, earlier: OperationBody) -> bool:
    """Say whether one thing that an operator says is a setting in the place of another one."""
    if not isinstance(later, SettingOrder) or not isinstance(earlier, SettingOrder):
        return False
    return later.key == earlier.key and later.selector in {earlier.selector, EVERYBODY}


def _subject(approval: Operation) -> OperationId:
    body = read_body(approval)
    assert isinstance(body, Approval)
    return body.order


def _of(approvals: Iterable[Operation], subjects: Collection[OperationId]) -> list[Operation]:
    return [each for each in approvals if _subject(each) in subjects]


def _plan(operation: Operation) -> str | None:
    """Return what all waves of one plan say alike; None: it is no wave."""
    body = read_body(operation)
    if not isinstance(body, CommandOrder) or body.roll_out is None:
        return None
    return repr((body.action, sorted(body.arguments.items()), body.once, body.deadline_us, body.roll_out.to_wire()))
