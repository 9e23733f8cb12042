"""Whether releases continue, by what operators said about them (docs/protocol/history.md, "Commands", waves).

1. One operator is enough to pause, abort or resume a release, whatever the threshold of orders: an operator that starts
   waves could as well stop starting them, and enough operators have agreed to the release itself.
2. An abort is permanent.
3. A pause holds until an operator that knew of it resumes the release. If pause and resume are concurrent, the pause
   wins.
4. An accepted failure stays accepted, whichever operator accepted it, and the last bound named holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.releases import ReleaseChange, ReleaseState
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.orders.authority import Pins, weigh_orders
from covey.core.orders.nodes import OrderNode

if TYPE_CHECKING:
    from covey.core.records.history import OrderRecords


@dataclass(slots=True)
class ReleaseStanding:
    """How a release stands; `said` are the operations that say so, in the history's order."""

    state: ReleaseState = ReleaseState.GOING
    accepted: set[DeviceKey] = field(default_factory=set)
    stop_percent: int | None = None
    said: list[tuple[Operation, ReleaseChange]] = field(default_factory=list)


def release_standings(
    records: OrderRecords,
    group_id: GroupId,
    pins: Pins,
    members: Collection[DeviceKey],
    void: Collection[OperationId] = (),
    judged: list[OrderNode] | None = None,
) -> dict[bytes, ReleaseStanding]:
    """Return by once-id how those releases of a group stand of which an operator has said anything.

    `judged`: the group's nodes by which orders are judged, if they are at hand.
    """
    weighed = weigh_orders(records, group_id, pins, members, void, kind=OperationKind.RELEASE, judged=judged)
    changes: dict[OperationId, ReleaseChange] = {}
    found: dict[bytes, ReleaseStanding] = {}
    for order in weighed.orders:
        raw = records.raw(group_id, order.id) if order.counts else None
        if raw is not None:
            operation = read_operation(raw, verify=False)
            change = ReleaseChange.from_wire(operation.body)
            changes[order.id] = change
            standing = found.setdefault(change.once, ReleaseStanding())
            standing.said.append((operation, change))
            standing.accepted.update(change.accepted)
            standing.stop_percent = standing.stop_percent if change.stop_percent is None else change.stop_percent
    paused, resumed = (
        {change.once for change in changes.values() if change.state is state}
        for state in (ReleaseState.PAUSED, ReleaseState.GOING)
    )
    held = paused if paused.isdisjoint(resumed) else _held(records.nodes(group_id), changes)
    for once in held:
        found[once].state = ReleaseState.PAUSED
    for change in changes.values():
        if change.state is ReleaseState.ABORTED:
            found[change.once].state = ReleaseState.ABORTED
    return found


def _held(nodes: Iterable[OrderNode], changes: dict[OperationId, ReleaseChange]) -> set[bytes]:
    """Return the once-ids that a pause holds back (rule 3)."""
    pauses: dict[OperationId, int] = {}
    known: dict[int, int] = {}
    lifted: dict[bytes, int] = {}
    for node in nodes:
        below = 0
        for each in node.follows:
            below |= known.get(each, 0)
        change = changes.get(node.id)
        if change is not None and change.state is ReleaseState.PAUSED:
            below |= pauses.setdefault(node.id, 1 << len(pauses))
        elif change is not None and change.state is ReleaseState.GOING:
            lifted[change.once] = lifted.get(change.once, 0) | below
        known[node.arrival] = below
    return {changes[pause].once for pause, bit in pauses.items() if not lifted.get(changes[pause].once, 0) & bit}
