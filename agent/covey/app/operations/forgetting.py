"""Forgetting what a checkpoint of a group's history covers: how much may go, and having it go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from covey.app.device import Device
from covey.app.operations.checkpoints import checkpoints
from covey.core.checkpoints.forgetting import base_of, forgettable
from covey.core.group.manifest import GroupManifest
from covey.core.node import Node
from covey.errors import LocalError
from covey.limits.history import FORGOTTEN_AT_ONCE

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten now, by which checkpoint, and how many operations of the group are forgotten in all."""

    checkpoint: str
    forgotten: int
    in_all: int


def may_go(device: Device, node: Node, manifest: GroupManifest, came_before_us: int) -> tuple[str, Sequence[int]]:
    """Return by which checkpoint something may be forgotten that came before a time, and what; "": by none."""
    base = base_of(checkpoints(device, node, manifest).newest_first())
    if base is None:
        return "", ()
    group_id = manifest.group_id
    void = node.history.standing(group_id).void
    return base.id.hex(), forgettable(device.store.operations, group_id, base, void, came_before_us)


def forget(device: Device, manifest: GroupManifest, keep_us: int) -> Forgotten:
    """Forget what a checkpoint covers and came longer ago than so many microseconds, in small transactions.

    Raises:
        LocalError: there is no checkpoint that counts.
    """
    checkpoint, arrivals = may_go(device, device.node, manifest, device.now().wall_us - keep_us)
    if not checkpoint:
        raise LocalError(
            "no checkpoint counts here, so all of the history is needed",
            hint="'covey history checkpoint' proposes one; more than half of the admins have to sign it",
        )
    operations, forgotten = device.store.operations.forgotten, 0
    for start in range(0, len(arrivals), FORGOTTEN_AT_ONCE):
        with device.store.transaction():
            forgotten += operations.take(arrivals[start : start + FORGOTTEN_AT_ONCE])
    return Forgotten(checkpoint, forgotten, operations.count(manifest.group_id))


def keep_us(days: float) -> int:
    """Return microseconds of so many days."""
    return int(days * _DAY_US)
