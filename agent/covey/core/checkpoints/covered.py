"""What of the operations that bear on orders a checkpoint covers, and which of these it settles.

1. A setting is settled that its own author has replaced by what the checkpoint covers as well (`orders/authority.py`,
   rule 8): it holds for nobody ever again, whatever comes.
2. A command is settled that is no wave of a release. What has become of it is no matter of the history; who has still
   to do with it keeps it (`forgetting.py`).

So everybody who holds the same finds the same to be settled, whoever has forgotten what.
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
