"""Plans for several groups as operators see them: which there are, how they stand, and approving all of one at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from covey.app.groups.own_devices import own_devices
from covey.app.history.history import pick_operation
from covey.app.history.writing import write_together
from covey.app.orders import command_reports, operators, setting_orders
from covey.app.orders.command_reports import BY_WEIGHT, CommandReport, DeviceOutcome, rank
from covey.core.history.bodies import read_body
from covey.core.history.kinds import GIVING_KINDS, OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import OF_GROUP, Approval, CommandOrder, SettingOrder
from covey.core.history.personal import PLAN_ID_BYTES
from covey.core.ids import DeviceKey, GroupId, OperationId, PlanId
from covey.core.orders.plans import kept_order, kept_plans, narrowed, plan_id
from covey.core.orders.selector import SelectorKind
from covey.core.orders.target import OrderTarget
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.orders.fleet import Together
    from covey.app.orders.operators import OrderEntry
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.body import OperationBody
    from covey.core.history.operation import Operation
    from covey.core.history.personal import FleetPlan
    from covey.core.orders.nodes import OrderNode

_PLANNED = (OperationKind.SETTING, OperationKind.COMMAND)
_SHORTEST = 4


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan: its operations that are here, each with its group, and what this person's devices keep of it.

    `once`: the once-id of a release, by which people call it; `text` what it does. `deleted`: the groups whose
    operation this device has most likely deleted, or got without its content.
    """

    id: PlanId
    orders: tuple[tuple[GroupManifest, Operation], ...]
    kept: FleetPlan | None = None
    kept_as: Operation | None = None
    once: bytes | None = None
    text: str = ""
    deleted: tuple[GroupId, ...] = ()

    @property
    def name(self) -> str:
        """What people call it: the id of the plan, or of the release."""
        return (self.once or self.id).hex()

    @property
    def groups(self) -> tuple[GroupId, ...]:
        """The groups that the plan is for, as far as this device knows."""
        here = [group.group_id for group, _ in self.orders]
        return tuple(dict.fromkeys([*here, *(() if self.kept is None else self.kept.groups)]))

    @property
    def missing(self) -> tuple[GroupId, ...]:
        """The groups whose operation has not arrived here."""
        orders = self.kept is not None and self.kept.given in _PLANNED
        here = {group.group_id for group, _ in self.orders} | {*self.deleted}
        return tuple(each for each in self.groups if orders and each not in here)


def plans(device: Device, groups: Iterable[GroupManifest]) -> dict[PlanId, KnownPlan]:
    """Return the plans of this person's devices, and those that operators' orders of several groups show, and releases.

    Operations that are void, or by a device that was never an operator, are no part of a plan: they would stop the
    others.
    """
    kept, own = _kept(device)
    found: dict[PlanId, list[tuple[GroupManifest, Operation]]] = {}
    releases: dict[PlanId, bytes] = {}
    texts: dict[PlanId, dict[str, None]] = {}
    by_once = _by_once(kept)
    groups = tuple(groups)
    for group in groups:
        waves: dict[bytes, list[tuple[Operation, CommandOrder]]] = {}
        for operation in operators.given(device, group, _PLANNED):
            body = read_body(operation)
            if isinstance(body, CommandOrder) and body.plan_id is not None:
                waves.setdefault(body.plan_id, []).append((operation, body))
            elif (plan := _plan_of(operation.author, body, by_once, own)) is not None:
                found.setdefault(plan, []).append((group, operation))
        for same in waves.values():
            candidates = [(_plan_of(each.author, body, by_once, own), body) for each, body in same]
            plan, body = next((each for each in candidates if each[0] in kept), candidates[0])
            assert plan is not None, "waves are of a plan"
            releases[plan] = body.once
            texts.setdefault(plan, {})[_release_text(body)] = None
            found.setdefault(plan, []).extend((group, operation) for operation, _ in same)
    for plan, (body, operation) in kept.items():
        order = kept_order(operation.author, body)
        if isinstance(order, CommandOrder) and order.roll_out is not None:
            releases[plan] = order.once
    deleted = _DeletedOrders(device, groups, own)
    for plan, (body, operation) in sorted(kept.items(), key=lambda each: each[1][1].made_at_us):
        deleted.find(plan, body, operation, {group.group_id for group, _ in found.get(plan, ())})
    known: dict[PlanId, KnownPlan] = {}
    for plan in dict.fromkeys([*found, *kept]):
        kept_plan, kept_as = kept.get(plan, (None, None))
        if plan in kept or plan in releases or len(found[plan]) > 1:
            text = "; ".join(texts.get(plan, {}))
            places = kept_plan, kept_as, releases.get(plan), text, tuple(deleted.found.get(plan, ()))
            known[plan] = KnownPlan(plan, tuple(found.get(plan, ())), *places)
    return known


