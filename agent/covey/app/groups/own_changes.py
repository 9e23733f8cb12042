"""What a person's devices say of their groups and preferences, as events: each is told as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.app.groups.own import group_entry
from covey.app.groups.own_devices import own_devices
from covey.app.groups.own_documents import OwnGroupEvent, OwnPreferenceEvent
from covey.core.history.bodies import read_body
from covey.core.history.operation import read_operation
from covey.core.history.personal import OwnGroup, Preference

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.ids import GroupId, OperationId


class OwnChanges:
    """What the personal group's history comes to when this is made, and what an operation of it says of that."""

    def __init__(self, device: Device) -> None:
        self._device = device
        machine = own_devices(device)
        self._personal = machine.group()
        self._state = None if self._personal is None else machine.state(self._personal)

    def document(
        self, group_id: GroupId, operation: OperationId, at_us: int
    ) -> OwnGroupEvent | OwnPreferenceEvent | None:
        """Return what is so now of what an operation is about; None where that is not the person's own."""
        raw = self._device.store.operations.raw(group_id, operation)
        if self._personal is None or self._state is None or group_id != self._personal.group_id or raw is None:
            return None
        match read_body(read_operation(raw, verify=False)):
            case OwnGroup(group_id=about) if about in self._state.groups:
                return OwnGroupEvent(group_id.hex(), at_us, group_entry(self._device, self._state.groups[about]))
            case Preference(group_id=about, key=key):
                value = self._state.preferences.get((about, key))
                return OwnPreferenceEvent(group_id.hex(), at_us, None if about is None else about.hex(), key, value)
        return None
