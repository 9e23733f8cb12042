"""Count orders by devices without authority on this device, by author and reason, and report them.

The role (docs/protocol/history.md, "Orders", *Attempts*) keeps nothing of what it reported: after a start it reports
the last
two days once more, and nothing older. Counters are stored: each attempt counts once, even after its history is deleted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.device.pins import pins
from covey.app.wording import count
from covey.core.ids import device_name, labelled_name
from covey.core.orders import attempts as judgement
from covey.ports import Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import GroupId, OperationId
    from covey.core.node import Node
    from covey.core.now import Now


WHY = {
    judgement.NO_OPERATOR: "not an operator here",
    judgement.REMOVED: "removed from the group before the order arrived",
    judgement.TOO_FEW: "too few operators approved",
}
"""What stands against orders, after who gave them."""

_MINUTE_US = 60_000_000
_SETTLES_US = {judgement.NO_OPERATOR: 5 * _MINUTE_US, judgement.REMOVED: 0, judgement.TOO_FEW: 24 * 60 * _MINUTE_US}
"""From its coming to its being told of: the addition of an operator comes in the same catch-up or the next one, and
who is to agree has slept once. What is void came too late already."""


@dataclass(frozen=True, slots=True)
class AttemptEntry:
    """The orders of one author that nobody obeys here, for one reason: a code, and in words.

    Times are microseconds since 1970, when the first and the last one came, by this device's clock; `last` is the id
    of the last one.
    """

    author: str
    name: str
    label: str
    code: str
    why: str
    count: int
    first_us: int
    last_us: int
    last: str


@dataclass(frozen=True, slots=True)
class Attempts:
    """Reported attempts of a group, by author and code; `open` means that some arrived that are not reported yet."""

    entries: tuple[AttemptEntry, ...]
    open: bool


def attempts(device: Device, manifest: GroupManifest) -> Attempts:
    """Return who gave orders in a group without a say here; what may yet come to count is told once it had its time.

    Raises:
        ConfigurationError: what is pinned is no key.
    """
    group_id, now_us = manifest.group_id, device.clock.wall_us()
    void = device.node.history.standing(group_id).void
    found = judgement.attempts(device.store.operations, group_id, pins(device, group_id), void)
    if not found:
        return Attempts((), open=False)
    from covey.app.groups.groups import labels_in  # few groups have any: it spares the memory

    labels, entries, waits = labels_in(device, manifest), [], False
    for (author, code), made in found.items():
        settled = len(made)
        if _SETTLES_US[code]:
            settled = bisect_right(
                made, now_us - _SETTLES_US[code], key=lambda each: _came_us(device, group_id, each.id)
            )
        waits |= settled < len(made)
        if settled:
            last = made[settled - 1].id
            entries.append(
                AttemptEntry(
                    *(author.hex(), device_name(author), labels.label(author), code, WHY[code], settled),
                    *(_came_us(device, group_id, made[0].id), _came_us(device, group_id, last), last.hex()),
                )
            )
    return Attempts(tuple(entries), waits)


def _came_us(device: Device, group_id: GroupId, operation_id: OperationId) -> int:
    return device.store.operations.stored_at_us(group_id, operation_id)


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
        """Report new attempts; return whether to look again without news."""
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
                self._report("warning", f"group {group.group_id.hex()[:8]}: {what}; 'covey order refused' lists them")
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
