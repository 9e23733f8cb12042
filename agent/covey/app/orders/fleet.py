"""What an operator does in all groups that it administers at once (docs/protocol/history.md, "Plans").

One plan is one operation in each affected group, and one in the group of the operator's own devices, which lists the
groups: all of them are signed and committed together.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.app.groups.fleet_groups import FleetGroups
from covey.app.groups.groups import mode_name, pick_device, removal
from covey.app.groups.own import personal_group
from covey.app.history.writing import all_or_nothing, check_note, write_together
from covey.app.orders.operators import operator_keys, selected
from covey.app.wording import count
from covey.core.group.manifest import COLLECTOR, GroupManifest, Mode
from covey.core.history.bodies import Note
from covey.core.history.kinds import OperationKind
from covey.core.history.personal import PLAN_ID_BYTES, FleetPlan
from covey.core.ids import DeviceKey, PlanId, truncate_utf8
from covey.core.orders.plans import PlannedOrder, plan_id
from covey.core.orders.selector import Selector, SelectorKind, read_selector
from covey.errors import LocalError
from covey.limits.personal import MAXIMUM_PLAN_ORDER_BYTES, MAXIMUM_PLAN_TEXT_BYTES

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import Member
    from covey.core.history.body import OperationBody
    from covey.core.history.operation import Operation


@dataclass(frozen=True, slots=True)
class Scope:
    """The groups that a person means; `fleet`: all of the fleet (`fleet_groups.py`), as one plan."""

    groups: tuple[GroupManifest, ...]
    fleet: bool = False


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group of this device.

    `operator`: whether this device is one in it. `fleet`: whether the group belongs to the fleet, and `why`.
    `collectors` are the names of its collectors: label, else fingerprint.
    """

    group_id: str
    title: str
    mode: str
    members: int
    collectors: tuple[str, ...]
    operator: bool
    fleet: bool
    why: str


@dataclass(frozen=True, slots=True)
class Targets:
    """The members of one group that a selector names, and the group's own selector for them."""

    group: GroupManifest
    selector: Selector
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """Operations that were written together, each with its group; `plan` names them if they are for the fleet."""

    orders: tuple[tuple[GroupManifest, Operation], ...]
    plan: str | None = None


def shared_groups(device: Device) -> tuple[GroupManifest, ...]:
    """Return the groups of this device, without that of the person's own devices."""
    return tuple(each for each in device.node.groups.joined() if each.mode is not Mode.PERSONAL)


def commanded(device: Device) -> tuple[GroupManifest, ...]:
    """Return the groups in which this device is an operator, by what its owner has pinned, without public ones."""
    own = device.node.identity.signing_public
    private = (each for each in shared_groups(device) if each.mode is not Mode.PUBLIC)
    return tuple(group for group in private if own in operator_keys(device, group))


def administered(device: Device) -> tuple[GroupManifest, ...]:
    """Return the groups of the fleet in which this device is an operator."""
    fleet = FleetGroups(device)
    return tuple(group for group in commanded(device) if fleet.judge(group)[0])


def listed_groups(device: Device) -> list[ListedGroup]:
    """Return all groups of this device."""
    fleet, own = FleetGroups(device), device.node.identity.signing_public
    found = []
    for group in device.node.groups.joined():
        belongs, why = fleet.judge(group)
        title = device.node.history.profile(group.group_id).title
        is_operator = group.mode is not Mode.PERSONAL and own in operator_keys(device, group)
        collectors = tuple(each.label or each.name for each in group.members if COLLECTOR in each.capabilities)
        size = len(group.members), collectors
        found.append(ListedGroup(group.group_id.hex(), title, mode_name(group.mode), *size, is_operator, belongs, why))
    return found


def targets(groups: Sequence[GroupManifest], selector: str) -> list[Targets]:
    """Return for each group, in which a selector names a member, these members.

    Raises:
        UsageError: it is no selector, or names nobody in any group.
    """
    wanted = read_selector(selector, [member for group in groups for member in group.members])
    found = []
    for group in groups:
        own = wanted
        if wanted.kind is SelectorKind.DEVICES:
            own = Selector(wanted.kind, devices=tuple(each for each in wanted.devices if group.member(each)))
        if members := selected(group, own):
            found.append(Targets(group, own, tuple(members)))
    return found


def distinct(found: Iterable[Targets]) -> list[Member]:
    """Return the members of all groups; a device in several groups once."""
    return list({member.keys.signing_public: member for each in found for member in each.members}.values())


