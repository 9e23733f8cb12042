"""What a micro-batch brought, and how far the ingest lags behind.

The job knows what it wrote. Spark's listener hears of a micro-batch a moment later, in a thread of its own, and knows
how far the vault reached.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey_ingest.vault.offsets import Offset, Position, nodes_of

if TYPE_CHECKING:
    from covey_ingest.committer.copies import TableFile


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch, for the terminal, for logs and for metrics."""

    batch_id: int
    seconds: float
    messages: int
    readings: int
    losses: int
    quarantined: int
    repeats: int
    orders: int = 0
    """Of orders, and of what devices report of them."""
    memberships: int = 0
    """Members that signed manifests list, and profiles of groups."""
    repaired: int = 0
    unverified: int = 0
    bytes: int = 0
    newest_us: int | None = None
    """The newest arrival at a collector, in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the tables are behind what the vault lists."""

    segments: int
    seconds: float
    """The age of the newest arrival in the tables while segments wait, else 0."""


_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class NodeTrouble:
    """A node of a vault that is not followed any further for now: its readings so far stay, later ones wait."""

    node: str
    """Its id in hex; of a further vault after that vault's."""
    code: str


class Watcher:
    """Who is told how far an ingest has come. This one is deaf; others override what they want to hear."""

    def written(self, progress: Progress) -> None:
        """A micro-batch is in the tables."""

    def lags(self, lag: Lag) -> None:
        """So much was still to come after it."""

    def damaged(self, file: TableFile) -> None:
        """A file of the tables was damaged by its disk; it may be restored."""

    def troubled(self, trouble: NodeTrouble) -> None:
        """A node of a vault is not followed; told once."""


class ProgressReporter:
    """Reports each micro-batch at once, before the next is planned, and the lag when Spark reports it."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._written: Progress | None = None
        self._lag_known_upto = -1
        self._troubles: set[NodeTrouble] = set()
        self._changed = threading.Condition()

    def written(self, progress: Progress) -> None:
        """Report what the job wrote."""
        with self._changed:
            self._written = progress
        self._watcher.written(progress)

    def lags(self, batch_id: int, segments: int | None) -> None:
        """Report the lag after a micro-batch, in segments; None where Spark did not say."""
        with self._changed:
            newest_us = self._written.newest_us if self._written else None
            self._lag_known_upto = batch_id
            self._changed.notify_all()
        if segments is not None:
            age = time.time() - newest_us / 1e6 if segments and newest_us is not None else 0.0
            self._watcher.lags(Lag(segments, round(max(age, 0.0), 1)))

    def damaged(self, files: Iterable[TableFile]) -> None:
        """Report damaged files."""
        for file in files:
            self._watcher.damaged(file)

    def reached(self, offset: Offset) -> None:
        """Report which nodes an offset says are not followed, those that were not reported yet."""
        found = {
            NodeTrouble(node, trouble.partition(" ")[0])
            for node in nodes_of(offset)
            if (trouble := Position.of(offset, node).trouble)
        }
        for each in sorted(found - self._troubles, key=lambda each: each.node):
            self._watcher.troubled(each)
        self._troubles = found

    def finish(self) -> None:
        """Wait a little for the lag of the last micro-batch, which the listener is still to get."""
        with self._changed:
            last = self._written.batch_id if self._written else -1
            self._changed.wait_for(lambda: self._lag_known_upto >= last, _PATIENCE_SECONDS)


def segments_behind(end: str | None, latest: str | None) -> int | None:
    """Return the segments between two offsets of the source, as Spark shows them; None where it shows none."""
    return segments_between(json.loads(end), json.loads(latest)) if end and latest else None


def segments_between(reached: Offset, there: Offset) -> int:
    """Return the segments between two offsets."""
    return sum(max(int(there[node][1]) - int(reached.get(node, [0, 0])[1]), 0) for node in nodes_of(there))
