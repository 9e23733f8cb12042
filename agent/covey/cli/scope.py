"""From --group and --fleet to the groups that a person means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from covey.app.orders.fleet import Scope, administered, commanded, shared_groups
from covey.app.orders.operators import approval_hint
from covey.app.wording import count
from covey.cli.grammar import group_option
from covey.core.ids import printable
from covey.errors import LocalError, UsageError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.cli.grammar import Parser
    from covey.core.group.manifest import GroupManifest


_SHOWN = 8


def scope_options(parser: Parser) -> None:
    """Add --group and --fleet."""
    group_option(parser)
    parser.add_argument(
        "--fleet", action="store_true", help="all groups of your fleet in which this device is an operator"
    )


def pick_scope(device: Device, group: str | None, *, fleet: bool) -> Scope:
    """Return the groups to change: the one named, the fleet, or the only one; where there are several, ask.

    Raises:
        LocalError: there is none, or it is not clear which is meant and nobody is there to ask.
        UsageError: both options are given, or the answer is not a choice.
    """
    if (named := _named(device, group, fleet=fleet)) is not None:
        return named
    if len(shared_groups(device)) < 2:
        return Scope((device.pick_group(None),))
    found = commanded(device)
    if len(found) < 2:
        return Scope((device.pick_group(None),))
    if not sys.stdin.isatty():
        known = ", ".join(each.group_id.hex()[:8] for each in found)
        raise LocalError(
            f"which group? this device is an operator in {len(found)}",
            hint=f"--fleet for all of your fleet, or --group with one of: {known}",
        )
    return _asked(device, found)


def read_scope(device: Device, group: str | None, *, fleet: bool) -> Scope:
    """Return the groups to show: the one named, the fleet, or all.

    Raises:
        LocalError: there is none.
        UsageError: both options are given.
    """
    named = _named(device, group, fleet=fleet)
    return named or Scope(shared_groups(device) or (device.pick_group(None),))


def _named(device: Device, group: str | None, *, fleet: bool) -> Scope | None:
    if fleet and group:
        raise UsageError("--fleet and --group exclude each other", hint="give one of them")
    if group:
        return Scope((device.pick_group(group),))
    if not fleet:
        return None
    return _fleet(device)


def _fleet(device: Device) -> Scope:
    """Return the groups of the fleet, and say which ones this device could order something as well."""
    found, orders = administered(device), commanded(device)
    if not orders:
        raise LocalError(
            "this device is an operator in none of its groups",
            hint=approval_hint(device),
        )
    if not found:
        raise LocalError(
            "none of the groups in which this device is an operator belongs to your fleet: others created them",
            hint="'covey group list' shows them; to add one: covey group add-to-fleet --group GROUP",
        )
    if left_out := [each.group_id.hex()[:8] for each in orders if each not in found]:
        which = f"{', '.join(left_out[:_SHOWN])}{' …' if len(left_out) > _SHOWN else ''}"
        print(
            f"{count(len(left_out), 'group')} not of your fleet skipped: {which} ('covey group list' says why)",
            file=sys.stderr,
        )
    return Scope(found, fleet=True)


def _asked(device: Device, found: tuple[GroupManifest, ...]) -> Scope:
    for number, each in enumerate(found, 1):
        title = device.node.history.profile(each.group_id).title
        name = f"{each.group_id.hex()[:8]} {printable(title)}".rstrip()
        print(f"{number:>3}  {name}, {len(each.members)} members", file=sys.stderr)
    print(f"which group? [1-{len(found)}, or all of your fleet] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip().lower()
    if answer == "all":
        return _fleet(device)
    if answer.isdecimal() and 1 <= int(answer) <= len(found):
        return Scope((found[int(answer) - 1],))
    raise UsageError(
        f"'{printable(answer, 20)}' is not a choice", hint="nothing was changed; --fleet means all of your fleet"
    )
