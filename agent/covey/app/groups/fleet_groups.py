"""Which groups are a person's fleet.

1. A group belongs to the fleet if this device or another of its owner's devices created it, or if a person added it.
2. What a person said about a group (`covey group add-to-fleet`, `remove-from-fleet`) counts for all own devices, and
   also for groups that they created. It is a preference in the history of the group of own devices.
3. Membership of other groups means nothing: anyone can create a group, invite this device and call it an operator, and
   would then read the settings, orders and plans meant for the fleet.
4. Nor are public groups part of it: strangers let themselves in, under any label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.app.groups.own_devices import own_devices
from covey.core.group.manifest import GroupManifest, Mode, read_manifest

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.ids import DeviceKey, GroupId

PREFERENCE = "fleet"
"""The name of the preference that says whether a group belongs to the fleet: `yes` or `no`."""


class FleetGroups:
    """What makes a group part of the fleet, as this device knows now."""

    def __init__(self, device: Device) -> None:
        self._manifests = device.store.groups
        self._own = {device.node.identity.signing_public}
        self._said: dict[GroupId, str] = {}
        machine = own_devices(device)
        if (personal := machine.group()) is not None:
            self._own |= {each.keys.signing_public for each in personal.members}
            for (group_id, key), value in machine.state(personal).preferences.items():
                if key == PREFERENCE and group_id is not None:
                    self._said[group_id] = value

    def judge(self, group: GroupManifest) -> tuple[bool, str]:
        """Return whether a group belongs to the fleet, and why in words (rules 1 to 4)."""
        said = self._said.get(group.group_id)
        if group.mode in {Mode.PERSONAL, Mode.PUBLIC}:
            return False, "public" if group.mode is Mode.PUBLIC else "own devices"
        if said is not None:
            return (True, "added") if said == "yes" else (False, "removed from the fleet")
        creator = self.creator(group)
        if creator is None:
            return False, "its creator is not known here yet"
        is_own = creator in self._own
        return is_own, f"created by {'your' if is_own else 'other'} devices"

    def creator(self, group: GroupManifest) -> DeviceKey | None:
        """Return who signed the first manifest of a group; None if it is not here (yet)."""
        raw = self._manifests.manifests_from(group.group_id, 1, 1)
        first = read_manifest(raw[0]) if raw else None
        return first.issuer if first is not None and first.version == 1 else None
