"""Which groups are a person's fleet.

1. A group belongs to the fleet if this device or another of its owner's devices created it, or if a person added it.
   The creator says so in the history of the group of own devices, and the group's first manifest shows it.
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
from covey.core.history.personal import FLEET, IN_FLEET

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.ids import DeviceKey, GroupId


class FleetGroups:
    """What makes a group part of the fleet, as this device knows now."""

    def __init__(self, device: Device) -> None:
        self._manifests = device.store.groups
        self._own = {device.node.identity.signing_public}
        self._created: set[GroupId] = set()
        self._said: dict[GroupId, str] = {}
        machine = own_devices(device)
        if (personal := machine.group()) is not None:
            self._own |= {each.keys.signing_public for each in personal.members}
            state = machine.state(personal)
            self._created |= {each.group_id for each in state.groups.values() if each.created}
            for (group_id, key), value in state.preferences.items():
                if key == FLEET and group_id is not None:
                    self._said[group_id] = value

    def judge(self, group: GroupManifest) -> tuple[bool, str]:
        """Return whether a group belongs to the fleet, and why in words (rules 1 to 4)."""
        if group.mode in {Mode.PERSONAL, Mode.PUBLIC}:
            return False, "public" if group.mode is Mode.PUBLIC else "own devices"
        said = self._said.get(group.group_id)
        if said is not None and said != IN_FLEET:
            return False, "removed from the fleet"
        creator = self._creator(group)
        if creator in self._own or group.group_id in self._created:
            return True, "created by your devices"
        if said is not None:
            return True, "added"
        return False, "its creator is not known here yet" if creator is None else "created by other devices"

    def _creator(self, group: GroupManifest) -> DeviceKey | None:
        """Return who signed the first manifest of a group; None if it is not here (yet)."""
        raw = self._manifests.manifests_from(group.group_id, 1, 1)
        first = read_manifest(raw[0]) if raw else None
        return first.issuer if first is not None and first.version == 1 else None