class _DeletedOrders:
    """Finds out in which groups a kept plan was given and its order was deleted since; the oldest plan comes first.

    Of a deleted order its author and target remain, and it is older than the last checkpoint. It stands for one plan,
    the oldest that lacks it. Another order may have had these; a plan that is taken for given is not given again.
    """

    def __init__(self, device: Device, groups: Iterable[GroupManifest], own: Collection[DeviceKey]) -> None:
        """`own` are the devices of this person: each of them can have given a plan."""
        self.found: dict[PlanId, list[GroupId]] = {}
        self._operations = device.store.operations
        self._groups = {group.group_id for group in groups}
        self._own = own
        self._left: dict[GroupId, tuple[list[OrderNode], int]] = {}

    def find(self, plan: PlanId, body: FleetPlan, kept_as: Operation, here: Collection[GroupId]) -> None:
        """Find those of a plan; `here` are the groups whose order has its content."""
        lacking = [each for each in body.groups if each in self._groups and each not in here]
        order = kept_order(kept_as.author, body) if lacking else None
        is_wave = isinstance(order, CommandOrder) and order.roll_out is not None  # and none is ever deleted
        target = None if order is None or is_wave else order.target()
        if order is None or target is None:
            return
        authors, whole = {kept_as.author, *self._own}, OrderTarget(*target)
        for group_id in lacking:
            left, upto_us = self._of_group(group_id)
            same = (
                each for each in left if each.kind == order.kind and each.author in authors and _is_part(each, whole)
            )
            node = next(same, None) if kept_as.made_at_us <= upto_us else None
            if node is not None:
                left.remove(node)
                self.found.setdefault(plan, []).append(group_id)

    def _of_group(self, group_id: GroupId) -> tuple[list[OrderNode], int]:
        """Return the deleted orders, and when the last checkpoint was made, by its author's clock."""
        if group_id not in self._left:
            gone = [each for each in self._operations.judged_nodes(group_id) if each.target]
            last = next(self._operations.of_kind(group_id, OperationKind.CHECKPOINT, newest_first=True), None)
            self._left[group_id] = gone, 0 if last is None else read_operation(last.raw, verify=False).made_at_us
        return self._left[group_id]


def _is_part(node: OrderNode, whole: OrderTarget) -> bool:
    """Say whether a deleted order of one group may be part of a plan, by what they are for."""
    target = OrderTarget.from_wire(node.target)
    if whole.selector.kind is not SelectorKind.DEVICES:
        return target == whole
    return target.key == whole.key and target.selector == narrowed(whole.selector, target.selector.devices)


def _release_text(wave: CommandOrder) -> str:
    """Return what a release does, without what differs from group to group, and for which devices."""
    assert wave.roll_out is not None, "a wave has a plan"
    arguments = "".join(f" {name}={value}" for name, value in wave.arguments.items() if name not in OF_GROUP)
    return f"{wave.action}{arguments} for {wave.roll_out.selector}"


def _kept(device: Device) -> tuple[dict[PlanId, tuple[FleetPlan, Operation]], frozenset[DeviceKey]]:
    """Return what this person's devices keep of plans, and which devices these are."""
    personal = own_devices(device).group()
    if personal is None:
        return {}, frozenset()
    void = device.node.history.standing(personal.group_id).void
    own = frozenset(member.keys.signing_public for member in personal.members)
    return kept_plans(device.store.operations, personal.group_id, void), own


def _by_once(kept: dict[PlanId, tuple[FleetPlan, Operation]]) -> dict[bytes, list[tuple[DeviceKey, PlanId]]]:
    """Return by once-id the plans that have an order, each with its author."""
    found: dict[bytes, list[tuple[DeviceKey, PlanId]]] = {}
    for plan, (body, operation) in kept.items():
        order = kept_order(operation.author, body)
        if order is not None and order.once is not None:
            found.setdefault(order.once, []).append((operation.author, plan))
    return found


def _plan_of(
    author: DeviceKey,
    body: OperationBody,
    by_once: dict[bytes, list[tuple[DeviceKey, PlanId]]],
    own: Collection[DeviceKey],
) -> PlanId | None:
    """Return the plan that an order belongs to: its author's, or one of another device of the same person."""
    once = body.once if isinstance(body, SettingOrder | CommandOrder) else None
    if author in own and once is not None:
        for founder, plan in by_once.get(once, ()):
            if plan_id(founder, body) == plan:
                return plan
    return plan_id(author, body)


