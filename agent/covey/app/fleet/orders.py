"""The newest orders of a device's groups, and what has become of them, for whoever looks at the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.app.fleet.documents import FleetOrder
from covey.core.history.kinds import ORDER_KINDS, OperationKind
from covey.core.ids import printable

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest

_SHOWN = 8
"""Orders that are shown of all groups; `covey orders` has the others."""
_CHARACTERS = 200
"""Of what an order says."""


class RecentOrders:
    """The newest orders, read anew where something has come since the last look."""

    def __init__(self) -> None:
        self._upto = -1
        self._found: tuple[FleetOrder, ...] = ()

    def look(self, device: Device) -> tuple[FleetOrder, ...]:
        """Return the newest orders of all groups, the newest first."""
        upto = device.store.events.last_number()
        if upto != self._upto:
            found = [each for group in device.node.groups.joined() for each in _of_group(device, group)]
            found.sort(key=lambda each: (each.given_at_us, each.id), reverse=True)
            self._upto, self._found = upto, tuple(found[:_SHOWN])
        return self._found


def _of_group(device: Device, group: GroupManifest) -> list[FleetOrder]:
    records = device.store.operations
    if not any(next(iter(records.of_kind(group.group_id, each)), None) for each in ORDER_KINDS):
        return []  # most groups have none, and nothing is loaded for it
    from covey.app.orders import command_reports, operators

    found = []
    for each in operators.orders(device, group)[-_SHOWN:]:
        outcomes: dict[str, int] = {}
        if each.kind == OperationKind.COMMAND.name.lower() and each.counts:
            report = command_reports.command_report(device, group, each.id)
            if isinstance(report, command_reports.CommandReport):
                outcomes = {name: report.outcomes[name] for name in command_reports.OUTCOMES if report.outcomes[name]}
        found.append(
            FleetOrder(
                each.id,
                group.group_id.hex(),
                each.author,
                each.label,
                each.made_at_us,
                printable(each.text, _CHARACTERS),
                len(each.signers),
                each.needed,
                each.counts,
                outcomes,
            )
        )
    return found
