"""The role that fetches a group's manifests from before this device joined, so that it can show who admitted whom.

1. It asks one member after the other, of those recently active, while anything from before is missing.
2. While manifests come, it asks again after a minute; while none come, less and less often.

`core/membership/past.py` decides what is believed, and how often a member is asked at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.limits.group import PULL_US, PULL_US_MAX

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import DeviceKey, GroupId
    from covey.core.node import Node
    from covey.core.now import Now

_LOOK_US = 2 * PULL_US
_SEEN_US = 3_600_000_000
"""A member that was heard within an hour may answer."""


@dataclass(slots=True)
class _Progress:
    """How far back a group's manifests reach, and how often was asked since that changed."""

    lowest: int
    times: int = 0
    due_us: int = 0


class WholeChain:
    """Asks for what went before, in each group."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._groups: dict[GroupId, _Progress] = {}
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Ask where it is due; return when to look again."""
        if now.monotonic_us < self._look_at_us:
            return self._look_at_us
        self._look_at_us = now.monotonic_us + _LOOK_US
        for group in node.groups.joined():
            lowest = self._store.groups.lowest_version(group.group_id)
            if lowest <= 1:
                self._groups.pop(group.group_id, None)
                continue
            progress = self._groups.setdefault(group.group_id, _Progress(lowest))
            if progress.lowest != lowest:
                self._groups[group.group_id] = progress = _Progress(lowest)
            members = self._seen(node, group, now)
            if members and now.monotonic_us >= progress.due_us:
                progress.due_us = now.monotonic_us + min(_LOOK_US << min(progress.times, 16), PULL_US_MAX)
                with self._store.transaction():
                    node.actions.ask_for_past(group.group_id, members[progress.times % len(members)], now)
                progress.times += 1
        return self._look_at_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""

    def _seen(self, node: Node, group: GroupManifest, now: Now) -> list[DeviceKey]:
        own = node.identity.signing_public
        keys = [each.keys.signing_public for each in group.members if not each.is_board]
        seen = self._store.presence.last_seen(keys)
        recent = [key for key in keys if key != own and seen.get(key, 0) >= now.wall_us - _SEEN_US]
        return sorted(recent, key=lambda key: (-seen[key], key))
