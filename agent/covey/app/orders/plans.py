"""Plans for several groups as operators see them: which there are, how they stand, and approving all of one at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.app.groups.own_devices import own_devices
from covey.app.history.history import pick_operation
from covey.app.history.writing import write_together
from covey.app.orders import command_reports, operators, setting_orders
from covey.app.orders.command_reports import OUTCOMES, CommandReport, DeviceOutcome, Outcome
from covey.core.history.kinds import GIVING_KINDS, OperationKind
from covey.core.history.orders import Approval
from covey.core.history.personal import PLAN_ID_BYTES
from covey.core.ids import GroupId, OperationId, PlanId
from covey.core.orders.plans import kept_plans, plan_of
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.orders.fleet import Together
    from covey.app.orders.operators import OrderEntry
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.operation import Operation
    from covey.core.history.personal import FleetPlan

_PLANNED = (OperationKind.SETTING, OperationKind.COMMAND)
_SHORTEST = 4
_BY_WEIGHT: tuple[Outcome, ...] = tuple(
    sorted(OUTCOMES, key=lambda each: (each in {"refused", "excluded"}, each in {"waiting", "asleep", "elsewhere"}))
)
"""Of what a device says of one plan in several groups, the first of these counts: it runs a command once, and refuses
it in its other groups."""


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan: its operations that are here, each with its group, and what this person's devices keep of it."""

    id: PlanId
    orders: tuple[tuple[GroupManifest, Operation], ...]
    kept: FleetPlan | None = None
    kept_as: Operation | None = None

    @property
    def groups(self) -> tuple[GroupId, ...]:
        """The groups that the plan is for, as far as this device knows."""
        here = [group.group_id for group, _ in self.orders]
        return tuple(dict.fromkeys([*here, *(() if self.kept is None else self.kept.groups)]))

    @property
    def missing(self) -> tuple[GroupId, ...]:
        """The groups whose operation has not arrived here."""
        orders = self.kept is not None and self.kept.given in _PLANNED
        here = {group.group_id for group, _ in self.orders}
        return tuple(each for each in self.groups if orders and each not in here)


def plans(device: Device, groups: Iterable[GroupManifest]) -> dict[PlanId, KnownPlan]:
    """Return the plans of this person's devices, and those that operators' orders of several groups show.

    Operations that are void, or that no operator has signed, are no part of a plan: they would stop the others.
    """
    found: dict[PlanId, list[tuple[GroupManifest, Operation]]] = {}
    for group in groups:
        for kind in _PLANNED:
            for operation in operators.given(device, group, kind):
                if (plan := plan_of(operation)) is not None:
                    found.setdefault(plan, []).append((group, operation))
    personal = own_devices(device).group()
    kept: dict[PlanId, tuple[FleetPlan, Operation]] = {}
    if personal is not None:
        void = device.node.history.standing(personal.group_id).void
        kept = kept_plans(device.store.operations, personal.group_id, void)
    known = [plan for plan in dict.fromkeys([*found, *kept]) if plan in kept or len(found[plan]) > 1]
    return {plan: KnownPlan(plan, tuple(found.get(plan, ())), *kept.get(plan, (None, None))) for plan in known}


def find_plan(device: Device, groups: Sequence[GroupManifest], name: str) -> KnownPlan | None:
    """Return the plan whose id begins like that; None where there is none.

    Raises:
        LocalError: more than one; or an order's id begins like that, too, and the person may mean the order.
    """
    digits = name.lower()
    if not _SHORTEST <= len(digits) <= 2 * PLAN_ID_BYTES or not set(digits) <= set("0123456789abcdef"):
        return None
    found = [each for plan, each in plans(device, groups).items() if plan.hex().startswith(digits)]
    if len(found) > 1:
        raise LocalError(f"{len(found)} plans' ids begin with {digits}", hint="give more digits")
    orders = (each for group in groups for kind in GIVING_KINDS for each in operators.given(device, group, kind))
    if found and any(each.id.hex().startswith(digits) for each in orders):
        raise LocalError(f"the ids of an order and a plan begin with {digits}", hint="give more digits")
    return found[0] if found else None


def group_of_order(device: Device, groups: Sequence[GroupManifest], name: str) -> GroupManifest:
    """Return the group whose history has the order that a person means.

    Raises:
        LocalError: none has it, or more than one.
    """
    if len(groups) == 1:
        return groups[0]
    found: list[GroupManifest] = []
    wrong: LocalError | None = None
    for group in groups:
        try:
            pick_operation(device, group.group_id, name, "covey order")
            found.append(group)
        except LocalError as error:
            wrong = error
    if len(found) == 1:
        return found[0]
    if found:
        raise LocalError(f"orders in {len(found)} groups begin with '{name[:64]}'", hint="give more digits")
    assert wrong is not None, "this device is in a group"
    raise wrong


def merged(device: Device, given: Together | KnownPlan) -> OrderEntry:
    """Return one judgement of orders that were given together: what all of them have in common.

    Raises:
        LocalError: one is no operator's order.
    """
    entries = [operators.judged(device, group, operation) for group, operation in given.orders]
    plan = given.id.hex() if isinstance(given, KnownPlan) else given.plan
    return entries[0] if plan is None else _merged(plan, entries)


