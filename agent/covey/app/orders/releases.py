"""Releases: a command about a file, given to one wave of devices after the other (`core/orders/roll_out.py`).

The history holds the whole release: commands, targets, the plan, and whether it is paused, aborted or resumed
(`core/orders/release_standing.py`). So any operator's device can continue or stop it; none does so without being asked.
With a threshold above one, operators approve the first wave, and with it the plan.

A release for the fleet has an operation in each of its groups from the first wave on, which announces it where the wave
has no device: so it is approved, paused and continued as a whole. What is written to several groups is written to all
of them or to none.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.app.content.offering import offer_sealed
from covey.app.history.writing import all_or_nothing, write_together
from covey.app.orders.commands import release_targets
from covey.app.orders.fleet import Scope, commanded, give_plan
from covey.app.orders.operators import check_operator
from covey.app.orders.release_reports import (
    Release,
    described,
    fared,
    named_member,
    pick_release,
    release,
    turns,
)
from covey.core.history.orders import OF_GROUP, ONCE_BYTES, CommandOrder
from covey.core.history.releases import ReleaseChange, ReleaseState
from covey.core.ids import truncate_utf8
from covey.core.orders.plans import announcing, plan_id
from covey.core.orders.roll_out import RollOut, Wave
from covey.core.orders.selector import Selector, SelectorKind
from covey.errors import LocalError, MalformedError, UsageError
from covey.limits.orders import MAXIMUM_RELEASE_WHY_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from covey.app.content.offering import SealedFile
    from covey.app.device.device import Device
    from covey.app.orders.release_reports import GivenRelease
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import DeviceKey, GroupId


def read_waves(text: str) -> tuple[Wave, ...]:
    """Return waves as a person writes them: numbers of devices, and percents, with commas between them.

    Raises:
        UsageError: they are none.
    """
    try:
        return tuple(_wave(each.strip()) for each in text.split(","))
    except (MalformedError, ValueError) as error:
        raise UsageError(f"'{text[:64]}' is not a list of waves", hint="for example --waves 1,1%,10%,100%") from error


def _wave(text: str) -> Wave:
    number = int(text.removesuffix("%"))
    return Wave.from_wire([number] if text.endswith("%") else number)


def plan_release(
    device: Device,
    groups: Sequence[GroupManifest],
    selector: str,
    waves: tuple[Wave, ...],
    stop: int,
    patience: int,
    soak: int,
    seen_within_us: int | None = None,
) -> list[tuple[GroupManifest, RollOut]]:
    """Return the plan of a release for each group with a target; `stop` in percent, the others in microseconds.

    Raises:
        LocalError: this device may not order that, or none of its targets obeys.
        UsageError: the selector is invalid, or selects nothing; or there are more waves than a plan holds.
    """
    found = []
    for each in release_targets(device, groups, selector):
        plan = RollOut(each.selector, waves, stop, patience, soak, seen_within_us)
        try:
            found.append((each.group, RollOut.from_wire(plan.to_wire())))
        except MalformedError as error:
            raise UsageError(str(error), hint="for example --waves 1,1%,10%,100%") from error
    return found


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A group's plan in a release, with the file that is sealed for it, and perhaps a patch."""

    group: GroupManifest
    plan: RollOut
    file: SealedFile
    patch: SealedFile | None = None


def begin(device: Device, scope: Scope, action: str, parts: Sequence[PlannedPart], selector: str) -> Release:
    """Offer the files, and give the first wave a command: all in one commit, so no file is offered without a release.

    Raises:
        LocalError: nobody is there to get it, or this device may not.
    """
    once = secrets.token_bytes(ONCE_BYTES)
    with all_or_nothing(device):
        orders = [_order(device, part, action, once) for part in parts]
        wave = _next(device, orders, frozenset())
        if not scope.fleet:
            write_together(device, wave)
        else:
            _give_everywhere(device, orders, wave, f"release {once.hex()[:8]}: {action} for {selector}")
    return release(device, scope.groups, once.hex())


def _order(device: Device, part: PlannedPart, action: str, once: bytes) -> tuple[GroupManifest, CommandOrder]:
    """Offer a part's file; return the command for its group."""
    offer = offer_sealed(device, part.file)
    if part.patch is not None:
        offer_sealed(device, part.patch)
    arguments = {"group": part.group.group_id.hex(), "file": offer.operation.id.hex()}
    return part.group, CommandOrder(part.plan.selector, action, arguments, once, roll_out=part.plan)


def _give_everywhere(
    device: Device,
    orders: Sequence[tuple[GroupManifest, CommandOrder]],
    wave: Sequence[tuple[GroupManifest, CommandOrder]],
    text: str,
) -> None:
    """Give the first wave, announce the release in the other groups, and keep the plan."""
    whole = _for_all(orders)
    plan = plan_id(device.node.identity.signing_public, whole)
    assert plan is not None, "a release is one"
    given = {group.group_id for group, _ in wave}
    announced = [
        (group, replace(order, selector=announcing(plan))) for group, order in orders if group.group_id not in given
    ]
    give_plan(device, [*wave, *announced], whole, text)


def _for_all(orders: Sequence[tuple[GroupManifest, CommandOrder]]) -> CommandOrder:
    """Return the order of all groups, without what differs from group to group."""
    _, first = orders[0]
    plans = [order.roll_out for _, order in orders if order.roll_out is not None]
    selector = first.selector
    if selector.kind is SelectorKind.DEVICES:
        selector = Selector(
            selector.kind, devices=tuple(sorted({key for each in plans for key in each.selector.devices}))
        )
    arguments = {name: value for name, value in first.arguments.items() if name not in OF_GROUP}
    return replace(first, selector=selector, arguments=arguments, roll_out=replace(plans[0], selector=selector))


