"""The role that removes devices from the group that they have left for another one (`group_moves.py`).

It works where its device has ordered a move, or was told to complete it, until nothing of the move is open. Devices
that have moved are removed once all have answered, and before that once a minute: each manifest of a large group is
large, and begins an epoch. A device that waits to enter a group, and that another move has taken out of it since, is
added to it again, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from covey.adapters.journal import report
from covey.app.wording import count
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.orders.group_moves import KnownMove
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import GroupId
    from covey.core.node import Node
    from covey.core.now import Now

_LOOK_US = 10_000_000
_REMOVE_US = 60_000_000
_NOT_REMOVED = "devices that have moved are still in the old group"
_NOT_ADDED = "devices that are to move are not in the new group"

Changed = TypeVar("Changed")


class MovedDevices:
    """Looks at the moves that this device completes, where there are any."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._look_at_us = self._remove_at_us = 0
        self._refused = ""
        self._readmitted: set[tuple[str, str]] = set()
        """Moves, and devices that were added to the new group again: a person may have removed them since."""

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; return when to be called next, in monotonic microseconds."""
        orders = self._device.store.move_orders.all()
        if not orders:
            return None
        if now.monotonic_us >= self._look_at_us:
            self._look_at_us = now.monotonic_us + _LOOK_US
            self._look(node, now, {each.source for each in orders})
        return self._look_at_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""

    def _look(self, node: Node, now: Now, sources: set[GroupId]) -> None:
        from covey.app.orders import group_moves  # most devices order no moves

        here = replace(self._device, node=node)
        joined = [each for each in node.groups.joined() if each.group_id in sources]
        moves = group_moves.known_moves(here, joined)
        mine = [each for each in moves if each.finishes]
        is_due = now.monotonic_us >= self._remove_at_us
        for move in mine:
            answered = not any(each.state in {"waiting", "delivering"} for each in move.devices)
            if not (answered or is_due):
                continue
            self._remove_at_us = now.monotonic_us + _REMOVE_US
            removed = self._change(node, partial(group_moves.remove_moved, here, move, moves), _NOT_REMOVED)
            if removed is None:
                return
            if removed:
                report("notice", f"removed {count(removed, 'device')} that moved from group {move.source[:8]}")
        self._forget(joined, moves)
        for move in mine if is_due else ():
            before = {device for order, device in self._readmitted if order == move.id}
            added = self._change(node, partial(group_moves.readmit, here, move, before), _NOT_ADDED)
            if added is None:
                return
            if added:
                self._readmitted |= {(move.id, each) for each in added}
                report("notice", f"added {count(len(added), 'device')} to group {move.target[:8]} again, to move there")

    def _change(self, node: Node, work: Callable[[], Changed], otherwise: str) -> Changed | None:
        """Change members of a group; return None where this device may not, which is reported once."""
        try:
            with self._device.store.transaction():
                return work()
        except LocalError as error:
            node.discard()
            if str(error) != self._refused:
                self._refused = str(error)
                report("warning", f"{otherwise}: {error}")
            return None

    def _forget(self, joined: list[GroupManifest], moves: list[KnownMove]) -> None:
        """Forget the moves of which nothing is open, those of groups that this device has left, and those whose order
        is here and no operator's any more.
        """
        is_open = {each.id for each in moves if any(device.is_open for device in each.devices)}
        here = {each.group_id for each in joined}
        for order in self._device.store.move_orders.all():
            has_come = self._device.store.operations.held(order.source, order.operation) is not None
            if order.source not in here or (has_come and order.operation.hex() not in is_open):
                with self._device.store.transaction():
                    self._device.store.move_orders.remove(order.operation)
