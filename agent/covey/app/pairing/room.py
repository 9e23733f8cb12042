"""Which groups of the fleet newcomers join (`covey invite --fleet`).

1. Only groups of the fleet (`fleet_groups.py`) count to which this device may add members.
2. The room of a group is the number of members that it still lacks of the maximum, minus this device's open invites.
   If the relay carries only smaller manifests, there is less room.
3. Newcomers that are invited together join the group with the most room, if it has room for all of them. So the groups
   grow evenly, and neighbours stay together.
4. Otherwise they are divided in their order: each group, beginning with the one with the most room, gets as many as it
   has room for.

Other devices that invite at the same time are not known here: a group that is full when a newcomer asks refuses it, and
the newcomer needs another invite.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from covey.app.groups.fleet_groups import FleetGroups
from covey.app.pairing.inviting import fits_relay
from covey.app.wording import count
from covey.core.membership.invitations import check_may_let_in
from covey.errors import LocalError
from covey.limits.group import MAXIMUM_MEMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import GroupId


def groups_with_room(device: Device) -> list[tuple[GroupManifest, int]]:
    """Return the groups of the fleet that newcomers can join, and for how many each has room; most room first.

    Raises:
        LocalError: this device may add members to no group of the fleet.
    """
    fleet, own = FleetGroups(device), device.node.identity.signing_public
    expected = _expected(device)
    found = []
    for group in device.node.groups.joined():
        if not fleet.judge(group)[0]:
            continue
        try:
            check_may_let_in(group, own, None)
        except LocalError:
            continue
        found.append((group, _room(device, group, expected[group.group_id])))
    if not found:
        raise LocalError(
            "this device can add members to no group of your fleet",
            hint="'covey group list' shows your fleet; to create a group: covey group create",
        )
    return sorted(found, key=lambda each: (-each[1], each[0].group_id))


def places(device: Device, newcomers: int) -> list[tuple[GroupManifest, int]]:
    """Return the groups for newcomers that are invited together, in their order, and how many join each.

    Raises:
        LocalError: the fleet has no room for so many; or as `groups_with_room`.
    """
    found = groups_with_room(device)
    left, chosen = newcomers, []
    for group, room in found:
        if taken := min(room, left):
            chosen.append((group, taken))
            left -= taken
    if left:
        free = newcomers - left
        raise LocalError(
            f"the groups of your fleet have room for {count(free, 'more device')}, not for {newcomers}",
            hint="create another group: covey group create, and add a collector to it",
        )
    return chosen


def divided(chosen: Sequence[tuple[GroupManifest, int]], labels: Sequence[str]) -> list[tuple[GroupManifest, str]]:
    """Return the group of each label."""
    groups = [group for group, taken in chosen for _ in range(taken)]
    return list(zip(groups, labels, strict=True))


def _expected(device: Device) -> Counter[GroupId]:
    """Count the invites of each group that a device can still use."""
    now_us = device.now().wall_us
    invites = device.store.invites.all()
    return Counter(each.group_id for each in invites if each.used_by is None and each.expires_at_us > now_us)


def _room(device: Device, group: GroupManifest, expected: int) -> int:
    most = max(0, MAXIMUM_MEMBERS - len(group.members))
    fitting = bisect_left(range(1, most + 1), True, key=lambda more: not fits_relay(device, group, more))
    return max(0, fitting - expected)