def find_plan(device: Device, groups: Sequence[GroupManifest], name: str) -> KnownPlan | None:
    """Return the plan or release whose id begins like that; None where there is none.

    Raises:
        LocalError: more than one; or an order's id begins like that, too, and the person may mean the order.
    """
    digits = name.lower()
    if not _SHORTEST <= len(digits) <= 2 * PLAN_ID_BYTES or not set(digits) <= set("0123456789abcdef"):
        return None
    found = [each for each in plans(device, groups).values() if each.name.startswith(digits)]
    if len(found) > 1 and len({each.name for each in found}) == 1:  # an operator has copied another one's release
        found = [each for each in found if each.kept is not None] or found
    if len(found) > 1:
        raise LocalError(
            f"{len(found)} plans' ids begin with {digits}", hint="give more digits, or the id of one order with --group"
        )
    if not found:
        return None
    orders = (each for group in groups for each in operators.given(device, group, GIVING_KINDS))
    if any(each.id.hex().startswith(digits) for each in orders):
        raise LocalError(f"the ids of an order and a plan begin with {digits}", hint="give more digits")
    return found[0]


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
    entries = [(group.group_id.hex(), operators.judged(device, group, operation)) for group, operation in given.orders]
    if isinstance(given, KnownPlan):
        return _merged(given.name, entries, given.text)
    return entries[0][1] if given.plan is None else _merged(given.plan, entries)


def _merged(plan: str, entries: Sequence[tuple[str, OrderEntry]], text: str = "") -> OrderEntry:
    """Return one judgement of operations with their groups: of a release, one wave of a group stands for all of it."""
    signers: dict[str, set[str]] = {}
    counts: dict[str, bool] = {}
    for group, each in entries:
        signers.setdefault(group, set()).update(each.signers)
        counts[group] = counts.get(group, False) or each.counts
    by_all = set.intersection(*signers.values())
    text = text or "; ".join(dict.fromkeys(each.text for _, each in entries))  # they may name other devices
    signed = tuple(sorted(by_all))
    return replace(entries[0][1], id=plan, signers=signed, counts=all(counts.values()), text=text)


def check_not_deleted(plan: KnownPlan) -> None:
    """Check that an order of a plan is here, or may still come.

    Raises:
        LocalError: all were deleted here.
    """
    if plan.deleted and not plan.orders:
        raise LocalError(f"this device deleted the orders of plan {plan.name[:8]}, which checkpoints cover")


def plan_report(device: Device, plan: KnownPlan) -> CommandReport | OrderEntry:
    """Return what has become of a plan on each device of all its groups; of a plan of settings, what it is.

    Raises:
        LocalError: nothing of it has arrived here, or it orders nothing.
    """
    check_not_deleted(plan)
    if not plan.orders:
        kept = plan.kept
        orders = kept is not None and kept.given in _PLANNED
        what = "none of its orders has arrived here yet" if orders else "it orders nothing that devices report"
        hint = "try again when a relay and a member are online" if orders else "'covey history log' shows notes"
        raise LocalError(f"plan {plan.name[:8]} ({'' if kept is None else kept.text}): {what}", hint=hint)
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
            if other is None or rank(each) < rank(other):
                devices[each.device] = each
    hearers = dict.fromkeys(each for report in reports for each in report.hearers)
    selectors = dict.fromkeys(_for_whom(operation) for _, operation in plan.orders)
    first = replace(reports[0], order=entry, selector=",".join(selectors))
    return replace(first, devices=tuple(devices.values()), hearers=tuple(hearers))


def _for_whom(operation: Operation) -> str:
    body = read_body(operation)
    assert isinstance(body, CommandOrder), "nothing else is reported"
    return str(body.selector if body.roll_out is None else body.roll_out.selector)


def reported(device: Device, plan: KnownPlan) -> int:
    """Return how many results of a plan are here: cheap, to see whether there is news."""
    return sum(command_reports.reported(device, group, operation.id.hex()) for group, operation in plan.orders)


