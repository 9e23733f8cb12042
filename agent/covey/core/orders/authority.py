"""Whose word counts (docs/protocol.md, "Orders").

A device's owner pins operators and lays down how many of them an order needs (`threshold`). Operators add and remove
operators by operations. What an operation's author knew is what the operation follows, directly or not.

1. An order, a change of operators and an approval are *signed* by an author that was an operator by what it knew:
   pinned, or added, and not removed, or added again after every removal. The author of an order signs it, and
   whoever approves it.
2. A removal counts where at least `threshold` have signed it, its author among them; what of operators its signers
   knew is judged without rule 3. Two operators that remove each other are both removed.
3. Everything else counts likewise, but for signatures beside a removal that counts: those of whoever it removes, where
   neither follows the other. So a removed operator's concurrent orders lose, and all that rests on them.
4. By what an author knew, an operator is who is one by the changes, and by the signatures on them, that it knew.
5. Orders are signed by present members only. What is void in the history (rule 12 there) signs nothing.
6. Of changes, and then of their approvals, the first `OPERATOR_CHANGES` are looked at, of orders of one kind, and of
   their approvals, the last `WEIGHED_ORDERS`; all this of authors alone that somebody may have made an operator.

The outcome depends on pins, members, and the set of operations, never on when they came. The history is read once,
from its end down to the first of these, in windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeAlias

from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import Approval, OperatorChange
from covey.core.history.records import StoredOperation
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.limits.orders import OPERATOR_CHANGES, WEIGHED_ORDERS

_WINDOW = 256


@dataclass(frozen=True, slots=True)
class Pins:
    """What a device's owner lays down: the keys of operators, and how many of them an order needs."""

    operators: frozenset[DeviceKey]
    threshold: int = 1


@dataclass(frozen=True, slots=True)
class WeighedOrder:
    """An order of somebody who may be an operator: who has signed it rightly, and whether it counts."""

    id: OperationId
    author: DeviceKey
    signers: frozenset[DeviceKey]
    counts: bool


@dataclass(frozen=True, slots=True)
class WeighedOrders:
    """Who is an operator, as what it was added; changes of that, and orders, each in the history's order."""

    operators: dict[DeviceKey, str]
    changes: tuple[WeighedOrder, ...]
    orders: tuple[WeighedOrder, ...]


class OrderedOperations(Protocol):
    """A group's operations, as they are read here."""

    def of_kind(self, group_id: GroupId, kind: int) -> Iterator[StoredOperation]:
        """Yield the operations of a kind, by height and id."""

    def newest_first(self, group_id: GroupId, before: tuple[int, bytes] | None, most: int) -> list[StoredOperation]:
        """Return the last operations before a (height, id), the highest first; None: the very last."""


def weigh_orders(
    operations: OrderedOperations,
    group_id: GroupId,
    pins: Pins,
    members: Collection[DeviceKey],
    void: Collection[OperationId] = (),
    kind: OperationKind | None = None,
) -> WeighedOrders:
    """Judge the orders of a kind in a group; None: only who is an operator."""
    reader = _Reader(operations, group_id, pins, void)
    changes = reader.changes()
    orders = [] if kind is None else reader.orders(kind)
    if pins.threshold > 1:
        changes += islice(reader.approvals(changes), OPERATOR_CHANGES - len(changes))
        orders += deque(reader.approvals(orders), maxlen=WEIGHED_ORDERS)
    signatures = [*changes, *orders]
    return _Weighing(pins, len(changes), signatures, reader.followers(signatures)).outcome(frozenset(members))


@dataclass(frozen=True, slots=True)
class _Signature:
    """An operation that signs `subject`: itself, or what it approves. `change` is what it says of operators."""

    id: OperationId
    height: int
    author: DeviceKey
    subject: OperationId
    change: OperatorChange | None = None


@dataclass(slots=True)
class _Reader:
    """Reads of a history what can matter."""

    operations: OrderedOperations
    group_id: GroupId
    pins: Pins
    void: Collection[OperationId]
    candidates: set[DeviceKey] = field(default_factory=set)
    """Who may ever have been an operator; whoever adds one stands below it in the history's order."""

    def _by_candidates(self, kind: OperationKind) -> Iterator[Operation]:
        for stored in self.operations.of_kind(self.group_id, kind):
            operation = read_operation(stored.raw, verify=False)
            if operation.author in self.candidates and operation.id not in self.void:
                yield operation

    def changes(self) -> list[_Signature]:
        self.candidates = set(self.pins.operators)
        found: list[_Signature] = []
        for operation in self._by_candidates(OperationKind.OPERATOR):
            if len(found) == OPERATOR_CHANGES:
                break
            change = OperatorChange.from_wire(operation.body)
            if change.added:
                self.candidates.add(change.key)
            found.append(_Signature(operation.id, operation.height, operation.author, operation.id, change))
        return found

    def orders(self, kind: OperationKind) -> list[_Signature]:
        last = deque(self._by_candidates(kind), maxlen=WEIGHED_ORDERS)
        return [_Signature(each.id, each.height, each.author, each.id) for each in last]

    def approvals(self, signatures: list[_Signature]) -> Iterator[_Signature]:
        named = {each.subject for each in signatures}
        for each in self._by_candidates(OperationKind.APPROVAL):
            subject = Approval.from_wire(each.body).order
            if subject in named:
                yield _Signature(each.id, each.height, each.author, subject)

    def followers(self, signatures: list[_Signature]) -> dict[OperationId, int]:
        """Return by signature which others follow it, directly or not, as bits at their indexes.

        An operation is forgotten once it is read: all that follow it are higher, and were read before.
        """
        bits = {each.id: 1 << index for index, each in enumerate(signatures)}
        lowest = min((each.height for each in signatures), default=0)
        found = dict.fromkeys(bits, 0)
        above: dict[OperationId, int] = {}
        before: tuple[int, bytes] | None = None
        if all(each.change is None for each in signatures):
            return found
        while window := self.operations.newest_first(self.group_id, before, _WINDOW):
            for stored in window:
                follow = above.pop(stored.id, 0)
                if stored.height < lowest:
                    return found
                own = bits.get(stored.id, 0)
                if own:
                    found[stored.id] = follow
                follow |= own
                if follow:
                    for parent in read_operation(stored.raw, verify=False).parents:
                        above[parent] = above.get(parent, 0) | follow
            before = (window[-1].height, window[-1].id)
        return found


