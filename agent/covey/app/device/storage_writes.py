"""How much this device writes to its storage: counted by the agent, shown by `covey status`. A card wears with it.

1. The kernel counts (`adapters/process_writes.py`); the agent adds its counts up in its state, by running time. A wall
   clock that jumps changes nothing.
2. Noting a count is itself a commit of some 8 kB. So it is noted when `WRITES_NOTED_BYTES` more were written, when a
   day is over, or when the agent stops. A power cut loses what was not noted: the result is a little too low.
3. The loop's transactions on the state database (outbox, inbox, history) are counted separately, too.
4. The last `_SPANS` spans of a day of running time are kept, so that a change of settings shows within a week.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.process_writes import ProcessWrites
from covey.limits.storage import WRITES_LOOK_US, WRITES_NOTED_BYTES

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.node import Node
    from covey.core.now import Now

WRITTEN_COUNTER = "written_bytes"
DATABASE_COUNTER = "written_database_bytes"
_CONDITION = "written"
_SPANS = 7
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class WrittenBytes:
    """Bytes written while an agent ran for so many seconds, and those of them that the state database took."""

    bytes: int
    seconds: int
    database_bytes: int = 0

    def __add__(self, other: WrittenBytes) -> WrittenBytes:
        return WrittenBytes(
            self.bytes + other.bytes, self.seconds + other.seconds, self.database_bytes + other.database_bytes
        )

    @property
    def per_day(self) -> int | None:
        """The average of a day; None if less than a day was counted."""
        return self.bytes * _DAY_S // self.seconds if self.seconds >= _DAY_S else None


def lately_written(store: SqliteStore) -> WrittenBytes | None:
    """Return what was written in the last week that agents ran on this state; None if nothing was counted."""
    spans = _spans(store)
    return sum(spans, WrittenBytes(0, 0)) if spans else None


def _spans(store: SqliteStore) -> list[WrittenBytes]:
    value, _ = store.conditions.values().get(_CONDITION, ("[]", 0))
    try:
        return [WrittenBytes(*map(int, span)) for span in json.loads(value)]
    except (ValueError, TypeError):  # a damaged row: counting starts again
        return []


class StorageWrites:
    """Implements `runtime.AgentRole`."""

    def __init__(self, store: SqliteStore, writes: ProcessWrites, now: Now) -> None:
        """Begin to count running time."""
        self._store = store
        self._writes = writes
        self._noted_us = self._looked_us = now.monotonic_us

    def turn(self, node: Node, now: Now) -> None:
        """Look every ten minutes, and note what rule 2 says."""
        del node
        if now.monotonic_us < self._looked_us + WRITES_LOOK_US:
            return
        self._looked_us = now.monotonic_us
        amount = self._writes.unnoted()
        if amount is not None and (amount >= WRITES_NOTED_BYTES or self._seconds(now) >= _DAY_S):
            self._note(amount, now)

    def stop(self, node: Node, now: Now) -> None:
        """Note what is not noted yet."""
        del node
        amount = self._writes.unnoted()
        if amount:
            self._note(amount, now)

    def _seconds(self, now: Now) -> int:
        return (now.monotonic_us - self._noted_us) // 1_000_000

    def _note(self, amount: int, now: Now) -> None:
        seconds, database = self._seconds(now), self._store.database.written_bytes
        with self._store.transaction():
            *older, newest = _spans(self._store) or [WrittenBytes(0, 0)]
            spans = [*older, newest] if newest.seconds < _DAY_S else [*older, newest, WrittenBytes(0, 0)]
            spans[-1] += WrittenBytes(amount, seconds, min(database, amount))
            value = json.dumps([(span.bytes, span.seconds, span.database_bytes) for span in spans[-_SPANS:]])
            self._store.conditions.set(_CONDITION, value, now.wall_us)
            self._store.counters.count(WRITTEN_COUNTER, amount)
            self._store.counters.count(DATABASE_COUNTER, min(database, amount))
        self._writes.note(amount)
        self._store.database.written_bytes -= database
        self._noted_us += seconds * 1_000_000
