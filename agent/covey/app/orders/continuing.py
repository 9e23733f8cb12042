"""Give a plan's order in the groups that lack it, on another device of the operator's person.

1. A group lacks it if no operator's order of the plan is here, nor was deleted here (`plans.py`): it was never sent, or
   its author was removed since.
2. The order is the one that is there, else the one that the plan keeps. It has the once-id of the plan, so a device
   that has it from the first author as well does it once.
3. A setting is not given where a later one for its key is; nor a command after its deadline.
4. A release's order announces it. The file is put into the group from a copy that this device has or fetches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.content.content import fetch_file, open_file
from covey.app.content.file_offers import GroupFile, offers, pick_offer
from covey.app.content.offering import SealedFile, offer_sealed, seal_file, sealed_files
from covey.app.groups.own_devices import own_devices
from covey.app.history.writing import all_or_nothing, write_together
from covey.app.orders.fleet import administered
from covey.app.orders.operators import orders
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import OF_GROUP, CommandOrder, SettingOrder
from covey.core.orders.plans import announcing, kept_order, order_in_group
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.orders.plans import KnownPlan
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.operation import Operation
    from covey.core.ids import GroupId
    from covey.core.orders.plans import PlannedOrder

_FETCH_S = 600.0


@dataclass(frozen=True, slots=True)
class Continued:
    """A plan whose order was given in further groups; the ids of groups, in hex.

    `given`: now. `later`: those with a later setting, which stays. `absent`: those in which this device is no operator,
    or that are not of its fleet.
    """

    id: str
    given: tuple[str, ...]
    later: tuple[str, ...]
    absent: tuple[str, ...]


def absent(device: Device, plan: KnownPlan) -> tuple[GroupId, ...]:
    """Return the groups of a plan in which this device is no operator, or that are not of its fleet."""
    here = {group.group_id for group in administered(device)}
    return tuple(each for each in plan.groups if each not in here)


def lacking(device: Device, plan: KnownPlan) -> list[GroupManifest]:
    """Return the groups of a plan that this device administers, and that lack its order (rule 1)."""
    found = []
    for group in administered(device):
        if group.group_id in plan.groups and group.group_id not in plan.deleted:
            signed = {entry.id for entry in orders(device, group) if entry.signers}
            if not any(each.id.hex() in signed for each in _here(plan, group)):
                found.append(group)
    return found


def continue_plan(device: Device, plan: KnownPlan) -> Continued:
    """Give a plan's order in the groups that lack it, in all of them or in none.

    Raises:
        LocalError: it is no plan of this person's devices, or no order that can be given again.
    """
    if plan.once is not None:
        raise LocalError(
            f"{plan.name[:8]} is a release", hint=f"'covey release resume {plan.name[:8]}' also gives missing orders"
        )
    bodies: list[tuple[GroupManifest, PlannedOrder]] = []
    later: list[GroupManifest] = []
    for group in lacking(device, plan):
        order = _order(plan, group)
        if (
            isinstance(order, CommandOrder)
            and order.deadline_us is not None
            and order.deadline_us < device.now().wall_us
        ):
            raise LocalError(f"the deadline of plan {plan.name[:8]} has passed", hint="give a new order")
        if isinstance(order, SettingOrder) and _has_later(device, plan, group, order):
            later.append(group)
        elif order is not None:
            bodies.append((group, order))
    if bodies:
        write_together(device, bodies)
    return Continued(
        plan.id.hex(),
        tuple(group.group_id.hex() for group, _ in bodies),
        tuple(group.group_id.hex() for group in later),
        tuple(each.hex() for each in absent(device, plan)),
    )


def announce_release(device: Device, plan: KnownPlan, moves: Callable[[int], None]) -> list[GroupManifest]:
    """Announce a release in the groups that lack it, with its file; return these groups.

    Raises:
        LocalError: the file is not here and has not come in time, or the plan does not keep the order.
    """
    found: list[tuple[GroupManifest, CommandOrder, str | SealedFile]] = []
    with sealed_files(device) as sealed:
        for group in lacking(device, plan):
            order = _order(plan, group)
            if not isinstance(order, CommandOrder):
                continue
            file = order.arguments["file"] if order.arguments.keys() >= OF_GROUP else _file(device, plan, group, moves)
            if isinstance(file, SealedFile):
                sealed.append(file)
            found.append((group, order, file))
        with all_or_nothing(device):
            for group, order, file in found:
                offered = file if isinstance(file, str) else offer_sealed(device, file).operation.id.hex()
                arguments = {**order.arguments, "group": group.group_id.hex(), "file": offered}
                said = replace(order, selector=announcing(plan.id), arguments=arguments, wave=1)
                write_together(device, [(group, said)])
    return [group for group, _, _ in found]


def _here(plan: KnownPlan, group: GroupManifest) -> list[Operation]:
    return [operation for each, operation in plan.orders if each.group_id == group.group_id]


def _order(plan: KnownPlan, group: GroupManifest) -> PlannedOrder | None:
    """Return the order for a group (rule 2); None where it names no device of the group."""
    for operation in _here(plan, group):
        body = read_body(operation)
        assert isinstance(body, CommandOrder | SettingOrder), "nothing else is in a plan's orders"
        if body.sealed is None:
            return body
    kept = None if plan.kept is None or plan.kept_as is None else kept_order(plan.kept_as.author, plan.kept)
    if kept is None:
        raise LocalError(
            f"plan {plan.name[:8]} does not keep its order, or has a secret in it", hint="give a new order to the group"
        )
    return order_in_group(kept, {member.keys.signing_public for member in group.members})


def _has_later(device: Device, plan: KnownPlan, group: GroupManifest, order: SettingOrder) -> bool:
    since_us = 0 if plan.kept_as is None else plan.kept_as.made_at_us
    for stored in device.store.operations.of_kind(group.group_id, OperationKind.SETTING, newest_first=True):
        operation = read_operation(stored.raw, verify=False)
        body = read_body(operation)
        if isinstance(body, SettingOrder) and body.key == order.key and operation.made_at_us > since_us:
            return True
    return False


def _file(device: Device, plan: KnownPlan, group: GroupManifest, moves: Callable[[int], None]) -> str | SealedFile:
    """Return the id of a release's file in a group; where no own device has offered it, the file sealed for it."""
    known = [(each, read_body(operation)) for each, operation in plan.orders]
    source = next(((each, body) for each, body in known if isinstance(body, CommandOrder)), None)
    if source is None:
        raise LocalError(
            f"no order of release {plan.name[:8]} has arrived here yet, so its file is unknown",
            hint="try again when a relay and a member are online",
        )
    there, body = source
    offer = pick_offer(device, there, body.arguments["file"])
    put = _already_put(device, group, offer)
    if put is not None:
        return put.operation.id.hex()
    fetch_file(device, there, offer, _FETCH_S, moves)
    with tempfile.TemporaryDirectory(dir=device.folder.path) as folder:
        copy = Path(folder) / "release"
        open_file(device, there, offer, copy, replace=False)
        return seal_file(device, group, copy, offer.file.name, moves)


def _already_put(device: Device, group: GroupManifest, offer: GroupFile) -> GroupFile | None:
    """Return the file if an own device has offered one of the same name and size in a group."""
    personal = own_devices(device).group()
    own = set() if personal is None else {member.keys.signing_public for member in personal.members}
    for each in offers(device, group):
        file = each.file
        if (
            file.name == offer.file.name
            and file.content.size == offer.file.content.size
            and each.operation.author in own
        ):
            return each
    return None
