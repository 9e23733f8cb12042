"""Telling of orders by those who have no say here, a role of the agent (docs/protocol.md, "Orders", *Attempts*).

Of what it told it keeps nothing: after a start it tells once more of what came within the last two days, and of nothing
older. Counters are kept: each attempt is counted once, also where the history forgets it later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from covey.app.wording import count
from covey.core.ids import labelled_name
from covey.ports import Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.orders.attempts import Attempts
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import GroupId
    from covey.core.node import Node
    from covey.core.now import Now

_MINUTE_US = 60_000_000
_DAY_US = 24 * 60 * _MINUTE_US
_RECENT_US = 2 * _DAY_US
_COUNTED = "attempts"
"""The condition that says how many of each code were seen last: `code=number`, with spaces between them."""
_LINES = 3
"""Written at one look; there is one a minute, at most."""


class OrderAttempts:
    """Looks at what has come, counts it, and writes one line a day for each (group, author, code)."""

    def __init__(self, attempts: Callable[[GroupManifest], Attempts], store: SqliteStore, report: Report) -> None:
        self._attempts = attempts
        self._store = store
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
        seen: Counter[str] = Counter()
        for group in groups:
            found = self._attempts(group)
            left |= found.open
            for each in found.entries:
                seen[each.code] += each.count
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
                what = f"{count(each.count, 'order')} by {labelled_name(each.name, each.label)}, {each.why}"
                self._report("warning", f"group {group.group_id.hex()[:8]}: {what}; 'covey orders refused' shows them")
        self._count(seen, now)
        return left

    def _count(self, seen: Mapping[str, int], now: Now) -> None:
        said = " ".join(f"{code}={number}" for code, number in sorted(seen.items()))
        before, _ = self._store.conditions.values().get(_COUNTED, ("", 0))
        if said == before:
            return
        known = {code: int(number) for code, _, number in (each.partition("=") for each in before.split())}
        with self._store.transaction():
            for code, number in seen.items():
                if number > known.get(code, 0):
                    self._store.counters.count(f"{_COUNTED}_{code}", number - known.get(code, 0))
            self._store.conditions.set(_COUNTED, said, now.wall_us)

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
