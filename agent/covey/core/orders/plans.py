"""Which orders of several groups are one plan, and what an operator's own devices keep of it.

1. An operator who orders the same for several groups signs one operation in each. They have a random once-id in common,
   which every setting and every command has, so no member can tell whether other groups got the same order.
2. A plan's id is a digest of the author, the kind, the once-id and everything that the operations have in common: what
   is ordered, and by what devices are selected. Nobody can add a different order, or one of its own, to a plan.
3. A release is a plan, too: its waves in all groups. They have the waves and bounds of `roll_out.py` in common, but not
   the arguments that name a group and the file offered there. In a group that no device of the first wave is in, an
   operation without targets announces the release.
4. The author keeps the plan in its personal group (`FleetPlan`). It orders nothing by itself, so a plan of a device
   that was removed since is shown as well; of several operations about one plan, the first counts.
5. Another device of the author's person can give the order in a group that lacks it. That belongs to the plan as well.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from covey.core import crypto
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import CommandOrder, SettingOrder
from covey.core.history.personal import FleetPlan
from covey.core.ids import DeviceKey, GroupId, OperationId, PlanId
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.wire import cbor
from covey.errors import RemoteError

if TYPE_CHECKING:
    from covey.core.history.body import OperationBody
    from covey.core.records.history import OperationRecords

_PLAN = b"covey/1 fleet"

PlannedOrder: TypeAlias = CommandOrder | SettingOrder


def plan_id(author: DeviceKey, body: OperationBody) -> PlanId | None:
    """Return the plan that an author's order belongs to (rule 2); None where it can be of none."""
    common, target = body.plan_fields(), body.target()
    if common is None or target is None:
        return None
    roll_out = body.roll_out if isinstance(body, CommandOrder) else None
    selector = target[0] if roll_out is None else roll_out.selector
    return PlanId(crypto.digest(_PLAN, cbor.encode([author, int(body.kind), _selection(selector), common])))


def _selection(selector: Selector) -> list[object]:
    """Return what the selectors of a plan's operations have in common: of devices named one by one, only that."""
    return [int(selector.kind)] if selector.kind is SelectorKind.DEVICES else selector.to_wire()


def announcing(plan: PlanId) -> Selector:
    """Return the selector of an operation that announces a release: of a key that no device has (rule 3)."""
    return Selector(SelectorKind.DEVICES, devices=(DeviceKey(plan),))


def kept_order(author: DeviceKey, plan: FleetPlan) -> PlannedOrder | None:
    """Return the order of a plan for all its groups; None where the plan has none, or one that is not its own."""
    reader: dict[int | None, type[PlannedOrder]] = {
        OperationKind.SETTING: SettingOrder,
        OperationKind.COMMAND: CommandOrder,
    }
    if plan.order is None or plan.given not in reader:
        return None
    try:
        order = reader[plan.given].from_wire(plan.order)
    except RemoteError:
        return None
    return order if plan_id(author, order) == plan.id else None


def narrowed(selector: Selector, devices: Collection[DeviceKey]) -> Selector | None:
    """Return a plan's selector for the devices of one group; None where it names none of them."""
    if selector.kind is not SelectorKind.DEVICES:
        return selector
    named = tuple(each for each in selector.devices if each in devices)
    return Selector(SelectorKind.DEVICES, devices=named) if named else None


def order_in_group(order: PlannedOrder, devices: Collection[DeviceKey]) -> PlannedOrder | None:
    """Return a plan's order for the devices of one group; None where it names none of them."""
    roll_out = order.roll_out if isinstance(order, CommandOrder) else None
    selector = narrowed(order.selector if roll_out is None else roll_out.selector, devices)
    if selector is None:
        return None
    if isinstance(order, CommandOrder) and roll_out is not None:
        return replace(order, roll_out=replace(roll_out, selector=selector))
    return replace(order, selector=selector)


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
