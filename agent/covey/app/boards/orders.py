"""Joins what operators order of boards, by the pins of their gateway's owner, and the bridge to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.boards.order_carrier import BoardOrder, BoardOrders
from covey.app.device.pins import pins
from covey.app.orders.kept_orders import KeptOrders
from covey.core.actions.given import GroupCommands
from covey.core.actions.reporting import hearers
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import CommandOrder
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.settings.desired import GroupSettings

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest, Member
    from covey.core.node import Node
    from covey.core.orders.authority import Pins

_KINDS = (OperationKind.OPERATOR, OperationKind.COMMAND, OperationKind.SETTING, OperationKind.APPROVAL)


def board_orders(device: Device) -> BoardOrders:
    """Return what hands operators' orders to a device's boards."""
    return BoardOrders(device.store, PinnedBoardOrders(device), report)


class _Group:
    """The orders of one group, and which of the commands are for which board."""

    def __init__(self, store: SqliteStore, group: GroupManifest, pinned: Pins, void: Collection[OperationId]) -> None:
        self.commands = GroupCommands(store.operations, store.groups.manifest, group, pinned, void)
        self.settings = GroupSettings(store.operations, group, pinned, void)
        self.known: dict[DeviceKey, dict[OperationId, bool]] = {}


class PinnedBoardOrders:
    """What the operators want of boards whom a gateway's owner has pinned; implements `board_orders.JudgedOrders`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._orders = KeptOrders(device.store, _KINDS, partial(pins, device), partial(_Group, device.store))

    def stamp(self, node: Node, group: GroupManifest) -> object:
        """Return another object whenever other orders may count."""
        return self._orders.stamp(node, group)

    def of_board(self, node: Node, group: GroupManifest, board: Member) -> Sequence[OperationId]:
        """Return the settings that count for a board, then its commands in the history's order."""
        found, key = self._orders.of(node, group), board.keys.signing_public
        settings = [each.operation for each in found.settings.of([board])[key].values()]
        commands = found.commands.of_board(board, found.known.setdefault(key, {}))
        return [each.id for each in sorted(settings, key=lambda each: (each.height, each.id))] + commands

    def read(self, group: GroupManifest, order: OperationId) -> BoardOrder:
        """Return an order, with the approvals that it may need."""
        operations = self._device.store.operations
        raw = operations.raw(group.group_id, order)
        assert raw is not None, "it was just weighed"
        operation = read_operation(raw, verify=False)
        body = read_body(operation)
        is_command = isinstance(body, CommandOrder)
        pinned = pins(self._device, group.group_id)
        approvals: list[bytes] = []
        if pinned.threshold > 1:
            for node in operations.nodes(group.group_id):
                if node.kind == OperationKind.APPROVAL and node.subject == order and node.author in pinned.operators:
                    approvals += [each for each in [operations.raw(group.group_id, node.id)] if each is not None]
        operators = () if is_command else self._operators(group)
        has_deadline = isinstance(body, CommandOrder) and body.deadline_us is not None
        hearing = hearers(group, operation.author, operators)
        return BoardOrder(order, (raw, *approvals[: pinned.threshold]), hearing, has_deadline)

    def _operators(self, group: GroupManifest) -> Sequence[DeviceKey]:
        found = self._orders.last(group.group_id)
        return () if found is None else tuple(found.settings.weighed.operators)

    def pinned(self, group_id: GroupId) -> tuple[int, Sequence[DeviceKey]]:
        """Return how many operators an order needs, and whom this device's owner has pinned."""
        pinned = pins(self._device, group_id)
        return pinned.threshold, tuple(pinned.operators)
