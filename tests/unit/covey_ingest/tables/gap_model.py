"""What `gaps` is to say, number by number and gap by gap in plain Python: its SQL is compared with this."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from covey.core.wire.sequences import Range, SequenceSet
from covey_ingest.tables.gaps import CLOSED_REMEMBERED, GRACE, INCARNATIONS_REMEMBERED, RANGES_REMEMBERED

_GAP_COLUMNS = ("reason", "first_seen_at", "closed_at")

Named = tuple[int, int, str]
"""A range that a loss record names, with its reason."""

Missing = tuple[int, int, str | None]
"""A range that did not come; None is what no loss record names."""


@dataclass(slots=True)
class Gap:
    """A row of the table, but for whose it is."""

    first: int
    last: int
    reason: str | None
    first_seen_at: datetime
    closed_at: datetime | None = None


@dataclass(slots=True)
class Incarnation:
    """What is known of one incarnation's numbers; `received_at` is when its last message came."""

    collector: str
    received_at: datetime
    came: SequenceSet = field(default_factory=SequenceSet)
    floor: int = 0
    forgotten: int = 0
    gaps: list[Gap] = field(default_factory=list)

    @property
    def spans(self) -> list[Range]:
        """The numbers that came, above the floor."""
        upto = [(1, self.came.upto)] if self.came.upto else []
        return [*upto, *self.came.ranges]

    def judge(self, named: list[Named], below: int, now: datetime) -> None:
        """Find the gaps from what came and what loss records name. Numbers up to `below` are not missing (rule 1)."""
        before = self.gaps
        lost = named + [(gap.first, gap.last, gap.reason) for gap in before if gap.reason and not gap.closed_at]
        found = _missing(self.came, lost, max(self.floor, below))
        self._forget(found[:-RANGES_REMEMBERED])
        self.gaps = []
        for first, last, reason in found[-RANGES_REMEMBERED:]:
            seen = [gap.first_seen_at for gap in before if not gap.closed_at and _touch(gap, first, last)]
            self.gaps.append(Gap(first, last, reason, min(seen, default=now)))
        closed = [gap for gap in before if gap.closed_at]
        for gap in before:
            filled = not any(_touch(gap, each.first, each.last) for each in self.gaps)
            if not gap.closed_at and gap.first > self.floor and filled:
                closed.append(replace(gap, closed_at=now))
        closed.sort(key=lambda gap: (gap.closed_at or now, gap.first))
        self.gaps += closed[-CLOSED_REMEMBERED:]

    def _forget(self, old: list[Missing]) -> None:
        """Drop the oldest gaps: `floor` is their end, and `forgotten` counts the numbers that lacked in them."""
        if old:
            self.floor = old[-1][1]
            self.forgotten += sum(last - first + 1 for first, last, _ in old)
            self.came = _union([*self.spans, (1, self.floor)])


def _touch(gap: Gap, first: int, last: int) -> bool:
    return gap.first <= last and first <= gap.last


def _union(spans: list[Range]) -> SequenceSet:
    merged: list[Range] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    upto = merged.pop(0)[1] if merged and merged[0][0] == 1 else 0
    return SequenceSet(upto, tuple(merged))


def _missing(came: SequenceSet, lost: list[Named], below: int) -> list[Missing]:
    """Return what did not come above `below`, ascending, cut where a loss record begins or ends."""
    highest = max((last for _, last, _ in lost), default=0)
    beyond = [(came.highest() + 1, highest)] if highest > came.highest() else []
    found: list[Missing] = []
    ascending, row = sorted(lost), 0
    for low, high in [*came.holes(), *beyond]:
        start = max(low, below + 1)
        while row < len(ascending) and ascending[row][1] < start:
            row += 1
        for first, last, reason in ascending[row:]:
            if max(first, start) > high:
                break
            if last >= start:
                if first > start:
                    found.append((start, first - 1, None))
                found.append((max(first, start), min(last, high), reason))
                start = min(last, high) + 1
        if start <= high:
            found.append((start, high, None))
    return found


Fleet = dict[str, dict[str, Incarnation]]
"""By author, by incarnation."""


@dataclass(slots=True)
class News:
    """What a micro-batch says of one incarnation; `received_at` is when the last of it came."""

    collector: str
    received_at: datetime
    numbers: list[int] = field(default_factory=list)
    named: list[Named] = field(default_factory=list)


def take_in(fleet: Fleet, batch: dict[tuple[str, str], News]) -> None:
    """Bring a fleet up to date; authors that the batch does not name stay as they are."""
    for (author, incarnation), news in batch.items():
        one = fleet.setdefault(author, {}).setdefault(incarnation, Incarnation(news.collector, news.received_at))
        if news.received_at >= one.received_at:
            one.collector, one.received_at = news.collector, news.received_at
        one.came = _union([*one.spans, *((number, number) for number in news.numbers)])
    for author in {author for author, _ in batch}:
        newest = sorted(fleet[author].items(), key=lambda item: (item[1].received_at, item[0]))[
            -INCARNATIONS_REMEMBERED:
        ]
        known = fleet[author] = dict(sorted(newest))
        named = {name: batch[author, name].named for name in known if (author, name) in batch}
        before = {name: one.gaps for name, one in known.items()}
        while _judge(known, named, newest[-1][1].received_at):
            for name, one in known.items():
                one.gaps = before[name]


def _judge(known: dict[str, Incarnation], named: dict[str, list[Named]], now: datetime) -> bool:
    """Judge an author's incarnations by each other; return whether any forgot numbers, on which the others depend."""
    floors = [one.floor for one in known.values()]
    for name, one in known.items():
        lowest = one.spans[0][0] if one.spans else 1
        others = [span for other, each in known.items() if other != name for span in each.spans]
        below = max((min(last, lowest - 1) for first, last in others if first < lowest), default=0)
        one.judge(named.get(name, []), below, now)
    return floors != [one.floor for one in known.values()]


def gap_rows(fleet: Fleet) -> list[dict[str, Any]]:
    """Return the table's rows."""
    arrived = max((one.received_at for known in fleet.values() for one in known.values()), default=None)
    rows = []
    for author, known in sorted(fleet.items()):
        for incarnation, one in sorted(known.items()):
            whose = {"author": author, "device": author[:8], "incarnation": incarnation, "collector": one.collector}
            if one.forgotten:
                span = {"first": 1, "last": one.floor, "numbers": one.forgotten, "state": "forgotten"}
                rows.append(whose | span)
            for gap in one.gaps:
                state = "closed" if gap.closed_at else "lost" if gap.reason else "open"
                if state == "open" and arrived is not None and arrived - gap.first_seen_at >= GRACE:
                    state = "unexplained"
                span = {"first": gap.first, "last": gap.last, "numbers": gap.last - gap.first + 1, "state": state}
                rows.append(whose | span | {name: getattr(gap, name) for name in _GAP_COLUMNS})
    return rows