def go_on(device: Device, groups: Sequence[GroupManifest], name: str) -> Release:
    """Give the next wave what the ones before were given, where it is ready; pause what too many fare badly with.

    Raises:
        LocalError: nothing of that name; or this device may not.
    """
    given = pick_release(device, groups, name)
    how = fared(device, given, given.stop_percent)
    found = described(device, given, how)
    if found.state == "ready":
        orders = [(each.group, each.order) for each in given.parts if not each.is_aborted]
        write_together(device, _next(device, orders, given.devices()))
        return release(device, groups, name)
    if found.state == "stopped" and given.state is ReleaseState.GOING:
        parts = [f"{len(each)} {how}: {', '.join(each[:3])}" for how, each in _badly(found) if each]
        why = truncate_utf8("; ".join(parts), MAXIMUM_RELEASE_WHY_BYTES)
        _say(device, given, groups, ReleaseChange(given.once, ReleaseState.PAUSED, why))
        return release(device, groups, name)
    return found


def _badly(found: Release) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("failed", found.failed), ("silent", found.silent)


def pause(device: Device, scope: Scope, name: str, why: str = "") -> Release:
    """Hold devices that have not started, in the groups of a scope.

    Raises:
        LocalError: nothing of that name, or it was aborted; or this device may not.
    """
    return _halt(device, scope, name, ReleaseState.PAUSED, why)


def abort(device: Device, scope: Scope, name: str, why: str = "") -> Release:
    """Cancel on devices of a scope that have not started, and roll back trials; this is permanent.

    Raises:
        LocalError: nothing of that name, or it was aborted; or this device may not.
    """
    return _halt(device, scope, name, ReleaseState.ABORTED, why)


def _halt(device: Device, scope: Scope, name: str, state: ReleaseState, why: str) -> Release:
    if len(why.encode()) > MAXIMUM_RELEASE_WHY_BYTES:
        raise UsageError(f"--why: {len(why.encode())} bytes", hint=f"at most {MAXIMUM_RELEASE_WHY_BYTES}")
    given = pick_release(device, scope.groups, name)
    if any(part.standing.state is not state for part in given.parts):
        _check_not_aborted(given)
        _say(device, given, scope.groups, ReleaseChange(given.once, state, why))
    return release(device, scope.groups, name)


def resume(device: Device, groups: Sequence[GroupManifest], name: str, stop: int | None, *, accept: bool) -> Release:
    """Resume a release that is paused, or that stopped by itself.

    `stop` is another limit in percent from now on. With `accept` it continues in spite of the devices that have failed
    so far, which no longer count.

    Raises:
        LocalError: nothing of that name, or it was aborted; or this device may not.
    """
    given = pick_release(device, groups, name)
    _check_not_aborted(given)
    how = fared(device, given, given.stop_percent if stop is None else stop)
    if how.stops and not accept:
        return described(device, given, how)
    accepted = frozenset(how.bad if accept else ())
    if stop is not None or accepted or given.state is not ReleaseState.GOING:
        change = ReleaseChange(given.once, ReleaseState.GOING, stop_percent=stop)
        _say(device, given, groups, change, accepted)
    return go_on(device, groups, name)


def _say(
    device: Device,
    given: GivenRelease,
    groups: Iterable[GroupManifest],
    change: ReleaseChange,
    accepted: Collection[DeviceKey] = (),
) -> None:
    """Say the same in all groups in which the release is not aborted, and accept the failures of their devices.

    Of the groups whose order has not come here, it is said in those of `groups` in which this device is an operator: it
    holds when the order comes.
    """
    missing = {*given.missing} & {each.group_id for each in commanded(device)}
    bodies = [(group, change) for group in groups if group.group_id in missing]
    for part in given.parts:
        if not part.is_aborted:
            of_group = tuple(sorted(part.devices() & frozenset(accepted)))
            check_operator(device, part.group)
            bodies.append((part.group, replace(change, accepted=of_group)))
    write_together(device, bodies)


def _check_not_aborted(given: GivenRelease) -> None:
    if given.state is ReleaseState.ABORTED:
        part = given.parts[0]
        aborted = next(each for each, said in part.standing.said if said.state is ReleaseState.ABORTED)
        raise LocalError(
            f"release {given.once.hex()[:8]} was aborted by {named_member(part.group, aborted.author)}",
            hint="an abort is final: create a new release with 'covey release create'",
        )


def _next(
    device: Device, orders: Sequence[tuple[GroupManifest, CommandOrder]], given: Collection[DeviceKey]
) -> list[tuple[GroupManifest, CommandOrder]]:
    """Return the orders of the next wave; of several groups those that a device of the wave is in.

    Raises:
        LocalError: nobody is next; or this device may not.
    """
    for group, _ in orders:
        check_operator(device, group)
    once, plan = orders[0][1].once, orders[0][1].roll_out
    assert plan is not None, "a release has one"
    others = turns(device, [(group, order.roll_out) for group, order in orders], once, given).others
    wave = plan.next_wave(len(given), others)
    if wave is None:
        raise LocalError("no remaining device obeys commands", hint="'covey order' shows which devices obey")
    number, wanted = wave
    devices: dict[GroupId, list[DeviceKey]] = {}
    for group_id, key in wanted:
        devices.setdefault(group_id, []).append(key)
    return [
        (group, replace(order, selector=_named(devices[group.group_id]), wave=number))
        for group, order in orders
        if group.group_id in devices
    ]


def _named(devices: Iterable[DeviceKey]) -> Selector:
    return Selector(SelectorKind.DEVICES, devices=tuple(sorted(devices)))
