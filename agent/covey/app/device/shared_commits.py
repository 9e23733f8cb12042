"""Commits that callers share: requests of the agent's other threads, written together by its loop.

A commit costs a sync however many messages it holds. Rules:

1. A request is answered after the commit that contains it, never before.
2. While the loop writes one commit, further requests wait for the next one. If several shared the last commit, the
   loop waits up to `SHARED_COMMIT_WAIT_US` for as many again. A single caller never waits.
3. A request that is refused before it has written anything is refused alone. If it has written something, its commit
   is rolled back, and the others are written without it (as `loop/deliveries.py`, rule 3).
4. A slow caller delays no other one: each request is made and answered in the caller's thread. If the loop answered,
   half as many messages would pass: callers would come back one by one, and not share their next commit. A commit takes
   at most `SHARED_COMMIT_BYTES`; further requests wait for the next one.
5. A caller that has waited for too long withdraws its request, and knows that nothing was queued. That is no longer
   possible once the loop writes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import TYPE_CHECKING

from covey.errors import DiskFullError, StorageError, TransientError
from covey.limits.storage import SHARED_COMMIT_BYTES, SHARED_COMMIT_WAIT_US

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.node import Node
    from covey.core.now import Now

Work = Callable[["Node", "Now"], int]
"""Writes a request within a transaction, and returns its result."""

_BUSY_S = 10.0
"""The loop's turns take less, unless its disk hangs."""


@dataclass(slots=True, eq=False)
class _Request:
    work: Work
    size: int
    outcome: int | Exception = 0
    _unanswered: Lock = field(default_factory=Lock)  # held until the answer: a third of the cost of an Event

    def __post_init__(self) -> None:
        self._unanswered.acquire()

    def answer(self, outcome: int | Exception) -> None:
        self.outcome = outcome
        self._unanswered.release()

    def wait(self, seconds: float) -> bool:
        """Wait for the answer; return whether it came."""
        return self._unanswered.acquire(timeout=seconds)


class SharedCommits:
    """Implements `runtime.AgentRole` for the loop; `commit` is for other threads."""

    def __init__(self, store: SqliteStore, wake: Callable[[], None]) -> None:
        """`wake` makes the loop do a turn."""
        self._store = store
        self._wake = wake
        self._waiting: deque[_Request] = deque()
        self._arrived = Condition()
        self._shared_before = self._awaited = 0
        self._closed = False

    def commit(self, work: Work, size: int = 0) -> int:
        """Have the loop do `work` in its next commit; return its result after the commit. `size` is its content's.

        Raises:
            CoveyError: as `work` raises it; nothing was written.
            StorageError: the disk refused the commit.
            TransientError: the loop did not get to it, or its disk hangs.
        """
        request = _Request(work, size)
        with self._arrived:
            if self._closed:
                raise _stopping()
            self._waiting.append(request)  # bounded: a connection to the local API waits for each
            first = len(self._waiting) == 1
            if len(self._waiting) == self._awaited:  # once, and not for each of them: the loop would wake in vain
                self._arrived.notify()
        if first:
            self._wake()
        if not request.wait(_BUSY_S):
            self._withdraw(request)
        if isinstance(request.outcome, Exception):
            raise request.outcome
        return request.outcome

    def _withdraw(self, request: _Request) -> None:
        with self._arrived:
            if request in self._waiting:
                self._waiting.remove(request)
                raise TransientError("the agent is busy, and nothing was queued", hint="try again")
        if not request.wait(_BUSY_S):
            raise TransientError(
                "the disk does not answer, and the content may have been queued or not",
                hint="with an Idempotency-Key it is safe to try again",
            )

    def turn(self, node: Node, now: Now) -> int | None:
        """Write what waits, and answer it; return when there is more to write."""
        requests = self._take()
        if requests:
            self._write(requests, node, now)
        return now.monotonic_us if self._waiting else None

    @property
    def waiting(self) -> int:
        """How many requests wait for the next commits."""
        return len(self._waiting)

    def stop(self, node: Node, now: Now) -> None:
        """Write what still waits, and refuse what comes later."""
        with self._arrived:
            self._closed = True
        self.turn(node, now)
        self.close()

    def close(self) -> None:
        """Refuse what waits, and what comes later: no loop writes it."""
        with self._arrived:
            self._closed = True
            left, self._waiting = list(self._waiting), deque()
        for request in left:
            request.answer(_stopping())

    def _take(self) -> list[_Request]:
        with self._arrived:
            if 0 < len(self._waiting) < self._shared_before and not self._closed:
                self._awaited = self._shared_before
                self._arrived.wait_for(lambda: len(self._waiting) >= self._awaited, SHARED_COMMIT_WAIT_US / 1e6)
                self._awaited = 0
            taken: list[_Request] = []
            room = SHARED_COMMIT_BYTES
            while self._waiting and (not taken or self._waiting[0].size <= room):
                taken.append(self._waiting.popleft())
                room -= taken[-1].size
        if taken:
            self._shared_before = len(taken)
        return taken

    def _write(self, requests: list[_Request], node: Node, now: Now) -> None:
        outcomes: list[int | Exception] = []
        refused: _Request | None = None
        try:
            with self._store.transaction():
                for request in requests:
                    before = self._store.changes
                    try:
                        outcomes.append(request.work(node, now))
                    except Exception as error:
                        if isinstance(error, StorageError) or self._store.changes != before:
                            refused = request
                            raise
                        outcomes.append(error)
        except Exception as error:
            node.discard()
            if refused is None or (isinstance(error, StorageError) and not isinstance(error, DiskFullError)):
                for request in requests:
                    request.answer(error)
                if isinstance(error, StorageError):
                    raise
                return
            refused.answer(error)
            with self._arrived:
                self._waiting.extendleft(request for request in reversed(requests) if request is not refused)
            return
        for request, outcome in zip(requests, outcomes, strict=True):
            request.answer(outcome)


def _stopping() -> TransientError:
    return TransientError("the agent is stopping, and nothing was queued", hint="try again when it runs")
