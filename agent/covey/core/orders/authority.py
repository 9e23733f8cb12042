"""Which orders count (docs/protocol/history.md, "Orders").

A device's owner pins operators and sets how many of them an order needs (`threshold`). Operators add and remove
operators by operations. The author of an operation *knew* everything that the operation follows, directly or not.

1. An order, a change of operators or an approval counts as *signed* by its author if the author was an operator by
   what it knew: pinned or added, and not removed, or added again after every removal. An approval also signs what it
   approves.
2. A removal counts if at least `threshold` operators signed it, including its author; whether they were operators is
   judged without rule 3. Two operators that remove each other are both removed.
3. Everything else counts likewise, but without signatures concurrent with a removal that counts: those of the removed
   operator, if neither operation follows the other. So a removed operator's concurrent orders lose, and everything that
   rests on them.
4. What an author knew includes changes of operators only with those signatures that it knew.
5. Only present members sign orders. A void operation (rule 12 in the history's acceptance) signs nothing.
6. Of each log, only the first `CHANGES_OF_A_LOG` changes by number count, and as many approvals of changes. So a stolen
   operator key has a bounded cost, and cannot displace what others wrote.
7. Waves of one plan (`roll_out.py`) are one order: if one wave counts, so does each other wave of the plan that its own
   author signed. A message about a running release (`release_standing.py`) needs only its author's signature.
8. A setting replaces earlier settings of its author for the same key and the same devices (all of them, if the new one
   is for all) once at least `threshold` operators signed it, including its author; judged without rule 3, and as if
   nothing were void and nobody had left. The earlier setting never returns, whatever happens to the later one. More
   operations only add signatures, so a replacement is final, and the content of the earlier setting can be deleted.

The outcome depends on pins, members and the set of operations, never on the order of arrival. Only operations that
affect orders are read (`nodes.py`), once from the oldest on and once back; where nobody has changed the operators, only
those by which orders are judged, as nothing depends then on what follows what.

An example. The owner has pinned Alice, Bob and Carol with a threshold of 2. An operation follows what its author knew:

    operation                follows   signed by    counts
    a  Alice: pump on        nothing   Alice, Bob   yes: Bob approved it (rule 1)
    b  Bob approves a        a
    c  Alice: pump off       b         Bob          no: Alice's signature is concurrent with her removal (rule 3)
    d  Bob approves c        c
    e  Carol: remove Alice   a         Carol, Bob   yes: two signed it, including its author (rule 2)
    f  Bob approves e        d, e
    g  Alice: pump on        f         nobody       no: by what she knew, she is not an operator (rules 1 and 4)

Order a keeps Alice's signature although she is removed: e follows a, so Carol knew of a, and her removal applies only
to what comes after. Order c loses it: c and e do not follow one another, and a thief of Alice's key could give any
order an early place by leaving e out of what it follows. A device that holds only a to d obeys c, because two signed
it. Once e and f arrive it does not, and every device that holds all seven agrees, whatever arrived first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from covey.core.history.kinds import KINDS, OperationKind
from covey.core.history.operation import Log, read_operation
from covey.core.history.orders import OperatorChange
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.orders.nodes import OrderNode
from covey.limits.orders import CHANGES_OF_A_LOG

if TYPE_CHECKING:
    from covey.core.records.history import OrderRecords


@dataclass(frozen=True, slots=True)
class Pins:
    """What a device's owner lays down: the keys of operators, and how many of them an order needs."""

    operators: frozenset[DeviceKey]
    threshold: int = 1


@dataclass(frozen=True, slots=True)
class WeighedOrder:
    """An order of a possible operator: its valid signers, and whether it counts.

    `subject` is the key that it sets, in UTF-8, or the plan that it is a wave of; None for all others. `replaces` says
    that enough have ever signed it to replace its author's earlier settings (rule 8).
    """

    id: OperationId
    author: DeviceKey
    signers: frozenset[DeviceKey]
    counts: bool
    subject: bytes | None = None
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class WeighedOrders:
    """Who is an operator, as what it was added; changes of that, and orders, each in the history's order."""

    operators: dict[DeviceKey, str]
    changes: tuple[WeighedOrder, ...]
    orders: tuple[WeighedOrder, ...]


@dataclass(frozen=True, slots=True)
class _Signature:
    """An operation that signs `subject`: itself, or what it approves. `change` is what it says of operators."""

    node: OrderNode
    subject: OperationId
    change: OperatorChange | None = None