def give(device: Device, scope: Scope, bodies: Sequence[tuple[GroupManifest, PlannedOrder]], selector: str) -> Together:
    """Write one order to each group; for a fleet, with the plan that keeps them together.

    Raises:
        LocalError: one is beyond a bound or not for this device to give; or there is no group of own devices for the
            plan. Then none is written.
    """
    if not scope.fleet:
        return Together(_with_groups(bodies, write_together(device, bodies)))
    order = bodies[0][1]
    if order.selector.kind is SelectorKind.DEVICES:
        named = tuple(sorted({key for _, each in bodies for key in each.selector.devices}))
        order = replace(order, selector=Selector(SelectorKind.DEVICES, devices=named))
    return give_plan(device, bodies, order, f"{order.shown()['text']} for {selector}")


def give_plan(
    device: Device, bodies: Sequence[tuple[GroupManifest, PlannedOrder]], order: PlannedOrder, text: str
) -> Together:
    """Write a fleet's orders, and the plan with the order for all of its groups; raises as `give`."""
    found = plan_id(device.node.identity.signing_public, order)
    assert found is not None, "every order that is given here has a once-id"
    raw = order.to_wire()
    is_short = len(raw) <= MAXIMUM_PLAN_ORDER_BYTES
    kept = raw if order.sealed is None and is_short else None  # a secret is sealed for the devices of one group
    return _write_plan(device, found, bodies, text, kept)


def post_everywhere(device: Device, scope: Scope, content: bytes, mime: str, *, typed: bool) -> Together:
    """Post a note to every group of a fleet.

    Raises:
        UsageError: it is no note.
        LocalError: as `give`.
    """
    check_note(content, mime, typed=typed)
    text = content.decode(errors="replace").strip() if mime.startswith("text/") else count(len(content), "byte")
    note = Note(mime, content)
    plan = PlanId(secrets.token_bytes(PLAN_ID_BYTES))
    return _write_plan(device, plan, [(group, note) for group in scope.groups], f"note: {text}")


def groups_of(scope: Scope, name: str) -> tuple[DeviceKey, list[GroupManifest]]:
    """Return the device that a person means, and the groups of a fleet that it is in.

    Raises:
        LocalError: it is none, or not clear which is meant.
    """
    target = pick_device(scope.groups, name).keys.signing_public
    return target, [group for group in scope.groups if group.member(target) is not None]


def remove_everywhere(device: Device, target: DeviceKey, groups: Sequence[GroupManifest], name: str) -> Together:
    """Remove a member from several groups, from all of them or from none.

    Raises:
        LocalError: one of the groups does not let this device do that; or as `give`.
    """
    personal, plan = personal_group(device), PlanId(secrets.token_bytes(PLAN_ID_BYTES))
    body = _plan(plan, None, f"removed {name}", groups)
    with all_or_nothing(device):
        for group in groups:
            try:
                device.node.actions.change(group.group_id, removal(target), device.now())
            except LocalError as error:
                raise LocalError(
                    f"group {group.group_id.hex()[:8]}: {error}; nothing was changed in any group", hint=error.hint
                ) from error
        device.node.history.write(personal.group_id, body, device.now())
    return Together((), plan.hex())


def _write_plan(
    device: Device,
    plan: PlanId,
    bodies: Sequence[tuple[GroupManifest, OperationBody]],
    text: str,
    order: bytes | None = None,
) -> Together:
    personal = personal_group(device)
    body = _plan(plan, int(bodies[0][1].kind), text, [group for group, _ in bodies], order)
    *orders, _ = write_together(device, [*bodies, (personal, body)])
    return Together(_with_groups(bodies, orders), plan.hex())


def _plan(
    plan: PlanId,
    kind: OperationKind | int | None,
    text: str,
    groups: Iterable[GroupManifest],
    order: bytes | None = None,
) -> FleetPlan:
    given = None if kind is None else int(kind)
    ids = tuple(sorted(group.group_id for group in groups))
    return FleetPlan(plan, given, truncate_utf8(" ".join(text.split()), MAXIMUM_PLAN_TEXT_BYTES), ids, order)


def _with_groups(
    bodies: Sequence[tuple[GroupManifest, OperationBody]], operations: Sequence[Operation]
) -> tuple[tuple[GroupManifest, Operation], ...]:
    return tuple((group, operation) for (group, _), operation in zip(bodies, operations, strict=True))
