"""What has come over each link. Part of `SqliteStore`.

Within a transaction nobody else writes, so a link is read once and written once, however many messages it brings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from covey.adapters.sqlite.outbox import check_digest, digest
from covey.core.wire.sequences import SequenceSet

_Link = tuple[bytes, bytes]


class ReceivedTables:
    """What `core.records.Records` remembers of links."""

    _within = False
    """Whether a transaction is open."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[_Link, SequenceSet] = {}
        self._unwritten: set[_Link] = set()

    def _run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        raise NotImplementedError

    def begin_links(self) -> None:
        """Note that a transaction is open."""
        self._within = True

    def write_links(self) -> None:
        """Write what the open transaction has noted so far."""
        for author, incarnation in self._unwritten:
            self._write(author, incarnation, self._known[author, incarnation])
        self._unwritten.clear()

    def end_links(self) -> None:
        """Note that the transaction has ended, one way or the other: from now on, others may write."""
        self._known.clear()
        self._unwritten.clear()
        self._within = False

    def links(self, author: bytes) -> list[tuple[bytes, SequenceSet]]:
        """Return (incarnation, what has come) of each link from an author."""
        self.write_links()
        rows = self._run("SELECT incarnation FROM received WHERE author = ? ORDER BY incarnation", (author,))
        return [(bytes(row[0]), self.received(author, row[0])) for row in rows]

    def incarnations(self, author: bytes) -> int:
        """Return of how many incarnations of an author links are remembered."""
        self.write_links()
        return int(self._run("SELECT count(*) FROM received WHERE author = ?", (author,))[0][0])

    def forget_incarnations(self, author: bytes, keep: bytes) -> None:
        """Forget an author's links, except for one incarnation and those of which something has still to land."""
        self.write_links()
        self._known.clear()
        self._run(
            "DELETE FROM received WHERE author = ? AND incarnation <> ? "
            "AND incarnation NOT IN (SELECT incarnation FROM landing WHERE author = ?)",
            (author, keep, author),
        )

    def received(self, author: bytes, incarnation: bytes) -> SequenceSet:
        """Return what has come over a link."""
        known = self._known.get((author, incarnation)) if self._within else None
        if known is None:
            known = self._read(author, incarnation)
            if self._within:
                self._known[author, incarnation] = known
        return known

    def set_received(self, author: bytes, incarnation: bytes, received: SequenceSet) -> None:
        """Remember what has come over a link."""
        if self._within:
            self._known[author, incarnation] = received
            self._unwritten.add((author, incarnation))
        else:
            self._write(author, incarnation, received)

    def _read(self, author: bytes, incarnation: bytes) -> SequenceSet:
        rows = self._run(
            "SELECT upto, ranges, digest FROM received WHERE author = ? AND incarnation = ?", (author, incarnation)
        )
        if not rows:
            return SequenceSet()
        upto, ranges, stored = rows[0]
        check_digest(stored, author, incarnation, upto, ranges)
        return SequenceSet(upto, tuple(map(tuple, json.loads(ranges))))

    def _write(self, author: bytes, incarnation: bytes, received: SequenceSet) -> None:
        ranges = json.dumps(received.ranges)
        self._run(
            "INSERT OR REPLACE INTO received VALUES (?, ?, ?, ?, ?)",
            (author, incarnation, received.upto, ranges, digest(author, incarnation, received.upto, ranges)),
        )
