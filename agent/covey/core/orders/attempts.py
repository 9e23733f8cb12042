"""Orders by devices without authority here (docs/protocol/history.md, "Orders", *Attempts*).

No device obeys them. They stay in the history like everything else, and attempts are computed from it: so they need no
storage, survive power cuts and salvage, and disappear with their group.

1. An order or a change of operators is an attempt if it is void in the history; if its author is not an operator and
   did not sign it validly; or if its author did, but not enough others.
2. With a threshold above one, an approval of such an operation is an attempt too, for the first two reasons.
3. An order that counted by an operator who has left the group since is not an attempt, nor is one by a device that is
   an operator now.
4. Forgotten operations are not listed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from covey.core.history.kinds import GIVING_KINDS, OperationKind
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.orders.authority import Pins, WeighedOrder, weigh_orders
from covey.core.orders.nodes import OrderNode

if TYPE_CHECKING:
    from covey.core.records.history import OrderRecords

NO_OPERATOR, REMOVED, TOO_FEW = "not_an_operator", "was_removed", "not_enough_approvals"
CODES = (NO_OPERATOR, REMOVED, TOO_FEW)
_ORDERS = frozenset({OperationKind.OPERATOR, *GIVING_KINDS})


class Attempt(NamedTuple):
    """An operation that is one, by its number of this device's own (`OrderNode.arrival`)."""

    arrival: int
    id: OperationId


def attempts(
    records: OrderRecords, group_id: GroupId, pins: Pins, void: Collection[OperationId]
) -> dict[tuple[DeviceKey, str], list[Attempt]]:
    """Return by author and code the attempts in a group, as they came; none where nobody is pinned."""
    if not pins.operators:
        return {}
    kinds = {*_ORDERS, OperationKind.APPROVAL}
    nodes = [each for each in records.nodes(group_id) if each.kind in kinds and not each.target]
    authors = frozenset(each.author for each in nodes)  # rule 3: also those that have left
    given = {each.kind for each in nodes}.intersection(GIVING_KINDS) or GIVING_KINDS[:1]
    weighed = [weigh_orders(records, group_id, pins, authors, void, OperationKind(kind)) for kind in given]
    judged = {each.id: each for found in weighed for each in (*found.changes, *found.orders)}
    orders = {each.id for each in nodes if each.kind in _ORDERS}
    found: dict[tuple[DeviceKey, str], list[Attempt]] = {}
    for node in nodes:
        is_order = node.kind in _ORDERS
        if not is_order and (pins.threshold < 2 or node.subject not in orders):
            continue
        order = judged.get(node.id if is_order else OperationId(node.subject or b""))
        code = REMOVED if node.id in void else _against(node, order, weighed[0].operators, is_order=is_order)
        if code is not None:
            found.setdefault((node.author, code), []).append(Attempt(node.arrival, node.id))
    return {each: sorted(found[each]) for each in sorted(found)}


def _against(
    node: OrderNode, order: WeighedOrder | None, operators: Collection[DeviceKey], *, is_order: bool
) -> str | None:
    """Return the code of the reason against an operation that is not void, or None."""
    if order is not None and node.author in order.signers:
        return TOO_FEW if is_order and not order.counts else None
    return None if node.author in operators else NO_OPERATOR
