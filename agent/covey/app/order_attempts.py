"""Telling of orders by those who have no say here, a role of the agent (docs/protocol.md, "Orders", *Attempts*).

It keeps nothing: after a start it tells once more of what came within the last two days, and of nothing older.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from covey.app.wording import count
from covey.ports import Report

if TYPE_CHECKING:
    from covey.app.operations.attempts import Attempts
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import GroupId
    from covey.core.node import Node
    from covey.core.now import Now

_MINUTE_US = 60_000_000
_DAY_US = 24 * 60 * _MINUTE_US
_RECENT_US = 2 * _DAY_US
_LINES = 3
"""Written at one look; there is one a minute, at most."""


class OrderAttempts:
    """Looks at what has come, and writes one line a day for each (group, author, code)."""

    def __init__(self, attempts: Callable[[GroupManifest], Attempts], report: Report) -> None:
        self._attempts = attempts
        self._report = report
        self._seen: tuple[int, int] | None = None
        self._looked_us = -_MINUTE_US
        self._open = False
        self._reported: dict[tuple[GroupId, str, str], tuple[int, int]] = {}
        """When a line was written, and how many there were."""

    def turn(self, node: Node, now: Now) -> int | None:
        """Look, if something has come or was left open; return when to be called next, in monotonic microseconds."""
        seen = (id(node), node.history.generation)
        if seen == self._seen and not self._open:
            return None
        if now.monotonic_us >= self._looked_us + _MINUTE_US:
            self._seen, self._looked_us = seen, now.monotonic_us
            self._open = self._look(node.groups.joined(), now)
        return self._looked_us + _MINUTE_US if self._open or seen != self._seen else None

    def _look(self, groups: Sequence[GroupManifest], now: Now) -> bool:
        """Tell of what there is; return whether to look again though nothing comes."""
        lines, left = 0, False
        for group in groups:
            found = self._attempts(group)
            left |= found.open
            for each in found.entries:
                key = group.group_id, each.author, each.code
                reported_us, reported = self._reported.get(key, (now.monotonic_us - _DAY_US, 0))
                if each.count == reported or each.last_us <= now.wall_us - _RECENT_US:
                    continue
                if now.monotonic_us < reported_us + _DAY_US:
                    continue
                if lines == _LINES:
                    left = True
                    continue
                lines += 1
                self._reported[key] = now.monotonic_us, each.count
                what = f"{count(each.count, 'order')} by {each.name}, {each.why}"
                self._report("warning", f"group {group.group_id.hex()[:8]}: {what}; 'covey orders refused' shows them")
        return left

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
