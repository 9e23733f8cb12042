"""The stored state of a device's move from one group to another; `moving.py` decides the next step.

It is a module of its own, since every device looks where its readings go, and few ever move.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from covey.core.ids import DeviceKey, GroupId, OperationId


class MovePhase(IntEnum):
    """How far a move has come; stored."""

    JOINING = 0
    """The device is not in the new group yet, or nobody collects readings there."""
    DRAINING = 1
    """New readings go to the new group; earlier ones may still wait for the collector of the old one."""
    MOVED = 2
    """Nothing waits in the old group any more."""


@dataclass(frozen=True, slots=True)
class GroupMove:
    """A move from group `source` to `target`, as the operation of `author` ordered.

    `since_us` is when its phase began, in microseconds since 1970. `asks` counts the requests for an invitation, the
    last of which was sent at `asked_at_us`.
    """

    source: GroupId
    target: GroupId
    operation: OperationId
    author: DeviceKey
    phase: MovePhase
    since_us: int
    asks: int = 0
    asked_at_us: int = 0


def followed(group_id: GroupId, moved: dict[GroupId, GroupId]) -> GroupId:
    """Return the group to which the readings for a group go; `moved` has the target of each group that was left."""
    seen = set()
    while group_id in moved and group_id not in seen:
        seen.add(group_id)
        group_id = moved[group_id]
    return group_id