def _merged(plan: str, entries: Sequence[OrderEntry]) -> OrderEntry:
    signers = set(entries[0].signers).intersection(*(each.signers for each in entries))
    counts = all(each.counts for each in entries)
    text = "; ".join(dict.fromkeys(each.text for each in entries))  # they may name other devices
    return replace(entries[0], id=plan, signers=tuple(sorted(signers)), counts=counts, text=text)


def plan_report(device: Device, plan: KnownPlan) -> CommandReport | OrderEntry:
    """Return what has become of a plan on each device of all its groups; of a plan of settings, what it is.

    Raises:
        LocalError: nothing of it has arrived here, or it orders nothing.
    """
    if not plan.orders:
        kept = plan.kept
        orders = kept is not None and kept.given in _PLANNED
        what = "none of its orders has arrived here yet" if orders else "it orders nothing that devices report"
        hint = "try again when a relay and a member are online" if orders else "'covey history log' shows notes"
        raise LocalError(f"plan {plan.id.hex()[:8]} ({'' if kept is None else kept.text}): {what}", hint=hint)
    reports = []
    for group, operation in plan.orders:
        report = command_reports.command_report(device, group, operation.id.hex())
        if isinstance(report, CommandReport):
            reports.append(report)
    entry = merged(device, plan)
    if not reports:
        return entry
    devices: dict[str, DeviceOutcome] = {}
    for report in reports:
        for each in report.devices:
            other = devices.get(each.device)
            if other is None or _rank(each) < _rank(other):
                devices[each.device] = each
    hearers = dict.fromkeys(each for report in reports for each in report.hearers)
    selectors = dict.fromkeys(each.selector for each in reports)
    first = replace(reports[0], order=entry, selector=",".join(selectors))
    return replace(first, devices=tuple(devices.values()), hearers=tuple(hearers))


def _rank(each: DeviceOutcome) -> int:
    return _BY_WEIGHT.index(each.outcome)


def reported(device: Device, plan: KnownPlan) -> int:
    """Return how many results of a plan are here: cheap, to see whether there is news."""
    return sum(command_reports.reported(device, group, operation.id.hex()) for group, operation in plan.orders)


def approve_plan(device: Device, plan: KnownPlan) -> OrderEntry:
    """Approve all operations of a plan that this device has not signed, in the groups in which it is an operator.

    Raises:
        LocalError: it is an operator in none of the groups, or has signed all.
    """
    own, bodies, allowed = device.node.identity.signing_public, [], 0
    for group, operation in plan.orders:
        if own not in operators.operator_keys(device, group):
            continue
        allowed += 1
        if own not in operators.signers(device, group, operation):
            bodies.append((group, Approval(OperationId(operation.id))))
    if not allowed and plan.orders:
        operators.check_operator(device, plan.orders[0][0])
    if not bodies:
        raise LocalError(
            f"this device has already signed plan {plan.id.hex()[:8]}",
            hint="'covey order' shows which operators still have to sign",
        )
    write_together(device, bodies)
    return merged(device, plan)


@dataclass(frozen=True, slots=True)
class ListedOrder:
    """An order or a plan of a list: its judgement, the groups, and how many devices there are of each outcome."""

    entry: OrderEntry
    groups: tuple[str, ...]
    outcomes: dict[str, int]


def listed(device: Device, groups: Sequence[GroupManifest]) -> list[ListedOrder]:
    """Return the orders of groups, and each plan once, the oldest first; within one group in its history's order."""
    shown = plans(device, groups)
    plan_by_order = {operation.id.hex(): each for each in shown.values() for _, operation in each.orders}
    found: list[tuple[OrderEntry, tuple[str, ...], dict[str, int]]] = []
    parts: dict[PlanId, list[OrderEntry]] = {}
    ends: dict[PlanId, dict[bytes, Outcome]] = {}
    numbers: dict[PlanId, Counter[str]] = {}
    for group in groups:
        results = command_reports.outcomes_by_device(device, group)
        of_settings = setting_orders.setting_tallies(device, group)
        for entry in operators.orders(device, group):
            outcomes = results.get(entry.id, {})
            plan = plan_by_order.get(entry.id)
            if plan is None:
                found.append(
                    (entry, (group.group_id.hex(),), of_settings.get(entry.id) or command_reports.tally(outcomes))
                )
                continue
            parts.setdefault(plan.id, []).append(entry)
            numbers.setdefault(plan.id, Counter()).update(of_settings.get(entry.id, {}))
            merged_ends = ends.setdefault(plan.id, {})
            for key, outcome in outcomes.items():
                best = min(merged_ends.get(key, outcome), outcome, key=_BY_WEIGHT.index)
                merged_ends[key] = best
    for plan_id, entries in parts.items():
        names = tuple(each.hex() for each in shown[plan_id].groups)
        found.append(
            (_merged(plan_id.hex(), entries), names, dict(numbers[plan_id]) or command_reports.tally(ends[plan_id]))
        )
    if len(groups) > 1:
        found.sort(key=lambda each: each[0].made_at_us)
    return [ListedOrder(*each) for each in found]