def approve_plan(device: Device, plan: KnownPlan) -> OrderEntry:
    """Approve all operations of a plan that this device has not signed, in the groups in which it is an operator.

    Raises:
        LocalError: it is an operator in none of the groups, or has signed all.
    """
    check_not_deleted(plan)
    own, allowed = device.node.identity.signing_public, 0
    bodies: list[tuple[GroupManifest, Approval]] = []
    signed: set[GroupId] = set()
    for group, operation in plan.orders:
        if own not in operators.operator_keys(device, group):
            continue
        allowed += 1
        by = operators.signers(device, group, operation)
        if own in by:
            signed.add(group.group_id)
        elif by and not (plan.once is not None and group.group_id in signed):
            bodies.append((group, Approval(OperationId(operation.id))))
            signed.add(group.group_id)  # of a release one wave of the group is enough
    if not allowed and plan.orders:
        operators.check_operator(device, plan.orders[0][0])
    if not bodies:
        raise LocalError(
            f"this device has already signed plan {plan.name[:8]}",
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


@dataclass(slots=True)
class _Row:
    """What is shown as one: an order, all orders of a plan, or what an operator said of a release in several groups."""

    name: str
    groups: tuple[str, ...] = ()
    text: str = ""
    entries: list[tuple[str, OrderEntry]] = field(default_factory=list)
    ends: dict[DeviceKey, str] = field(default_factory=dict)

    def place(self) -> tuple[int, str]:
        """Return what sorts rows: the time of the first order, then the id."""
        return self.entries[0][1].made_at_us, self.name

    def listed(self) -> ListedOrder:
        is_one = len(self.entries) == 1 and not self.groups
        entry = self.entries[0][1] if is_one else _merged(self.name, self.entries, self.text)
        groups = self.groups or tuple(dict.fromkeys(group for group, _ in self.entries))
        is_setting = entry.kind == OperationKind.SETTING.word
        words: tuple[str, ...] = setting_orders.OUTCOMES if is_setting else command_reports.OUTCOMES
        counts = Counter(self.ends.values())
        return ListedOrder(entry, groups, {each: counts[each] for each in words if counts[each]})


def listed(device: Device, groups: Sequence[GroupManifest]) -> list[ListedOrder]:
    """Return the orders of groups, and each plan once, the oldest first; within one group in its history's order."""
    rows = _rows(device, groups)
    _count(device, groups, rows)
    found = [each.listed() for each in rows]
    return sorted(found, key=lambda each: each.entry.made_at_us) if len(groups) > 1 else found


def newest_listed(device: Device, groups: Sequence[GroupManifest], most: int) -> list[ListedOrder]:
    """Return so many of what `listed` returns, the newest first: results of no other order are counted."""
    rows = sorted(_rows(device, groups), key=_Row.place, reverse=True)[:most]
    _count(device, groups, rows)
    return [each.listed() for each in rows]


def _rows(device: Device, groups: Sequence[GroupManifest]) -> list[_Row]:
    """Return the orders of groups, and each plan once, without results."""
    shown = [*plans(device, groups).values()]
    plan_by_order = {operation.id.hex(): each for each in shown for _, operation in each.orders}
    rows: dict[object, _Row] = {}
    for group in groups:
        said: Counter[tuple[str, str]] = Counter()
        for entry in operators.orders(device, group):
            plan = plan_by_order.get(entry.id)
            if plan is not None:
                names = tuple(each.hex() for each in plan.groups)
                row = rows.setdefault(plan.id, _Row(plan.name, names, plan.text))
            elif entry.kind == OperationKind.RELEASE.word:
                what = entry.author, entry.text
                said[what] += 1  # an operator can pause a release twice: the first pauses of all groups are one
                row = rows.setdefault((*what, said[what]), _Row(entry.id))
            else:
                row = rows.setdefault(entry.id, _Row(entry.id))
            row.entries.append((group.group_id.hex(), entry))
    return [*rows.values()]


def _count(device: Device, groups: Sequence[GroupManifest], rows: Iterable[_Row]) -> None:
    """Add the results to rows: of a plan, each device counts once."""
    reports = setting_orders.ReportedSettings(device)
    settings: dict[str, dict[str, _Row]] = {}
    commands: dict[str, dict[str, _Row]] = {}
    for row in rows:
        for group_id, entry in row.entries:
            kind = settings if entry.kind == OperationKind.SETTING.word else commands
            kind.setdefault(group_id, {})[entry.id] = row
    for group in groups:
        name = group.group_id.hex()
        of_settings, of_commands = settings.get(name, {}), commands.get(name, {})
        if of_settings:
            _merge(of_settings, setting_orders.outcomes_by_device(reports, group, of_settings), setting_orders.OUTCOMES)
        if of_commands:
            _merge(of_commands, command_reports.outcomes_by_device(device, group, of_commands), BY_WEIGHT)


def _merge(rows: Mapping[str, _Row], found: Mapping[str, Mapping[DeviceKey, str]], by_weight: tuple[str, ...]) -> None:
    """Add a group's outcomes to the rows of its orders; of a device in several groups, the first by weight counts."""
    for order, outcomes in found.items():
        ends = rows[order].ends
        for key, outcome in outcomes.items():
            ends[key] = min(ends.get(key, outcome), outcome, key=by_weight.index)
