"""Forgetting what a checkpoint of a group's history covers: how much may go, and having it go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from covey.app.device.device import Device
from covey.app.device.pins import pins
from covey.app.history.checkpoints import checkpoints
from covey.core.actions.obeying import obeyers
from covey.core.actions.received import addressees
from covey.core.actions.reporting import hearers
from covey.core.checkpoints.forgetting import base_of, forgettable
from covey.core.group.manifest import GroupManifest
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import CommandOrder
from covey.core.ids import OperationId
from covey.core.node import Node
from covey.core.orders.authority import weigh_orders
from covey.errors import LocalError
from covey.limits.history import FORGOTTEN_AT_ONCE

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class DeletedHistory:
    """What was deleted now, under which checkpoint, and how many operations of the group are deleted in all."""

    checkpoint: str
    deleted: int
    in_all: int


def may_go(device: Device, node: Node, manifest: GroupManifest, came_before_us: int) -> tuple[str, Sequence[int]]:
    """Return by which checkpoint something may be forgotten that came before a time, and what; "": by none."""
    base = base_of(checkpoints(device, node, manifest).newest_first())
    if base is None:
        return "", ()
    group_id = manifest.group_id
    void = node.history.standing(group_id).void
    is_over = _OverCommands(device, manifest).is_over
    return base.id.hex(), forgettable(device.store.operations, group_id, base, void, came_before_us, is_over)


class _OverCommands:
    """Which commands this device has finished with.

    1. It counts, and its deadline has passed, if it has one. An ignored order is shown as an attempt, and stays.
    2. If it was for this device, its result is final, and was queued for all its recipients.
    3. If results of it come to this device, there is one from every target that could have accepted it; else from every
       board on this device's ports that it is for.
    4. If it moves devices to another group, and this device is to remove them from the old one, that has happened.
    """

    def __init__(self, device: Device, manifest: GroupManifest) -> None:
        self._device = device
        self._manifest = manifest
        self._now_us = device.now().wall_us
        self._own = device.node.identity.signing_public
        group_id, present = manifest.group_id, [each.keys.signing_public for each in manifest.members]
        self._boards = {each.keys.signing_public for each in manifest.members if each.is_board}
        self._on_ports = {each.keys.signing_public for each in device.store.boards.all()}
        self._moves = {each.operation for each in device.store.move_orders.all()}
        self._obeyers = obeyers(device.store.operations.nodes(group_id))
        void = device.node.history.standing(group_id).void
        weighed = weigh_orders(
            device.store.operations, group_id, pins(device, group_id), present, void, OperationKind.COMMAND
        )
        self._operators = weighed.operators.keys()
        self._counting = frozenset(each.id for each in weighed.orders if each.counts)

    def is_over(self, operation_id: OperationId) -> bool:
        """Say so of one that the history holds."""
        store, group_id = self._device.store, self._manifest.group_id
        raw = store.operations.raw(group_id, operation_id)
        if raw is None or operation_id not in self._counting or operation_id in self._moves:
            return False
        operation = read_operation(raw, verify=False)
        deadline_us = CommandOrder.from_wire(operation.body).deadline_us
        if deadline_us is not None and deadline_us > self._now_us:
            return False
        present = {each.keys.signing_public for each in self._manifest.members}
        obeying = self._boards | self._obeyers.of(operation_id)
        takers = addressees(store.groups, self._manifest, operation) & obeying & present
        if self._own in takers and not store.commands.is_reported(operation_id):
            return False
        if self._own not in hearers(self._manifest, operation.author, self._operators):
            takers &= self._on_ports
        return takers <= {each.device for each in store.order_results.of_order(group_id, operation_id)}


def delete_covered(device: Device, manifest: GroupManifest, keep_us: int) -> DeletedHistory:
    """Forget what a checkpoint covers and came longer ago than so many microseconds, in small transactions.

    Raises:
        LocalError: there is no checkpoint that counts.
    """
    checkpoint, arrivals = may_go(device, device.node, manifest, device.now().wall_us - keep_us)
    if not checkpoint:
        raise LocalError(
            "this device has no valid checkpoint, so it needs all of the history",
            hint="propose one: covey history checkpoint; more than half of the admins must sign it",
        )
    operations, forgotten = device.store.operations.forgotten, 0
    for start in range(0, len(arrivals), FORGOTTEN_AT_ONCE):
        with device.store.transaction():
            forgotten += operations.take(arrivals[start : start + FORGOTTEN_AT_ONCE])
    return DeletedHistory(checkpoint, forgotten, operations.count(manifest.group_id))


def keep_us(days: float) -> int:
    """Return microseconds of so many days."""
    return int(days * _DAY_US)
