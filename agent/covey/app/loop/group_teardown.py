"""Forgetting groups that were destroyed, once all their members know or a day has gone by (000.22, 000.23)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, GroupId, Place
from covey.core.link.queued import Lane
from covey.core.node import Node
from covey.core.now import Now
from covey.core.wire.message import MessageType, read_message
from covey.limits.group import REVOKE_KNOWN_US, REVOKE_US
from covey.limits.link import LINK_WINDOW_BYTES, LINK_WINDOW_MESSAGES

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


_NOTICE_US = 3_000_000
"""Time for the last acknowledgements to go out."""

_LOOK_US = 1_000_000


class GroupTeardown:
    """`nothing_left` is set when the last group of this device is gone by destruction."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._seen_at_us: dict[GroupId, int] = {}
        self.nothing_left = False

    def turn(self, node: Node, now: Now) -> int | None:
        """Forget what is due; return when to look again."""
        revocations = self._store.groups.revocations()
        if not revocations:
            return None
        waiting = {queue.recipient for queue in self._store.outbox.queues() if queue.queued}
        for group_id, aged_us in revocations:
            manifest = node.groups.trust(group_id).current
            members = {member.keys.signing_public for member in manifest.members} if manifest else set()
            seen_us = now.monotonic_us - self._seen_at_us.setdefault(group_id, now.monotonic_us)
            age_us = max(seen_us, aged_us)  # that of the state grows now and then; no clock that is set decides
            waited_for = waiting & members
            if age_us >= REVOKE_KNOWN_US:
                waited_for = {device for device in waited_for if self._has_notice(device, group_id)}
            if age_us >= REVOKE_US or (age_us >= _NOTICE_US and not waited_for):
                with self._store.transaction():
                    node.actions.forget_destroyed(group_id, now)
                    self._store.groups.end_revocation(group_id)
                node.refresh()
        self.nothing_left = not node.groups.joined() and not self._store.groups.revocations()
        return now.monotonic_us + _LOOK_US

    def _has_notice(self, device: DeviceKey, group_id: GroupId) -> bool:
        rows = self._store.outbox.queued(device, Place(0), LINK_WINDOW_MESSAGES, LINK_WINDOW_BYTES, lane=Lane.CONTROL)
        messages = (read_message(raw, verify=False) for _, raw in rows)
        return any((each.type, each.group_id) == (MessageType.REVOKE, group_id) for each in messages)

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
