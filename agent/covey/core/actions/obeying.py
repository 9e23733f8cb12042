"""Which devices could have accepted a command (docs/protocol/history.md, "Commands", which commands a device takes, 1).

A device accepts only what follows its own statement that it obeys. So if the author of a command did not have that
statement, the device will never run the command, and nobody needs to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from covey.core.history.kinds import OperationKind
from covey.core.ids import DeviceKey, OperationId
from covey.core.orders.nodes import OrderNode


@dataclass(slots=True)
class Obeyers:
    """The devices that have said that they obey, and which of these words each command follows."""

    bits: dict[DeviceKey, int] = field(default_factory=dict)
    commands: dict[OperationId, int] = field(default_factory=dict)

    def of(self, command: OperationId) -> frozenset[DeviceKey]:
        """Return whose words a command follows."""
        found = self.commands.get(command, 0)
        return frozenset(device for device, bit in self.bits.items() if found & bit)


def obeyers(nodes: Iterable[OrderNode]) -> Obeyers:
    """Find them in a group's nodes, each of which stands behind those that it follows."""
    found = Obeyers()
    known: dict[int, int] = {}
    for node in nodes:
        devices = 0
        for each in node.follows:
            devices |= known.get(each, 0)
        if node.kind == OperationKind.OBEYING:
            devices |= found.bits.setdefault(node.author, 1 << len(found.bits))
        elif node.kind == OperationKind.COMMAND:
            found.commands[node.id] = devices
        known[node.arrival] = devices
    return found
