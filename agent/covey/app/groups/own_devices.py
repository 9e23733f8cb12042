"""The role that keeps one person's devices in the same groups (docs/protocol/history.md, "A person's devices")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.device.known_labels import own_label
from covey.core.group.device_labels import DeviceLabels
from covey.errors import LocalError
from covey.ports import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.app.device.device import Device
    from covey.core.ids import GroupId
    from covey.core.node import Node
    from covey.core.now import Now
    from covey.core.own.own_devices import Done, OwnDevices
    from covey.ports import Transactions


_LOOK_US = 15_000_000
"""Between two looks where nothing was written or changed: invitations arrive, and what was left is erased."""

_WORDS = {
    "told": "the other own devices hear of group {group}",
    "left": "left group {group}, as on {device}",
    "erased": "erased group {group}, as on {device}",
    "invited": "invited own device {device} to group {group}",
    "asked": "asked own device {device} to be let into group {group}",
}


class OwnDevicesRole:
    """Looks at the personal group, where there is one."""

    def __init__(
        self,
        store: Transactions,
        pinned: Callable[[], GroupId | None],
        machine: Callable[[Node], OwnDevices],
        label: Callable[[], str],
        report: Report,
    ) -> None:
        self._store = store
        self._pinned = pinned
        self._machine = machine
        self._label = label
        self._report = report
        self._seen: tuple[int, int, int] | None = None
        self._look_at_us = 0
        self._refused = ""
        self._pins = False

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; return when to be called next, in monotonic microseconds."""
        seen = (id(node), node.history.generation, node.groups.generation)
        if seen == self._seen and now.monotonic_us < self._look_at_us:
            return self._look_at_us if self._pins else None
        self._seen, self._look_at_us = seen, now.monotonic_us + _LOOK_US
        self._pins = self._pinned() is not None
        if not self._pins:
            return None
        done: list[Done] = []
        try:
            with self._store.transaction():
                done += self._machine(node).turn(self._label(), now)
        except LocalError as error:
            node.discard()
            if str(error) != self._refused:
                self._refused = str(error)
                self._report("warning", f"changes by your other devices wait: {error}")
            return self._look_at_us
        labels = DeviceLabels(node.groups.joined())
        for each in done:
            words = _WORDS[each.what].format(group=each.group_id.hex()[:8], device=labels.named(each.device))
            self._report("notice", words)
        return self._look_at_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""


def own_devices(device: Device, node: Node | None = None) -> OwnDevices:
    """Return what a device does as one of its person's; `node` is the one that is in use, if not the opened one's."""
    from covey.core.own.own_devices import OwnDevices  # most devices are nobody's own: it spares the memory

    node = node or device.node
    return OwnDevices(node.identity, node.groups, node.history, node.actions, device.store)


def own_devices_role(device: Device) -> OwnDevicesRole:
    """Return the role that does what the person's other devices make necessary."""
    return OwnDevicesRole(
        device.store,
        device.store.personal.pinned,
        lambda node: own_devices(device, node),
        lambda: own_label(device),
        report,
    )
