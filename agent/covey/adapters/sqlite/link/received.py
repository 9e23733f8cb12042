"""The table of what has come over each link.

A link is read once and written once in a transaction, however many messages it brings, and remembered until another
process has written: a collector that has landed something asks for the same links again.
"""

from __future__ import annotations

import json

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.rows import check_digest, digest, drop_oldest
from covey.core.ids import DeviceKey, Incarnation
from covey.core.wire.sequences import Range, SequenceSet
from covey.limits.link import MAXIMUM_RECEIVED_RANGES
from covey.limits.storage import LINKS_REMEMBERED

_WRITE = "INSERT OR REPLACE INTO received VALUES (?, ?, ?, ?, ?)"

_Link = tuple[DeviceKey, Incarnation]


class Received:
    """What has come over each link: one author and one of its incarnations."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[_Link, SequenceSet] = {}
        self._unwritten: set[_Link] = set()
        database.remember_longer(self._forget, self._flush)

    def _flush(self) -> None:
        if self._unwritten:
            self._database.run_each(_WRITE, [_row(link, self._known[link]) for link in sorted(self._unwritten)])
            self._unwritten.clear()
        drop_oldest(self._known, LINKS_REMEMBERED)

    def _forget(self) -> None:
        self._known.clear()
        self._unwritten.clear()

    def links(self, author: DeviceKey) -> list[tuple[Incarnation, SequenceSet]]:
        self._flush()
        rows = self._database.run("SELECT incarnation FROM received WHERE author = ? ORDER BY incarnation", (author,))
        return [(Incarnation(row[0]), self.of(author, row[0])) for row in rows]

    def missing(self) -> dict[DeviceKey, int]:
        """Return how many numbers later ones have overtaken, of each author whose links lack any."""
        self._flush()
        found: dict[DeviceKey, int] = {}
        for author, upto, ranges in self._database.run(
            "SELECT author, upto, ranges FROM received WHERE ranges <> '[]'"
        ):
            spans = _ranges(ranges)
            held = sum(last - first + 1 for first, last in spans)
            found[DeviceKey(author)] = found.get(DeviceKey(author), 0) + spans[-1][1] - upto - held
        return found

    def count(self, author: DeviceKey) -> int:
        self._flush()
        return int(self._database.run("SELECT count(*) FROM received WHERE author = ?", (author,))[0][0])

    def forget(self, author: DeviceKey, keep: Incarnation) -> None:
        self._database.flush()
        self._known.clear()
        self._database.run(
            "DELETE FROM received WHERE author = ? AND incarnation <> ? "
            "AND incarnation NOT IN (SELECT incarnation FROM landing WHERE author = ?)",
            (author, keep, author),
        )
        self._database.run(
            "DELETE FROM resumed WHERE author = ? "
            "AND incarnation NOT IN (SELECT incarnation FROM received WHERE author = ?)",
            (author, author),
        )

    def of(self, author: DeviceKey, incarnation: Incarnation) -> SequenceSet:
        known = self._known.get((author, incarnation)) if self._database.holds() else None
        if known is None:
            known = self._read(author, incarnation)
            if self._database.within:
                self._known[author, incarnation] = known
        return known

    def set(self, author: DeviceKey, incarnation: Incarnation, received: SequenceSet) -> None:
        if self._database.within:
            self._known[author, incarnation] = received
            self._unwritten.add((author, incarnation))
        else:
            self._known.pop((author, incarnation), None)
            self._database.run(_WRITE, _row((author, incarnation), received))

    def _read(self, author: DeviceKey, incarnation: Incarnation) -> SequenceSet:
        rows = self._database.run(
            "SELECT upto, ranges, digest FROM received WHERE author = ? AND incarnation = ?", (author, incarnation)
        )
        if not rows:
            return SequenceSet()
        upto, ranges, stored = rows[0]
        check_digest(stored, author, incarnation, upto, ranges)
        return SequenceSet(upto, _ranges(ranges))

    def resumed(self, author: DeviceKey, incarnation: Incarnation) -> SequenceSet:
        """Return what of a link only resumptions have closed."""
        query = "SELECT ranges, digest FROM resumed WHERE author = ? AND incarnation = ?"
        row = self._database.first(query, (author, incarnation))
        if row is None:
            return SequenceSet()
        ranges, stored = row
        check_digest(stored, author, incarnation, ranges)
        return SequenceSet().including(_ranges(ranges))

    def set_resumed(self, author: DeviceKey, incarnation: Incarnation, resumed: SequenceSet) -> None:
        spans = resumed.spans()[-MAXIMUM_RECEIVED_RANGES:]
        if not spans:
            self._database.run("DELETE FROM resumed WHERE author = ? AND incarnation = ?", (author, incarnation))
            return
        ranges = json.dumps(spans)
        self._database.run(
            "INSERT OR REPLACE INTO resumed VALUES (?, ?, ?, ?)",
            (author, incarnation, ranges, digest(author, incarnation, ranges)),
        )


def _row(link: _Link, received: SequenceSet) -> tuple[object, ...]:
    ranges = json.dumps(received.ranges) if received.ranges else "[]"
    return *link, received.upto, ranges, digest(*link, received.upto, ranges)


def _ranges(stored: str) -> tuple[Range, ...]:
    return () if stored == "[]" else tuple((first, last) for first, last in json.loads(stored))
