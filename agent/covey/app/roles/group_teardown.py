"""Forgetting groups that were destroyed, once all their members know or a day has gone by (000.22, 000.23)."""

from __future__ import annotations

from typing import Protocol

from covey.core.ids import GroupId
from covey.core.link.records import QueueSummary
from covey.core.node import Node
from covey.core.now import Now
from covey.limits.group import REVOKE_US
from covey.ports import Transactions

_NOTICE_US = 3_000_000
"""Time for the last acknowledgements to go out."""

_LOOK_US = 1_000_000


class DestroyedGroups(Protocol):
    """The groups that are being destroyed."""

    def revocations(self) -> list[tuple[GroupId, int]]:
        """Return (group_id, noted at) of groups that are being destroyed."""

    def end_revocation(self, group_id: GroupId) -> None:
        """Forget a group that was destroyed."""


class Queues(Protocol):
    """What waits for whom."""

    def queues(self) -> list[QueueSummary]:
        """Return what waits for each recipient."""


class TeardownStore(Transactions, Protocol):
    """The store as this role needs it."""

    @property
    def groups(self) -> DestroyedGroups:
        """The groups that are being destroyed."""

    @property
    def outbox(self) -> Queues:
        """What waits for whom."""


class GroupTeardown:
    """`nothing_left` is set when the last group of this device is gone by destruction."""

    def __init__(self, store: TeardownStore) -> None:
        self._store = store
        self.nothing_left = False

    def turn(self, node: Node, now: Now) -> int | None:
        """Forget what is due; return when to look again."""
        revocations = self._store.groups.revocations()
        if not revocations:
            return None
        waiting = {queue.recipient for queue in self._store.outbox.queues() if queue.queued}
        for group_id, noted_us in revocations:
            manifest = node.groups.trust(group_id).current
            members = {member.keys.signing_public for member in manifest.members} if manifest else set()
            age_us = now.wall_us - noted_us
            if age_us >= REVOKE_US or (age_us >= _NOTICE_US and not waiting & members):
                with self._store.transaction():
                    self._store.groups.end_revocation(group_id)
                node.refresh()
        self.nothing_left = not node.groups.joined() and not self._store.groups.revocations()
        return now.monotonic_us + _LOOK_US

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