def weigh_orders(
    records: OrderRecords,
    group_id: GroupId,
    pins: Pins,
    members: Collection[DeviceKey],
    void: Collection[OperationId] = (),
    kind: OperationKind | None = None,
    judged: list[OrderNode] | None = None,
) -> WeighedOrders:
    """Judge the orders of a kind in a group; without a kind, find only its operators.

    `judged`: the group's nodes by which orders are judged, if the caller has read them.
    """
    if not pins.operators:
        return WeighedOrders({}, (), ())
    nodes = list(records.judged_nodes(group_id)) if judged is None else judged
    found = _weighed(records, group_id, nodes, pins, members, void, kind)
    if not void or kind is None or not KINDS[kind].by_key:
        return found
    whole = _weighed(records, group_id, nodes, pins, members, (), kind)  # of what is replaced nothing is void (rule 8)
    replacing = {each.id for each in whole.orders if each.replaces}
    return replace(found, orders=tuple(replace(each, replaces=each.id in replacing) for each in found.orders))


def _weighed(
    records: OrderRecords,
    group_id: GroupId,
    nodes: list[OrderNode],
    pins: Pins,
    members: Collection[DeviceKey],
    void: Collection[OperationId],
    kind: OperationKind | None,
) -> WeighedOrders:
    changes, candidates = _changes(records, group_id, nodes, pins, void)
    said = [each for each in nodes if each.log.author in candidates and each.id not in void]
    orders = [_Signature(each, each.id) for each in said if each.kind == kind]
    if pins.threshold > 1:
        approvals = [_approval(each) for each in said if each.kind == OperationKind.APPROVAL]
        changes += _first_of_logs(_naming(approvals, changes))
        orders += _naming(approvals, orders)
    graph = list(records.nodes(group_id)) if changes else nodes
    return _Weighing(pins, len(changes), [*changes, *orders], graph).outcome(frozenset(members), kind)


def _changes(
    records: OrderRecords, group_id: GroupId, nodes: list[OrderNode], pins: Pins, void: Collection[OperationId]
) -> tuple[list[_Signature], set[DeviceKey]]:
    """Return the changes of operators, and every device that may ever have been one."""
    candidates, found = set(pins.operators), []
    for node in nodes:
        if node.kind != OperationKind.OPERATOR or node.author not in candidates or node.id in void:
            continue
        raw = records.raw(group_id, node.id)
        assert raw is not None, "it was just read"
        change = OperatorChange.from_wire(read_operation(raw, verify=False).body)
        if change.added:
            candidates.add(change.key)
        found.append(_Signature(node, node.id, change))
    return _first_of_logs(found), candidates


def _approval(node: OrderNode) -> _Signature:
    return _Signature(node, OperationId(node.subject or b""))


def _naming(approvals: Iterable[_Signature], signatures: Iterable[_Signature]) -> list[_Signature]:
    named = {each.subject for each in signatures}
    return [each for each in approvals if each.subject in named]


def _first_of_logs(signatures: list[_Signature]) -> list[_Signature]:
    """Return the first ones of each log by number, in the order given (rule 6)."""
    of_log: dict[Log, list[_Signature]] = {}
    for each in signatures:
        of_log.setdefault(each.node.log, []).append(each)
    beyond: set[OperationId] = set()
    for log in of_log.values():
        by_number = sorted(log, key=lambda each: (each.node.number, each.node.id))
        beyond.update(each.node.id for each in by_number[CHANGES_OF_A_LOG:])
    return [each for each in signatures if each.node.id not in beyond]


_Removals: TypeAlias = int | None
"""The removals that count, as bits at their indexes; None while these are to be found."""


