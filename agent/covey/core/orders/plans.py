"""Which orders of several groups are one plan, and what an operator's own devices keep of it.

1. An operator who orders the same for several groups signs one operation in each. They have a random once-id in common,
   which every setting and every command has, so no member can tell whether other groups got the same order.
2. A plan's id is a digest of the author, the kind, the once-id and everything that the operations have in common: what
   is ordered, and by what devices are selected. Nobody can add a different order, or one of its own, to a plan.
3. Waves of a release are no plan: they have an id of their own (`roll_out.py`).
4. The author keeps the plan in its personal group (`FleetPlan`). It orders nothing by itself, so a plan of a device
   that was removed since is shown as well; of several operations about one plan, the first counts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.personal import FleetPlan
from covey.core.ids import DeviceKey, GroupId, OperationId, PlanId
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.wire import cbor

if TYPE_CHECKING:
    from covey.core.history.body import OperationBody
    from covey.core.records.history import OperationRecords

_PLAN = b"covey/1 fleet"


def plan_of(operation: Operation) -> PlanId | None:
    """Return the plan that an operation of a group belongs to; None where it can be of none."""
    return plan_id(operation.author, read_body(operation))


def plan_id(author: DeviceKey, body: OperationBody) -> PlanId | None:
    """Return the plan that an author's order belongs to (rule 2); None where it can be of none."""
    common, target = body.plan_fields(), body.target()
    if common is None or target is None:
        return None
    fields = [author, int(body.kind), _selection(target[0]), common]
    return PlanId(crypto.digest(_PLAN, cbor.encode(fields)))


def _selection(selector: Selector) -> list[object]:
    """Return what the selectors of a plan's operations have in common: of devices named one by one, only that."""
    return [int(selector.kind)] if selector.kind is SelectorKind.DEVICES else selector.to_wire()


def kept_plans(
    operations: OperationRecords, personal: GroupId, void: Collection[OperationId]
) -> dict[PlanId, tuple[FleetPlan, Operation]]:
    """Return the plans that a personal group's history has, in its order, each with the operation (rule 4)."""
    found: dict[PlanId, tuple[FleetPlan, Operation]] = {}
    for stored in operations.of_kind(personal, OperationKind.PLAN):
        operation = read_operation(stored.raw, verify=False)
        body = read_body(operation)
        if isinstance(body, FleetPlan) and stored.id not in void:
            found.setdefault(body.id, (body, operation))
    return found
