"""Forgetting groups that were destroyed, once all their members know or a day has gone by (000.22, 000.23)."""

from __future__ import annotations

from typing import Protocol

from covey.core.node import Node
from covey.core.now import Now
from covey.core.records import QueueSummary, Records
from covey.limits import REVOKE_US
from covey.ports import Transactions

_FAREWELL_US = 3_000_000
"""Time for the last acknowledgements to go out."""

_LOOK_US = 1_000_000


class UndertakerStore(Records, Transactions, Protocol):
    """The store as this role needs it."""

    def queues(self) -> list[QueueSummary]:
        """Return what waits for each recipient."""


class GroupTeardown:
    """`nothing_left` is set when the last group of this device is gone by destruction."""

    def __init__(self, store: UndertakerStore) -> None:
        self._store = store
        self.nothing_left = False

    def turn(self, node: Node, now: Now) -> int | None:
        """Forget what is due; return when to look again."""
        revocations = self._store.revocations()
        if not revocations:
            return None
        waiting = {queue.recipient for queue in self._store.queues() if queue.queued}
        for group_id, noted_us in revocations:
            manifest = node.membership.trust(group_id).current
            members = {member.keys.signing_public for member in manifest.members} if manifest else set()
            age_us = now.wall_us - noted_us
            if age_us >= REVOKE_US or (age_us >= _FAREWELL_US and not waiting & members):
                with self._store.transaction():
                    self._store.end_revocation(group_id)
                node.refresh()
        self.nothing_left = not node.membership.groups() and not self._store.revocations()
        return now.monotonic_us + _LOOK_US

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
