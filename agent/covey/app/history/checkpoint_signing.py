"""Joins the checkpoints that others propose and the agent's role that signs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.history.checkpoint_signer import CheckpointSigning

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.checkpoints.checkpoints import Checkpoint
    from covey.core.group.manifest import GroupManifest
    from covey.core.node import Node


def signing_role(device: Device) -> CheckpointSigning:
    """Return the role that signs checkpoints whose state this device makes, too."""

    def proposals(node: Node, group: GroupManifest) -> Iterable[Checkpoint]:
        from covey.app.history.checkpoints import checkpoints  # few groups have any: it spares the memory

        return checkpoints(device, node, group).last_of_each_author()

    return CheckpointSigning(device.store, device.store.operations, proposals, report)