class _Weighing:
    """Applies the rules to signatures; what an author knew is bits at the indexes of changes and approvals."""

    def __init__(self, pins: Pins, changes: int, signatures: list[_Signature], nodes: list[OrderNode]) -> None:
        self._pins = pins
        self._signatures = signatures
        self._everything = (1 << changes) - 1
        self._knew = _known(nodes, [each.node for each in signatures[:changes]], signatures)
        removing: dict[DeviceKey, int] = {}
        for index, signature in enumerate(signatures[:changes]):
            if signature.change is not None and not signature.change.added:
                removing[signature.change.key] = removing.get(signature.change.key, 0) | 1 << index
        self._removing = removing
        known_by = _known_by(nodes, signatures, sum(removing.values()))
        self._beside = [
            removing.get(each.node.author, 0) & ~(knew | known)
            for each, knew, known in zip(signatures, self._knew, known_by, strict=True)
        ]
        """By signature, the removals of its author that it neither follows nor is followed by."""
        self._of: dict[OperationId, list[int]] = {}
        for index, signature in enumerate(signatures):
            self._of.setdefault(signature.subject, []).append(index)
        self._operators: dict[tuple[int, _Removals], dict[DeviceKey, str]] = {}
        lowest_first = sorted(range(changes), key=lambda each: signatures[each].node.height)
        for index in lowest_first:  # so nothing is looked at more than one step down
            self._operators_by(self._knew[index], None)
        self._final = self._removals(self._everything)
        for index in lowest_first:
            self._operators_by(self._knew[index], self._final)

    def outcome(self, members: frozenset[DeviceKey], kind: OperationKind | None) -> WeighedOrders:
        """Return what all that is here comes to; the orders are of one kind."""
        changes, orders = [], []
        for index, order in enumerate(self._signatures):
            if order.change is not None:
                signers = self._signers(order.subject, -1, self._final if order.change.added else None)
                changes.append(WeighedOrder(order.subject, order.node.author, signers, self._enough(index, signers)))
            elif order.node.id == order.subject:
                signers = self._signers(order.subject, -1, self._final) & members
                counts, node = self._enough(index, signers), order.node
                if kind is not None and not KINDS[kind].by_threshold:
                    counts = node.author in signers
                replaces = self._enough(index, self._signers(order.subject, -1, None))
                orders.append(WeighedOrder(node.id, node.author, signers, counts, node.subject, replaces))
        if kind is not None and KINDS[kind].in_waves:
            orders = _with_other_waves(orders)
        return WeighedOrders(self._operators_by(self._everything, self._final), tuple(changes), tuple(orders))

    def _enough(self, index: int, signers: frozenset[DeviceKey]) -> bool:
        return self._signatures[index].node.author in signers and len(signers) >= max(1, self._pins.threshold)

    def _signers(self, subject: OperationId, known: int, removals: _Removals) -> frozenset[DeviceKey]:
        """Return the known signers of an operation (rule 1), without those that a removal affects (rule 3)."""
        return frozenset(
            self._signatures[index].node.author
            for index in self._of[subject]
            if known >> index & 1
            and not self._beside[index] & (removals or 0)
            and self._signatures[index].node.author in self._operators_by(self._knew[index], removals)
        )

    def _removals(self, known: int) -> int:
        """Return the removals that count, by what is known (rule 2)."""
        return sum(
            1 << index
            for index in _indexes(known & sum(self._removing.values()))
            if self._enough(index, self._signers(self._signatures[index].subject, known, None))
        )

    def _operators_by(self, known: int, removals: _Removals) -> dict[DeviceKey, str]:
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
            if self._enough(index, self._signers(self._signatures[index].subject, known, removals)):
                added.setdefault(change.key, []).append(index)
        gone = (self._removals(known) if removals is None else removals) & known
        found = {}
        for key in sorted(self._pins.operators | added.keys()):
            after = 0
            for index in added.get(key, ()):
                after |= self._knew[index]
            if not gone & self._removing.get(key, 0) & ~after:
                found[key] = self._label(added.get(key, ()))
        return found

    def _label(self, additions: Sequence[int]) -> str:
        changes = [self._signatures[index].change for index in additions]
        return next((change.label for change in reversed(changes) if change is not None), "")


def _with_other_waves(orders: list[WeighedOrder]) -> list[WeighedOrder]:
    """Let each command count that is a wave of a plan that counts (rule 7)."""
    agreed = {order.subject for order in orders if order.counts and order.subject is not None}
    return [
        replace(order, counts=True) if order.subject in agreed and order.author in order.signers else order
        for order in orders
    ]


def _indexes(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _known(nodes: list[OrderNode], changes: list[OrderNode], signatures: Iterable[_Signature]) -> list[int]:
    bits = {each.arrival: 1 << index for index, each in enumerate(changes)}
    below: dict[int, int] = {}
    known: dict[int, int] = {}
    for node in nodes:
        found = 0
        for each in node.follows:
            found |= below.get(each, 0)
        known[node.arrival] = found
        below[node.arrival] = found | bits.get(node.arrival, 0)
    return [known[each.node.arrival] for each in signatures]


def _known_by(nodes: list[OrderNode], signatures: list[_Signature], removals: int) -> list[int]:
    if not removals:
        return [0] * len(signatures)
    bits = {signatures[index].node.arrival: 1 << index for index in _indexes(removals)}
    above: dict[int, int] = {}
    for node in reversed(nodes):
        found = above.get(node.arrival, 0) | bits.get(node.arrival, 0)
        for each in node.follows if found else ():
            above[each] = above.get(each, 0) | found
    return [above.get(each.node.arrival, 0) for each in signatures]
