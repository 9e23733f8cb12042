"""Joins what a device's owner wants kept of histories, and the agent's role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.history.forgetting_role import HistoryForgetting

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.node import Node
    from covey.core.now import Now


def forgetting_role(device: Device) -> HistoryForgetting:
    """Return the role that forgets what checkpoints cover, where the owner has set how long it is kept."""

    def found(node: Node, group: GroupManifest, now: Now) -> Sequence[int]:
        days = device.live.config.history.keep_days
        if not days or not device.clock.synchronised():
            return ()
        from covey.app.history.forgetting import keep_us, may_go  # most keep everything: it spares the memory

        return may_go(device, node, group, now.wall_us - keep_us(days))[1]

    role = HistoryForgetting(device.store, found, device.store.operations.forgotten.take, report)
    device.live.follow(("history.keep_days",), lambda _: role.look())
    return role
