"""Which operations about orders a checkpoint covers, and which of these it settles.

1. A setting is settled if a covered operation of its own author replaces it (`orders/authority.py`, rule 8): it can
   never hold again.
2. A command is settled unless it is a wave of a release. The history does not hold its results; a device that has yet
   to run or report it keeps it (`forgetting.py`).

So devices with the same operations find the same ones settled, whatever each has forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.history.kinds import OperationKind
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.orders.authority import Pins, WeighedOrders, weigh_orders
from covey.core.orders.nodes import OrderNode
from covey.core.orders.replaced import ReplacedSettings
from covey.core.orders.target import target_of_node

if TYPE_CHECKING:
    from covey.core.records.history import OrderRecords


def covered_by(nodes: Iterable[OrderNode], follows: Collection[int]) -> list[OrderNode]:
    """Return the nodes of some arrivals, and all that these follow; `nodes` are those of a group, lowest first."""
    by_arrival = {each.arrival: each for each in nodes}
    found: set[int] = set()
    row = set(follows)
    while row:
        found |= row
        row = {below for each in row if each in by_arrival for below in by_arrival[each].follows} - found
    return [each for arrival, each in by_arrival.items() if arrival in found]


@dataclass(frozen=True, slots=True)
class _Covered:
    """The nodes of a history that a checkpoint covers."""

    records: OrderRecords
    covered: list[OrderNode]

    def nodes(self, _group_id: GroupId) -> Iterator[OrderNode]:
        """Yield them, by height and id."""
        return iter(self.covered)

    judged_nodes = nodes

    def raw(self, group_id: GroupId, operation_id: OperationId) -> bytes | None:
        """Return an operation's bytes."""
        return self.records.raw(group_id, operation_id)


def weigh_covered(
    records: OrderRecords,
    group_id: GroupId,
    covered: list[OrderNode],
    pins: Pins,
    members: Collection[DeviceKey] = (),
) -> WeighedOrders:
    """Judge the settings among covered nodes, as if there were no others, and none of them were void."""
    return weigh_orders(_Covered(records, covered), group_id, pins, members, (), OperationKind.SETTING)


def settled(
    records: OrderRecords, group_id: GroupId, covered: list[OrderNode], weighed: WeighedOrders
) -> frozenset[OperationId]:
    """Return which of covered nodes are settled, of which the settings are weighed.

    Raises:
        LocalError: what a setting was for is not here any more.
    """
    nodes = {each.id: each for each in covered}
    replaced = ReplacedSettings()
    settings = {
        each.id
        for each in reversed(weighed.orders)
        if replaced.meets(each, target_of_node(records, group_id, nodes[each.id]))
    }
    commands = {each.id for each in covered if each.kind == OperationKind.COMMAND and each.subject is None}
    return frozenset(settings | commands)