_Removals: TypeAlias = tuple[int, ...] | None
"""The indexes of all removals that count; None while these are to be found."""


class _Weighing:
    """Applies the rules to signatures; what an author knew is bits at the indexes of changes and approvals."""

    def __init__(
        self, pins: Pins, changes: int, signatures: list[_Signature], followers: dict[OperationId, int]
    ) -> None:
        self._pins = pins
        self._signatures = signatures
        self._everything = (1 << changes) - 1
        self._followers = [followers[each.id] for each in signatures]
        self._knew = [0] * len(signatures)
        for index in range(changes):
            for follower in _indexes(self._followers[index]):
                self._knew[follower] |= 1 << index
        self._of: dict[OperationId, list[int]] = {}
        for index, signature in enumerate(signatures):
            self._of.setdefault(signature.subject, []).append(index)
        self._operators: dict[tuple[int, _Removals], dict[DeviceKey, str]] = {}
        lowest_first = sorted(range(changes), key=lambda each: signatures[each].height)
        for index in lowest_first:  # so nothing is looked at more than one step down
            self._operators_by(self._knew[index], None)
        self._final = self._removals(self._everything)
        for index in lowest_first:
            self._operators_by(self._knew[index], self._final)

    def outcome(self, members: frozenset[DeviceKey]) -> WeighedOrders:
        """Return what all that is here comes to."""
        changes, orders = [], []
        for index, order in enumerate(self._signatures):
            if order.change is not None:
                signers = self._signers(order.id, -1, self._final if order.change.added else None)
                changes.append(WeighedOrder(order.id, order.author, signers, self._enough(index, signers)))
            elif order.id == order.subject:
                signers = self._signers(order.id, -1, self._final) & members
                orders.append(WeighedOrder(order.id, order.author, signers, self._enough(index, signers)))
        return WeighedOrders(self._operators_by(self._everything, self._final), tuple(changes), tuple(orders))

    def _enough(self, index: int, signers: frozenset[DeviceKey]) -> bool:
        return self._signatures[index].author in signers and len(signers) >= max(1, self._pins.threshold)

    def _signers(self, subject: OperationId, known: int, removals: _Removals) -> frozenset[DeviceKey]:
        """Return who has signed something, as far as that is known (rule 1); none whom a removal meets (rule 3)."""
        return frozenset(
            self._signatures[index].author
            for index in self._of[subject]
            if known >> index & 1
            and self._signatures[index].author in self._operators_by(self._knew[index], removals)
            and not any(self._meets(each, index) for each in removals or ())
        )

    def _meets(self, removal: int, index: int) -> bool:
        """Say whether a removal is one of a signature's author, and neither of the two follows the other."""
        beside = not (self._followers[removal] >> index | self._followers[index] >> removal) & 1
        return self._removes(removal, self._signatures[index].author) and beside

    def _removals(self, known: int) -> tuple[int, ...]:
        """Return the indexes of the removals that count, by what is known (rule 2)."""
        return tuple(
            index
            for index in _indexes(known)
            if (change := self._signatures[index].change) is not None
            and not change.added
            and self._enough(index, self._signers(self._signatures[index].id, known, None))
        )

    def _operators_by(self, known: int, removals: _Removals) -> dict[DeviceKey, str]:
        """Return the operators by what is known, with their labels."""
        found = self._operators.get((known, removals))
        if found is None:
            found = self._operators[known, removals] = self._find_operators(known, removals)
        return found

    def _find_operators(self, known: int, removals: _Removals) -> dict[DeviceKey, str]:
        added: dict[DeviceKey, list[int]] = {}
        for index in _indexes(known):
            change = self._signatures[index].change
            if change is None or not change.added:
                continue
            if self._enough(index, self._signers(self._signatures[index].id, known, removals)):
                added.setdefault(change.key, []).append(index)
        gone = [each for each in (self._removals(known) if removals is None else removals) if known >> each & 1]
        found = {}
        for key in sorted(self._pins.operators | added.keys()):
            after = 0
            for index in added.get(key, ()):
                after |= self._knew[index]
            if all(after >> removal & 1 for removal in gone if self._removes(removal, key)):
                found[key] = self._label(added.get(key, ()))
        return found

    def _removes(self, removal: int, key: DeviceKey) -> bool:
        change = self._signatures[removal].change
        return change is not None and change.key == key

    def _label(self, additions: Sequence[int]) -> str:
        changes = [self._signatures[index].change for index in additions]
        return next((change.label for change in reversed(changes) if change is not None), "")


def _indexes(bits: int) -> Iterator[int]:
    """Yield the indexes of the bits that are set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
