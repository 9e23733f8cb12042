"""What an operator does about commands: give them, to devices that obey."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.app.orders.fleet import Scope, Targets, Together, distinct, give, targets
from covey.app.orders.operators import OrderEntry, check_operator, check_supported, selected
from covey.app.orders.plans import merged
from covey.app.wording import count
from covey.core.actions.obeying import obeyers
from covey.core.actions.secrets import seal_arguments
from covey.core.group.features import Feature
from covey.core.history.orders import ONCE_BYTES, CommandOrder, arguments_from_wire
from covey.core.orders.selector import read_selector
from covey.errors import LocalError, RemoteError, UsageError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest, Member
    from covey.core.ids import NoisePublic


@dataclass(frozen=True, slots=True)
class OrderedCommand:
    """A command that was given, for how many devices that is, and how many of them obey commands.

    `order` judges all operations together (`plans.merged`); its id is the plan's where `given` has one.
    """

    given: Together
    order: OrderEntry
    devices: int
    obeying: int
    unable: tuple[str, ...] = ()
    """Names of the devices among them that announce not to support commands."""


def give_command(
    device: Device,
    scope: Scope,
    action: str,
    arguments: Mapping[str, str],
    selector: str,
    lifetime_us: int | None,
    hidden: Mapping[str, str] | None = None,
) -> OrderedCommand:
    """Order a selector's devices in some groups to run an action, within a lifetime.

    Only these devices can read `hidden` arguments.

    Raises:
        LocalError: by a device that is no operator; or none of its targets obeys commands.
        UsageError: the selector is invalid, or selects nothing; or the order exceeds a limit.
    """
    found, members, obeying = _ordered(device, scope.groups, selector)
    unable = check_supported(members, Feature.COMMANDS)
    if hidden and any(member.is_board for member in members):
        raise UsageError("a board cannot receive secrets", hint="use --arg, which every member can read")
    deadline_us = None if lifetime_us is None else device.now().wall_us + lifetime_us
    once, orders = secrets.token_bytes(ONCE_BYTES), []
    for each in found:
        order = CommandOrder(each.selector, action, arguments, once, deadline_us)
        if hidden:
            order = replace(order, sealed=_sealed(device, each.group, order, each.members, hidden))
        orders.append((each.group, order))
    try:
        for _, order in orders:
            CommandOrder.from_wire(order.to_wire())
    except RemoteError as error:
        hint = (
            "use --for all, or --for label:NAME"
            if hidden
            else "for example: covey order run restart-pump --arg number=3"
        )
        raise UsageError(f"every device would refuse that: {error}", hint=hint) from error
    given = give(device, scope, orders, selector)
    return OrderedCommand(given, merged(device, given), len(members), obeying, unable)


def _sealed(
    device: Device, manifest: GroupManifest, order: CommandOrder, members: Sequence[Member], hidden: Mapping[str, str]
) -> bytes:
    if twice := order.arguments.keys() & hidden.keys():
        raise UsageError(f"{min(twice)} is given both openly and as a secret", hint="use either --arg or --secret")
    author = device.node.identity.signing_public
    about = (manifest.group_id, author, order.action, order.once, order.selector)
    recipients = [member.keys.noise_public for member in members]
    try:
        return seal_arguments(arguments_from_wire(dict(hidden)), recipients, *about, os.urandom)
    except RemoteError as error:
        why = f"every device would refuse these secrets: {error}"
        raise UsageError(why, hint="for example: covey order run set-wifi --secret key") from error
    except LocalError as error:
        raise UsageError(f"all secrets together: {error}", hint="use fewer or shorter secrets") from error


def release_targets(device: Device, groups: Sequence[GroupManifest], selector: str) -> list[Targets]:
    """Return whom a release is for in which group, if this device could order it.

    Raises:
        LocalError: it is no operator; or none of its targets obeys commands.
        UsageError: the selector is invalid, or selects nothing, or a board.
    """
    found, members, _ = _ordered(device, groups, selector)
    check_supported(members, Feature.RELEASES)
    if any(member.is_board for member in members):
        raise UsageError(
            "a release is for devices; gateways update their boards", hint="give the gateway: --for GATEWAY"
        )
    return found


def readers_of(manifest: GroupManifest, selector: str, *, secret: bool) -> list[NoisePublic]:
    """Return the only readers of a file for a selector's devices, by their noise keys; empty: every member.

    If it names one device, the file is always secret.

    Raises:
        UsageError: the selector is invalid, or selects nothing.
    """
    wanted = read_selector(selector, manifest.members)
    alone = secret or len(wanted.devices) == 1
    return [member.keys.noise_public for member in selected(manifest, wanted)] if alone else []


def _ordered(device: Device, groups: Sequence[GroupManifest], selector: str) -> tuple[list[Targets], list[Member], int]:
    """Return whom a selector names in which group, all these members, and how many of them obey commands."""
    found = targets(groups, selector)
    for each in found:
        check_operator(device, each.group)
    obeying = set()
    for each in found:
        devices = {member.keys.signing_public for member in each.members}
        obeying |= devices & obeyers(device.store.operations.nodes(each.group.group_id)).bits.keys()
        obeying |= {member.keys.signing_public for member in each.members if member.is_board}  # it says so itself
    members = distinct(found)
    if not obeying:
        raise LocalError(f"none of {count(len(members), 'device')} is known to allow orders", hint=_OBEYING)
    return found, members, len(obeying)


_OBEYING = "on each device set operations.operators and operations.commands (allowed actions); restart its agent"
